"""What reruns after a change, and what does not: dry runs in both directions."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.workflow.conftest import Checkout

REPORT = {"gather_metrics": 1, "record_run": 1, "draw_figures": 1, "write_report": 1}
SHEET = {"draw_contact_sheet": 1}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_second_run_does_nothing(run: Checkout) -> None:
    assert "Nothing to be done" in run.snakemake()


def test_a_moved_or_freshly_touched_checkout_does_nothing(run: Checkout, tmp_path: Path) -> None:
    for path in [*(run.folder / "workflow").rglob("*"), run.folder / "Snakefile"]:
        os.utime(path)
    shutil.move(run.folder, tmp_path / "elsewhere")
    assert Checkout(tmp_path / "elsewhere").planned() == {}


def test_words_do_nothing(run: Checkout) -> None:
    package = run.folder / "workflow/mispair"
    with (package / "evaluation/purity.py").open("a") as module:
        module.write("\n# A comment.\n")
    edit(package / "towers/encoding.py", '"""Run frozen towers', '"""Let frozen towers run')
    edit(run.folder / "config.yaml", "# What mispair runs.", "# What mispair does.")
    (run.folder / "README.md").write_text("Other words.\n")
    assert run.planned() == {}


def test_a_new_rate_runs_its_arms_and_the_report(run: Checkout) -> None:
    edit(run.folder / "workflow/configs/smoke.yaml", "rates: [0.0, 0.5]", "rates: [0.0, 0.5, 0.9]")
    assert run.planned() == {
        "corrupt_captions": 2,
        "finetune_projection": 5,  # the control without weight decay is of one scheme
        "measure_purity": 5,
        "measure_semantics": 1,
        "evaluate_zeroshot": 5,
        "fit_linear_probe": 2,
        "compare_arms": 1,
        **REPORT,
        **SHEET,
    }


def test_an_edited_module_reruns_the_steps_that_import_it(run: Checkout) -> None:
    with (run.folder / "workflow/mispair/evaluation/purity.py").open("a") as module:
        module.write("\nANSWER = 42\n")
    # Pruning ranks neurons by their purity, so it imports the module; the gallery defines it.
    assert run.planned() == {
        "measure_purity": 9, "measure_semantics": 3, "prune_neurons": 1, "export_pruned": 1,
        "draw_neurons": 1, **REPORT,
    }  # fmt: skip


def test_an_edited_training_module_reruns_what_descends_from_it(run: Checkout) -> None:
    with (run.folder / "workflow/mispair/towers/projection.py").open("a") as module:
        module.write("\nANSWER = 42\n")
    assert run.planned() == {
        "finetune_projection": 8, "measure_purity": 8, "measure_semantics": 2,
        "evaluate_zeroshot": 8, "fit_linear_probe": 3, "compare_arms": 1, **REPORT,
    }  # fmt: skip


def test_an_edited_simulation_reruns_no_image_text_step(run: Checkout) -> None:
    modules = sorted((run.folder / "workflow/mispair/simulation").glob("*.py"))
    imported = next(path for path in modules if path.stem == "metrics")
    with imported.open("a") as module:
        module.write("\nANSWER = 42\n")
    assert run.planned() == {"simulate": 12, **REPORT}


def test_a_replaced_shard_reruns_its_index_its_features_and_what_descends(run: Checkout) -> None:
    shards = run.folder / "results/scenes/shards"
    # Another shard's pairs under this shard's name, with keys of their own: new data.
    content = (shards / "00001.tar").read_bytes()
    (shards / "00001.tar").write_bytes(content.replace(b"00001", b"77777"))
    planned = run.planned()
    assert planned == {
        "index_shards": 1,
        "gather_index": 1,
        "encode_features": 1,
        "encode_captions": 1,
        "find_similar_captions": 1,
        "corrupt_captions": 3,
        "finetune_projection": 8,
        "measure_purity": 8,
        "measure_semantics": 3,
        "evaluate_zeroshot": 8,
        "fit_linear_probe": 3,
        "compare_arms": 1,
        "draw_neurons": 1,
        **REPORT,
        **SHEET,
    }
    messages = run.snakemake("--dry-run")
    assert "Index shard group 0001" in messages
    assert "Index shard group 0000" not in messages


def test_a_setting_of_one_step_reruns_that_step(run: Checkout) -> None:
    edit(run.folder / "workflow/configs/smoke.yaml", "epochs: 3", "epochs: 4")
    planned = run.planned()
    assert planned["finetune_projection"] == 8
    assert "encode_features" not in planned
    assert "simulate" not in planned


def test_more_points_of_pruning_encode_nothing(run: Checkout) -> None:
    edit(run.folder / "workflow/configs/smoke.yaml", "ks: [16, 128]", 'ks: [16, "20-120:10", 128]')
    assert run.planned() == {"prune_neurons": 1, **REPORT}


def test_another_protocol_encodes_its_prompts_and_no_image(run: Checkout) -> None:
    (run.folder / "mine").mkdir()
    (run.folder / "mine/scenes-digit.templates.txt").write_text("a nice {c}\n")
    with (run.folder / "workflow/configs/smoke.yaml").open("a") as config:
        config.write("protocols: [clip_benchmark, single-prompt, mine]\n")
    expected = {
        "encode_prompts": 1, "evaluate_zeroshot": 9, "compare_arms": 1, "prune_neurons": 1,
        "export_pruned": 1, **REPORT,
    }  # fmt: skip
    assert run.planned() == expected
    run.snakemake()
    assert run.planned() == {}
    # And once more in the other direction: other prompts are other features.
    (run.folder / "mine/scenes-digit.templates.txt").write_text("the number {c}\n")
    assert run.planned() == expected


@pytest.mark.parametrize("key", ["rates", "trials"])
def test_taking_a_value_away_computes_nothing_anew(run: Checkout, key: str) -> None:
    old, new = {
        "rates": ("rates: [0.0, 0.5]", "rates: [0.0]"),
        "trials": ("trials: 2", "trials: 1"),
    }[key]
    edit(run.folder / "workflow/configs/smoke.yaml", old, new)
    # What is left of the arms is compared again, from their answers.
    assert set(run.planned()) <= {*REPORT, *SHEET, "compare_arms"}
