"""Where results come from: records beside all of them, and runs made again from records alone."""

import json
import os
import shutil
import subprocess
from collections import Counter
from hashlib import sha256
from pathlib import Path

from tests.fork_server import python
from tests.workflow.conftest import Checkout

UNTOUCHED = "results/arms/scenes/scenes-small/untouched"
PAIRING = "results/pairs/scenes/pairing/random~0.5.parquet"
SIMULATED = "results/simulation/as-run/cs~0.4/trials~1-1.json"


def records(checkout: Checkout) -> dict[str, dict]:
    paths = (checkout.folder / "results").rglob("*.run.json")
    return {str(path): json.loads(path.read_text()) for path in paths}


def results(checkout: Checkout) -> dict[str, bytes]:
    """Return the bytes of results, without their records and listings."""
    return {
        name: content
        for name, content in checkout.results().items()
        if not name.endswith((".run.json", ".sha256"))
    }


def mispair(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python(), "-m", "mispair", *arguments], cwd=checkout.folder, text=True,
        env={**os.environ, "PYTHONPATH": str(checkout.folder / "workflow")}, capture_output=True,
    )  # fmt: skip


def test_every_result_is_in_one_record_with_its_bytes(finished: Checkout) -> None:
    listings = {
        name: content for name, content in finished.results().items() if name.endswith(".sha256")
    }
    found = results(finished) | listings
    told = [item for one in records(finished).values() for item in one["outputs"].items()]
    assert Counter(name for name, _ in told) == Counter(list(found))
    for name, facts in told:
        assert facts == {"bytes": len(found[name]), "sha256": sha256(found[name]).hexdigest()}
    for one in records(finished).values():
        own = [name for name in one["inputs"] if not name.startswith("mispair:")]
        assert set(own) <= found.keys()  # each input is a result with a record of its own
        assert str(finished.folder) not in json.dumps(one)


def test_the_record_of_the_run_has_all_of_it(finished: Checkout) -> None:
    record = json.loads((finished.folder / "reports/run.json").read_text())["record"]
    found = results(finished)
    assert record["results"].keys() == found.keys()
    assert record["unrecorded"] == []
    assert all(name.startswith("mispair:towers/shipped") for name in record["data"])
    jobs = Counter(one["step"] for one in records(finished).values())
    del jobs["list_files"]  # what comes after names the files themselves as its inputs
    assert {name: step["jobs"] for name, step in record["steps"].items()} == jobs
    assert record["steps"]["finetune_projection"]["wall_seconds"] > 0
    assert all(len(step["code"]) == 1 for step in record["steps"].values())
    fingerprints = {text for _, text in record["fingerprints"]}
    assert fingerprints
    said = mispair(finished, "verify", "reports/run.json")
    assert said.returncode == 0, said.stdout + said.stderr
    said = mispair(finished, "compare", ".", "reports")
    assert said.returncode == 0, said.stdout + said.stderr
    for what in ("Configuration", "Data", "Code", "Versions", "Numbers"):
        assert f"{what}: no difference" in said.stdout
    page = (finished.folder / "reports/pages/run.html").read_text()
    assert 'href="../run.json"' in page
    assert record["platform"]["system"] in page


def test_a_run_is_made_again_from_its_record_alone(finished: Checkout, tmp_path: Path) -> None:
    """In a folder with nothing but run.json: the same bytes, and the same records of them."""
    alone = Checkout(tmp_path / "alone")
    alone.folder.mkdir()
    shutil.copy2(finished.folder / "reports/run.json", alone.folder)
    targets = [f"{UNTOUCHED}/purity.json", PAIRING, SIMULATED]
    snakefile = ("--snakefile", str(finished.folder / "Snakefile"))
    printed = alone.snakemake(*targets, *snakefile, "--configfile", "run.json")
    assert "other bytes are to be expected" not in printed
    expected, found = finished.results(), alone.results()
    assert {*targets, f"{UNTOUCHED}/purity.run.json"} <= found.keys()
    assert [name for name in found if found[name] != expected.get(name)] == []


def test_data_that_changed_since_stop_a_run_before_its_first_job(run: Checkout) -> None:
    shutil.copy2(run.folder / "reports/run.json", run.folder / "again.json")
    words = run.folder / "workflow/mispair/towers/shipped/scenes-small/tokenizer.json"
    words.write_bytes(words.read_bytes()[::-1])
    printed = run.snakemake("--dry-run", "--configfile", "again.json", check=False)
    assert "tokenizer.json has changed" in printed
    assert "--config record=none" in printed
    assert "Job stats" not in printed
    record = ("--config", "record=none")
    assert "Job stats" in run.snakemake("--dry-run", "--configfile", "again.json", *record)


def test_one_job_is_run_again_from_its_record(finished: Checkout) -> None:
    before = finished.results()
    names = [f"{UNTOUCHED}/purity.run.json", PAIRING.replace(".parquet", ".run.json")]
    said = mispair(finished, "rerun", *names)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout == "".join(f"{name}: the same bytes\n" for name in names)
    assert finished.results() == before
