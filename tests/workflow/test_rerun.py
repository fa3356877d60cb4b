"""What reruns after a change, and what does not: dry runs in both directions."""

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mispair.core import copied
from tests.workflow.conftest import ONE_ARM, REPOSITORY, Checkout, Lent, counts, new_checkout

SCHEMES = yaml.safe_load((REPOSITORY / "config/smoke.yaml").read_text())["corrupt_captions"][
    "schemes"
]
FIGURES = {"draw_figures": 4}
"""A job for each study of the smoke configuration."""
REPORT = {
    "gather_metrics": 1, "record_run": 1, **FIGURES, "export_metrics": 1, "write_report": 1,
}  # fmt: skip
SHEET = {"draw_contact_sheet": 1}
SMOKE = "config/smoke.yaml"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def touch(*folders: Path) -> None:
    touched = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    for path in touched:
        os.utime(path)


def messages(printed: str, beginning: str) -> list[str]:
    """Return what the jobs of a dry run say of themselves, after a beginning."""
    return sorted(re.findall(rf"^Job \d+: {beginning} (.*)$", printed, re.MULTILINE))


# Nothing ----------------------------------------------------------------------------------------


def test_the_record_of_a_run_as_its_configuration_does_nothing(run: Checkout) -> None:
    assert run.planned("--configfile", "reports/run.json") == {}


def test_a_copy_with_new_times_reruns_what_has_other_bytes(run: Checkout, tmp_path: Path) -> None:
    copy = Checkout(tmp_path / "elsewhere")
    shutil.copytree(run.folder, copy.folder, copy_function=shutil.copyfile, symlinks=True)
    files = [path for path in (copy.folder / "results").rglob("*") if path.is_file()]
    for age, path in enumerate(sorted(files, key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (1_000_000_000 - age, 1_000_000_000 - age))  # results before what they read
    little = ("--max-checksum-file-size", "1000")  # as if all results were large
    assert "Nothing to be done" in copy.snakemake("--dry-run", *little)
    index = next((copy.folder / "results/pairs").glob("*/index/0000.parquet"))
    index.write_bytes(index.read_bytes() + b" ")
    (copy.folder / copied.PLACE).unlink()
    planned = copy.planned(*little)
    assert {"list_files", "gather_index", "write_report"} <= planned.keys()
    assert "simulate" not in planned


def test_a_fresh_clone_put_over_a_finished_run_does_nothing(run: Checkout, tmp_path: Path) -> None:
    clone = new_checkout(tmp_path / "clone")
    touch(clone.folder)  # git knows no times: every file of a clone is as old as the clone
    shutil.copytree(clone.folder, run.folder, dirs_exist_ok=True, copy_function=shutil.copy)
    assert run.planned() == {}


def test_changed_features_rerun_every_arm_and_equal_ones_none(run: Checkout) -> None:
    """Arms depend on the listing of the features, which holds their digests."""
    features = next((run.folder / "results/features/scenes").glob("*/0001.safetensors"))
    listing = features.with_name("safetensors.sha256")
    before = listing.read_bytes()
    run.snakemake(str(listing.relative_to(run.folder)), "--force")
    assert listing.read_bytes() == before
    assert "finetune_projection" not in run.planned()
    features.write_bytes(features.read_bytes()[:-1] + b"\x55")
    planned = run.planned()
    assert (planned["list_features"], planned["finetune_projection"]) == (1, 11)
    assert "encode_features" not in planned


def test_neither_words_nor_times_nor_another_folder_do_anything(run: Checkout, tmp_path: Path):
    package = run.folder / "workflow/mispair"
    with (package / "evaluation/purity.py").open("a") as module:
        module.write("\n# A comment.\n")
    edit(package / "towers/encoding.py", '"""Run frozen towers', '"""Let frozen towers run')
    with (run.folder / "workflow/rules/towers.smk").open("a") as rules:
        rules.write("# A comment.\n")
    edit(run.folder / "workflow/rules/towers.smk", '"Encode images of', '"Run over images of')
    edit(run.folder / "config.yaml", "# What mispair runs.", "# What mispair does.")
    (run.folder / "README.md").write_text("Other words.\n")
    results = run.folder / "results"
    touch(run.folder / "workflow", run.folder / "Snakefile", run.folder / "config.yaml")
    touch(results / "scenes", results / "pairs/scenes/index", results / "evaluation")
    assert run.planned() == {}
    shutil.move(run.folder, tmp_path / "elsewhere")
    assert Checkout(tmp_path / "elsewhere").planned() == {}


def test_neither_machine_nor_profile_nor_hash_seed_does_anything(run: Checkout) -> None:
    (run.folder / "mine").mkdir()
    profile = {
        "default-resources": ["mem_mb=9000", "slurm_partition=mine"],
        "set-resources": ["encode_features:mem_mb=20000"],
        "set-threads": ["encode_features=7", "index_shards=3"],
        "retries": 2,
        "groups": ["index_shards=read"],
        "latency-wait": 60,
    }
    (run.folder / "mine/config.yaml").write_text(yaml.safe_dump(profile))
    for seed, cores, chosen in (("17", "7", "mine"), ("18", "1", "none")):
        options = ["--cores", cores, "--workflow-profile", chosen, "--configfile", SMOKE]
        # A process of its own: the seed is read when Python starts.
        command = [sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "host", *options]
        done = subprocess.run(
            command, cwd=run.folder, env={**os.environ, "PYTHONHASHSEED": seed},
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True,
        )  # fmt: skip
        assert counts(done.stdout) == {}


@pytest.mark.parametrize(
    "profile", sorted(path.parent.name for path in (REPOSITORY / "profiles").glob("*/*.yaml"))
)
def test_no_profile_of_ours_does_anything(run: Checkout, profile: str) -> None:
    assert run.planned("--workflow-profile", f"profiles/{profile}") == {}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # Intervals are tested anew, from the numbers that there are.
        ({"write_report": "title: Mine\n  confidence: 0.9"}, {"write_report"}),
        ({"draw_figures": "paper_font_size: 14", "draw_contact_sheet": "samples: 6",
          "draw_neurons": "pictures: 4"},
         {"draw_figures", "draw_contact_sheet", "draw_neurons", "write_report"}),
    ],
)  # fmt: skip
def test_a_setting_of_the_report_reruns_the_report(run: Checkout, settings, expected) -> None:
    with (run.folder / SMOKE).open("a") as config:
        config.writelines(f"{step}:\n  {setting}\n" for step, setting in settings.items())
    # The record of the run holds the whole configuration.
    planned = dict.fromkeys(expected | {"record_run"}, 1)
    assert run.planned() == planned | {rule: FIGURES[rule] for rule in expected & FIGURES.keys()}


def test_another_colour_reruns_the_report(run: Checkout) -> None:
    edit(run.folder / "workflow/mispair/report/style.py", '"#b3360a"', '"#b3360b"')
    assert {"draw_figures", "write_report"} <= (planned := run.planned()).keys()
    assert planned.keys() <= REPORT.keys() - {"gather_metrics"}


def test_another_figure_of_a_study_draws_that_study_alone(run: Checkout) -> None:
    edit(run.folder / "workflow/mispair/simulation/report/figures.py", "Change of", "Change of ")
    assert run.planned() == {"draw_figures": 1, "write_report": 1}


# Exactly the right jobs -------------------------------------------------------------------------


def test_a_new_rate_runs_its_arms_and_the_report(run: Checkout) -> None:
    edit(run.folder / SMOKE, "rates: [0.0, 0.5]", "rates: [0.0, 0.5, 0.9]")
    printed = run.snakemake("--dry-run")
    assert counts(printed) == {
        "corrupt_captions": 6, "encode_captions": 3,  # of schemes that write new ones
        "finetune_projection": 8, "measure_arm": 8,  # controls are of one scheme
        "measure_semantics": 1, "fit_linear_probe": 6, "compare_arms": 1, **REPORT, **SHEET,
    }  # fmt: skip
    assert messages(printed, "Fine-tune") == [
        *(f"pretrained projections on {scheme} captions, rate 0.9" for scheme in sorted(SCHEMES)),
        "reinitialised projections on random captions, rate 0.9",
        "scale-converged projections on random captions, rate 0.9",
    ]


def test_a_new_start_runs_its_arms_and_the_report(run: Checkout) -> None:
    edit(run.folder / SMOKE, "reinitialised]", "reinitialised, reinitialised-small]")
    printed = run.snakemake("--dry-run")
    assert counts(printed) == {
        "finetune_projection": 2, "measure_arm": 2, "compare_arms": 1,
        **REPORT,
    }  # fmt: skip
    assert messages(printed, "Fine-tune reinitialised-small projections on random captions,") == [
        "rate 0",
        "rate 0.5",
    ]


TUNED = {
    "finetune_projection": 11, "measure_arm": 11, "measure_semantics": 2,
    "fit_linear_probe": 7, "compare_arms": 1, **REPORT,
}  # fmt: skip
"""All that descends from fine-tuning, and nothing beside it."""
CORRUPTED = {"corrupt_captions": 7, "encode_captions": 3}
"""Six schemes of one rate, and rate 0; three of them write captions."""
REPLACED = {"list_images": 1, "index_shards": 1, "encode_features": 1}
"""Jobs that read one of the shards."""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # One learning rate is for all arms: each of them reruns, and what is untouched does not.
        ("  epochs: 3\n  batch", "  epochs: 3\n  lr: 0.002\n  batch", TUNED),
        # All seeds of an arm train in one job, and each has a draw of the corruption.
        ("  seeds: 2\n", "  seeds: 3\n", {**CORRUPTED, **TUNED, **SHEET}),
        (
            "images: 200\n",
            "images: 200\n  seed: 1\n",
            {"make_evaluation_set": 1, "encode_generated": 1, "encode_generated_prompts": 1,
             "measure_arm": 12,
             "fit_linear_probe": 8, "prune_neurons": 1, "compare_arms": 1,
             **REPORT},
        ),
        ("  trials: 2\n", "  trials: 2\n  seed: 1\n", {"simulate": 10, **REPORT}),
        ("  grid_noises: [0.02]", "  grid_noises: [0.02, 0.005]", {"simulate": 1, **REPORT}),
        # And not the other part.
        ("seeds: 2, steps: 200", "seeds: 2, steps: 300", {"train_two_layer": 1, **REPORT}),
        ("measure_purity:\n  rotations: 5", "measure_purity:\n  rotations: 6",
         {"measure_arm": 12, "compare_arms": 1, **REPORT}),
        ("ks: [16, 128]", 'ks: [16, "20-120:10", 128]', {"prune_neurons": 1, **REPORT}),
        (
            "make_scenes:\n",
            "make_scenes:\n  seed: 2\n",
            {"make_scenes": 1, "list_images": 2, "index_shards": 2, "list_files": 1,
             "gather_index": 1, "encode_features": 2, "list_features": 1,
             **CORRUPTED, "encode_captions": 4, "find_similar_captions": 1,
             "measure_covariance": 1,
             "draw_neurons": 1, **TUNED, "measure_arm": 12, "measure_semantics": 3,
             **SHEET},
        ),
    ],
    ids=["learning rate", "number of seeds", "seed of evaluation sets", "seed of the simulation",
         "a condition of the simulation", "steps of a part of the stepsizes", "purity",
         "points of pruning", "seed of scenes"],
)  # fmt: skip
def test_a_setting_reruns_its_step_and_what_descends_from_it(run: Checkout, old, new, expected):
    edit(run.folder / SMOKE, old, new)
    assert run.planned() == expected


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        # Pruning ranks neurons by their purity, so it imports the module; the gallery defines it.
        ("evaluation/purity.py",
         {"measure_arm": 12, "measure_semantics": 3, "prune_neurons": 1, "draw_neurons": 1,
          "compare_arms": 1, **REPORT}),
        ("towers/finetuning/projection.py", TUNED),
        ("simulation/metrics.py", {"simulate": 10, **REPORT}),
        ("stepsize/networks.py", {"train_two_layer": 2, **REPORT}),
    ],
)  # fmt: skip
def test_an_edited_module_reruns_the_steps_that_import_it_and_what_descends(run, module, expected):
    with (run.folder / "workflow/mispair" / module).open("a") as edited:
        edited.write("\nANSWER = 42\n")
    assert run.planned() == expected


def test_a_replaced_shard_reruns_its_index_its_features_and_what_descends(run: Checkout) -> None:
    shards = run.folder / "results/scenes/shards"
    # Another shard's pairs under this shard's name, with keys of their own: new data.
    content = (shards / "00001.tar").read_bytes()
    (shards / "00001.tar").write_bytes(content.replace(b"00001", b"77777"))
    printed = run.snakemake("--dry-run")
    assert counts(printed) == {
        **REPLACED, "list_files": 1, "gather_index": 1, "list_features": 1,
        **CORRUPTED, "encode_captions": 4, "find_similar_captions": 1, "measure_covariance": 1,
        **TUNED, "measure_arm": 12, "measure_semantics": 3, "draw_neurons": 1, **SHEET,
    }  # fmt: skip
    assert messages(printed, "Index shard group") == ["0001 of scenes"]
    assert messages(printed, "Encode images of group") == ["0001 of scenes"]


def test_another_protocol_encodes_its_prompts_and_no_image(run: Checkout) -> None:
    mine = (run.folder / SMOKE).parent / "mine"  # paths start at the file that has them
    mine.mkdir()
    (mine / "scenes-digit.templates.txt").write_text("a nice {c}\n")
    with (run.folder / SMOKE).open("a") as config:
        config.write("protocols: [clip_benchmark, mine]\n")
    assert run.planned() == {
        "encode_generated_prompts": 1, "measure_arm": 12, "compare_arms": 1, "prune_neurons": 1,
        **REPORT,
    }  # fmt: skip


@pytest.mark.parametrize("key", ["rates", "trials"])
def test_taking_a_value_away_computes_nothing_anew(run: Checkout, key: str) -> None:
    old, new = {
        "rates": ("rates: [0.0, 0.5]", "rates: [0.0]"),
        "trials": ("trials: 2", "trials: 1"),
    }[key]
    edit(run.folder / SMOKE, old, new)
    # What is left of the arms is compared again, from their answers.
    assert set(run.planned()) <= {*REPORT, *SHEET, "compare_arms"}


# Files of the user's own ------------------------------------------------------------------------

OWN = {
    "studies": ["image_text"],
    "corpus": "mine",
    "shards": "own/{00000..00001}.tar",
    "captions": "own/captions.csv",
    "towers": "own/towers",
    "evaluation_sets": ["own/digits"],
    "protocols": ["clip_benchmark", "own/prompts"],
    "index_shards": {"shards_per_job": 1},
    **ONE_ARM,
}  # fmt: skip


@pytest.fixture(scope="module")
def own(finished: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Run a study on files of a user's, none of which mispair wrote in that run."""
    checkout = finished.copy(tmp_path_factory.mktemp("own") / "mispair")
    folder, scenes = checkout.folder / "own", checkout.folder / "results/scenes"
    shipped = checkout.folder / "workflow/mispair/towers/shipped/scenes-small"
    shutil.copytree(shipped, folder / "towers")
    shutil.copytree(scenes / "evaluation/scenes-digit", folder / "digits")
    (folder / "prompts").mkdir()
    (folder / "prompts/digits.templates.txt").write_text("a nice {c}\n")
    keys = []
    for shard in ("00000.tar", "00001.tar"):
        shutil.copy2(scenes / "shards" / shard, folder)
        with tarfile.open(folder / shard, "a") as archive:
            keys += [name.removesuffix(".txt") for name in archive.getnames() if ".txt" in name]
            # As large as shards of img2dataset, which Snakemake does not compare by their content.
            member = tarfile.TarInfo(f"{keys[-1]}.unread")
            member.size = 25_000_000
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    rows = [f"{key},picture {number}" for number, key in enumerate(keys)]
    (folder / "captions.csv").write_text("\n".join(["key,caption", *rows, ""]))
    (checkout.folder / "own.yaml").write_text(yaml.safe_dump(OWN))
    checkout.snakemake("--configfile", "own.yaml")
    return checkout


@pytest.fixture(scope="module")
def lent_own(own: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Lent:
    return Lent(own, tmp_path_factory.mktemp("mine") / "mine")


@pytest.fixture
def mine(lent_own: Lent) -> Iterator[Checkout]:
    """Give a test such a finished run, which it may change."""
    yield lent_own
    lent_own.restore()


REPORT_OF_ONE = {**REPORT, "draw_figures": 1}
"""Jobs of the report of a run with one study."""
ZEROSHOT = {"measure_arm": 2, "prune_neurons": 1, "compare_arms": 1, **REPORT_OF_ONE}
RETRAINED = {"finetune_projection": 1, "measure_arm": 1,
             "fit_linear_probe": 1, "compare_arms": 1, **REPORT_OF_ONE}  # fmt: skip
INDEXED = {"list_files": 1, "gather_index": 1, "encode_captions": 1, "list_features": 1,
           "corrupt_captions": 1, "draw_neurons": 1,
           **RETRAINED, "measure_covariance": 1, "measure_arm": 2,
           **SHEET}  # fmt: skip


def test_touched_files_of_the_user_do_nothing(mine: Checkout) -> None:
    touch(mine.folder / "own")
    assert mine.planned("--configfile", "own.yaml") == {}


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "towers/open_clip_model.safetensors",
            b"",
            b"",
            {"encode_features": 2, "encode_captions": 1, "encode_evaluation": 2,
             "encode_prompts": 2, "extract_projection": 1, "draw_neurons": 1,
             "list_features": 1, "measure_covariance": 1, **RETRAINED,
             **ZEROSHOT, "fit_linear_probe": 2},
        ),
        # The list is compared with labels where it is used, so no image is encoded.
        ("digits/classnames.txt", b"\n", b"s\n", {"encode_prompts": 2, **ZEROSHOT}),
        ("digits/zeroshot_classification_templates.txt", b"{c}", b"some {c}",
         {"encode_prompts": 1, **ZEROSHOT}),
        ("prompts/digits.templates.txt", b"nice", b"fine", {"encode_prompts": 1, **ZEROSHOT}),
        ("digits/train/0.tar", b"IDAT", b"JDAT",
         {"encode_evaluation": 1, "fit_linear_probe": 2, **REPORT_OF_ONE}),
        # No image is encoded.
        ("captions.csv", b"picture 7", b"photo 7",
         {"read_captions": 1, "index_shards": 2, **INDEXED}),
        ("00001.tar", b"JFIF", b"JFIX", {**REPLACED, **INDEXED}),
    ],
)  # fmt: skip
def test_changed_bytes_of_the_user_rerun_what_reads_them(mine: Checkout, file, old, new, expected):
    path = mine.folder / "own" / file
    content = path.read_bytes()
    assert old in content
    # Weights: the last byte of the last tensor.
    path.write_bytes(content.replace(old, new, 1) if old else content[:-1] + b"\x55")
    assert mine.planned("--configfile", "own.yaml") == expected


def test_files_that_came_with_an_old_time_are_noticed(mine: Checkout) -> None:
    """As `mv`, `cp -p` and `rsync -a` leave them: older than every result."""
    template = mine.folder / "own/prompts/digits.templates.txt"
    template.write_text("a fine {c}\n")
    os.utime(template, (10**9, 10**9))
    assert mine.planned("--configfile", "own.yaml") == {"encode_prompts": 1, **ZEROSHOT}
    shard = mine.folder / "own/00001.tar"
    content = shard.read_bytes()
    expected = {**REPLACED, "encode_prompts": 1, **INDEXED, **ZEROSHOT}
    for changed in (content + bytes(10_240), content.replace(b"JFIF", b"JFIX")):
        shard.write_bytes(changed)
        os.utime(shard, (10**9, 10**9))
        assert mine.planned("--configfile", "own.yaml") == expected
    shard.write_bytes(content)  # as before, later
    assert mine.planned("--configfile", "own.yaml") == {"encode_prompts": 1, **ZEROSHOT}
