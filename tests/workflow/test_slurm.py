"""A part of the smoke configuration through a real SLURM, and through what clusters do to jobs.

One run has it all, because each is only worth something when the run ends with the same bytes:
a job is held until its time is up, one is warned that it will be, one is cancelled, the node is
drained and resumed, and Snakemake is killed and started again.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mispair.planning.cluster import LEAST
from tests.fork_server import python
from tests.object_store import TOKEN, object_store
from tests.pairs.test_step_index_shards import write_shards
from tests.slurm_cluster import Cluster, missing_programs
from tests.slurm_faults import MET, Driver, Run, megabytes, minutes, rule_of, shown, through_faults
from tests.workflow.conftest import SMOKE, Checkout, new_checkout, other_bytes

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(
        bool(missing_programs()),
        reason=f"needs {', '.join(missing_programs())}: Debian's slurm-wlm and munge have them",
    ),
]

ACCOUNT = "my-lab"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(account=ACCOUNT) as started:
        yield started


@pytest.fixture(scope="module")
def run(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Run:
    checkout = new_checkout(tmp_path_factory.mktemp("slurm") / "mispair")
    return through_faults(cluster, checkout, python(MET))


def test_every_job_really_ran_in_slurm(run: Run) -> None:
    groups = run.profile["groups"]
    ran = {rule_of(job) for job in run.jobs if job["JobState"] == "COMPLETED"}
    benchmarks = run.checkout.folder / "benchmarks"
    steps = {path.relative_to(benchmarks).parts[0].removesuffix(".tsv")
             for path in benchmarks.rglob("*.tsv")}  # fmt: skip
    assert len(steps) > 25
    # Rules of another name than their step, or of several steps.
    renamed = {
        "encode_evaluation": "encode_generated",
        "encode_prompts": "encode_generated_prompts",
        "evaluate_zeroshot+measure_purity": "measure_arm",
    }
    rules = {renamed.get(step, step) for step in steps} | {"list_features"}
    expected = {groups.get(rule, rule) for rule in rules}
    assert {next((g for g in set(groups.values()) if r == g or r.startswith(f"{g}_")), r)
            for r in ran} == expected  # fmt: skip
    assert "localrule " not in run.printed


def test_requests_are_those_of_the_profiles(run: Run) -> None:
    wanted = run.profile["set-resources"]
    seen, asked_less = 0, False
    for job in run.jobs:
        if (rule := rule_of(job)) not in wanted:
            continue  # a group
        attempts = range(1, 2 + run.profile["retries"])
        memory, times = (
            {eval(wanted[rule][key], {"attempt": attempt}) for attempt in attempts}
            for key in ("mem_mb", "runtime")
        )
        # The first attempt asks for what is planned, if that is less.
        asked, limit = megabytes(job["MinMemoryNode"]), minutes(job["TimeLimit"])
        assert asked in memory or LEAST["mem_mb"] <= asked < min(memory), job
        assert limit in times or LEAST["runtime"] <= limit < min(times), job
        asked_less |= asked < min(memory)
        assert job["JobName"].startswith("mispair_")
        assert job["Account"] == ACCOUNT
        assert job["Requeue"] == "1"
        gpu = rule == "encode_features"
        assert job["Partition"] == ("gpu" if gpu else "cpu")
        assert ("gres:gpu:fake:1" in job.get("TresPerJob", "")) is gpu
        assert ("TresPerJob" in job) is gpu
        seen += 1
    assert seen > 15
    assert asked_less


def test_a_job_out_of_time_is_sent_again_with_more_of_both(run: Run) -> None:
    (job,) = [job for job in run.jobs if job["JobId"] == run.timed_out]
    assert job["JobState"] == "TIMEOUT"
    first, *later = sorted(run.attempts(job), key=lambda job: int(job["JobId"]))
    assert first is job
    assert later[-1]["JobState"] == "COMPLETED"
    assert minutes(later[0]["TimeLimit"]) == 2 * minutes(job["TimeLimit"])
    assert megabytes(later[0]["MinMemoryNode"]) >= 2 * megabytes(job["MinMemoryNode"])
    assert "DUE TO TIME LIMIT" in Path(job["StdOut"]).read_text()


def test_a_warned_job_saves_its_state_and_is_sent_again(run: Run) -> None:
    (job,) = [job for job in run.jobs if job["JobId"] == run.warned]
    assert job["JobState"] == "FAILED"
    assert "the same command goes on from there" in run.warned_words
    assert "going on from" in run.warned_log.read_text()
    assert [other["JobState"] for other in run.attempts(job)][-1] == "COMPLETED"


def test_a_cancelled_job_is_sent_again_with_the_same_request(run: Run) -> None:
    (job,) = [job for job in run.jobs if job["JobId"] == run.cancelled]
    assert job["JobState"] == "CANCELLED"
    (*_, last) = sorted(run.attempts(job), key=lambda job: int(job["JobId"]))
    assert last["JobState"] == "COMPLETED"
    for request in ("MinMemoryNode", "TimeLimit"):
        assert last[request] == job[request]


def test_nothing_started_on_the_drained_node(run: Run) -> None:
    assert run.waited_while_drained > 0
    assert run.started_while_drained == 0


def test_what_was_done_before_snakemake_was_killed_is_not_done_again(run: Run) -> None:
    assert run.done_before_the_kill
    again = [job["Comment"] for job in run.jobs if job["JobState"] == "COMPLETED"]
    twice = {comment for comment in run.done_before_the_kill if again.count(comment) > 1}
    # What ended in SLURM in the seconds before the kill may not have been written down yet.
    assert len(twice) <= 4, twice


# From here on with another run, which another process makes meanwhile.


def test_it_ends_with_the_bytes_of_two_cores(run: Run, undisturbed: Checkout) -> None:
    assert other_bytes(run.checkout, undisturbed) == []


def test_logs_lie_where_they_do_without_slurm(run: Run, finished: Checkout) -> None:
    def logs(checkout: Checkout) -> set[str]:
        folder = checkout.folder / "logs"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.log")
                if "slurm" not in path.parts}  # fmt: skip

    assert len(logs(run.checkout)) > 30
    assert logs(run.checkout) <= logs(finished)


def test_a_failure_names_its_job_of_slurm(cluster: Cluster, tmp_path: Path) -> None:
    checkout = new_checkout(tmp_path / "mispair")
    (weights,) = checkout.folder.glob(
        "workflow/mispair/towers/shipped/scenes-small/open_clip_model.*"
    )
    weights.write_bytes(b"\x08" + bytes(7) + b"{no json")
    target = "results/arms/scenes/scenes-small/untouched/projection.safetensors"
    options = [target, "--workflow-profile", "slurm", "--retries", "0", "--jobs", "1",
               "--configfile", SMOKE]  # fmt: skip
    driver = Driver(cluster, checkout, options)
    driver.start()
    assert driver.process.wait(300) == 1
    (job,) = [job for job in shown(cluster) if job["WorkDir"] == str(checkout.folder)]
    (failed,) = json.loads((checkout.folder / "logs/failures.json").read_text())["failed"]
    assert failed["rule"] == "extract_projection"
    assert failed["slurm_jobs"] == [job["JobId"]]
    printed = driver.log.read_text()
    assert f"SLURM job {job['JobId']}" in printed
    assert str(weights.relative_to(checkout.folder)) in printed.partition("extract_projection")[2]


def test_jobs_fetch_remote_shards_with_credentials_of_the_environment(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One shard of each kind of store: the address decides nothing else."""
    secret = "hunter2hunter2"
    with object_store() as store:
        address = f"http://127.0.0.1:{store.port}"
        places = ("s3://bucket", "gs://bucket/set", "hf://datasets/owner/name")
        shards = write_shards(tmp_path / "shards", 3)
        for place, path in zip(places, shards, strict=True):
            key = place.split("://")[1].removeprefix("datasets/")
            store.objects[f"{key}/{path.name}"] = path.read_bytes()
        variables = {
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL": address, "HF_ENDPOINT": address, "HF_TOKEN": TOKEN,
            "STORAGE_EMULATOR_HOST": address, "FSSPEC_GS_TOKEN": "anon",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
        }  # fmt: skip
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        checkout = new_checkout(tmp_path / "mispair")
        config = {"studies": ["image_text"], "corpus": "mine", "towers": "shipped"}
        config["shards"] = [
            f"{place}/{path.name}" for place, path in zip(places, shards, strict=True)
        ]
        config["index_shards"] = {"shards_per_job": 2}
        (checkout.folder / "own.yaml").write_text(yaml.safe_dump(config))
        targets = [
            f"results/features/mine/scenes-small/{group}.safetensors" for group in ("0000", "0001")
        ]
        driver = Driver(cluster, checkout, [*targets, "--workflow-profile", "slurm", "--jobs", "2",
                                            "--configfile", "own.yaml"])  # fmt: skip
        driver.start()
        assert driver.process.wait(300) == 0, driver.log.read_text()[-4000:]
    here = [job for job in shown(cluster) if job["WorkDir"] == str(checkout.folder)]
    assert {(rule_of(job), job["JobState"]) for job in here} == {("read_shards", "COMPLETED")}
    assert not any(one in json.dumps(here) for one in (secret, TOKEN))
    for path in filter(Path.is_file, checkout.folder.rglob("*")):
        content = path.read_bytes()
        assert not any(one.encode() in content for one in (secret, TOKEN)), path
