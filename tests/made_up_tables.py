"""Tables of made-up runs of any size, for tests of what the report makes of them."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from mispair.audit import paths as audit
from mispair.core import files
from mispair.core.paths import WILDCARD, fill
from mispair.evaluation import paths as evaluation
from mispair.evaluation.pruning import RANKED
from mispair.image_text import paths as image_text
from mispair.laclip import paths as laclip
from mispair.pairs import paths as pairs
from mispair.pairs.corruption.scheme import schemes
from mispair.pretraining.paths import MIXING
from mispair.repair import paths as repair
from mispair.report import studies
from mispair.report.steps import draw_figures, gather_metrics, write_report
from mispair.report.tables import Tables, read, tidy
from mispair.simulation.paths import SIMULATION
from mispair.stepsize.paths import TWO_LAYER
from mispair.sufficiency.paths import TRANSFER
from mispair.towers import paths as towers

EVIL = "<script>window.hit = 1</script><b onclick='x'>\"&amp;"
SCHEMES = tuple(schemes())
STARTS = ("pretrained", "scale-converged", "reinitialised", "without-decay")
PROTOCOLS = ("clip_benchmark", "single-prompt")
CLASSES = (EVIL, "7", "null", *(f"class {number}" for number in range(7)))

Row = dict[str, Any]


TIDY = [f"{name}.csv" for name in studies.tables()]
"""Files of tidy tables."""

PLACES = {
    "purity": evaluation.PURITY, "zeroshot": evaluation.ZEROSHOT, "probes": evaluation.PROBE,
    "pruning": evaluation.PRUNING, "semantics": evaluation.SEMANTICS,
    "comparisons": image_text.COMPARISON,
    "statistics": pairs.STATISTICS, "pairings": pairs.PAIRING, "index": pairs.INDEX,
    "rejected": pairs.REJECTED, "excluded": pairs.EXCLUDED,
    "records": fill(towers.IMAGE_RECORD, group="{name}"),
    "simulation": SIMULATION, "sufficiency": TRANSFER, "stepsize": TWO_LAYER,
    "audit": audit.RATES, "selection": audit.SELECTION, "calibration": audit.CALIBRATION,
    "ledger": repair.LEDGER, "tower_ledger": repair.LEDGER_OF_DRAW,
    "learned": repair.MIXING_OF_DRAW, "repair_differences": repair.COMPARISON,
    "repair_purity": fill(evaluation.PURITY, arm="repair-{number}"),
    "repair_zeroshot": fill(evaluation.ZEROSHOT, arm="repair-{number}"),
    "pretraining": MIXING, "checkpoint_zeroshot": laclip.ZEROSHOT,
    "checkpoint_purity": laclip.PURITY, "checkpoint_origins": towers.CONVERTED_RECORD,
}  # fmt: skip
"""Where a run has each kind of result."""


def gather(run: dict[str, list[Path]], folder: Path, models: str = "{}") -> Tables:
    """Gather results by kind into ``folder/tables``, from where a run has them; read them back."""
    results = []
    for kind, paths in run.items():
        for number, path in enumerate(paths):
            wildcards = WILDCARD.findall(PLACES[kind])
            values = {**dict.fromkeys(wildcards, "made-up"), "draw": 0, wildcards[-1]: number}
            values |= {"corpus": "made-up", "towers": path.parent.parent.name}
            names = {"model": path.parent.name, "name": path.stem}
            results.append(folder / fill(PLACES[kind], **values | names))
            results[-1].parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, results[-1])
    tables = folder / "tables"
    gather_metrics.run(gather_metrics.Settings(), results=results, models=models, tables=tables)
    return read({name[:-4]: tables / name for name in TIDY})


def draw_all(folder: Path) -> list[Path]:
    """Draw the figures of all studies from ``folder/tables``; return their folders."""
    tables = sorted((folder / "tables").glob("*.csv"))
    for name in studies.NAMES:
        to = folder / "figures" / name
        draw_figures.run(draw_figures.Settings(), study=name, tables=tables, figures=to)
    return [folder / "figures" / name for name in studies.NAMES]


@contextmanager
def light_pictures(blanks: int = 0) -> Iterator[None]:
    """Draw figures as empty pictures with so many blanks, for tests of what is around them.

    What is drawn is tested in ``tests/report/test_reporting_figures.py``.
    """
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{" " * blanks}</svg>'
    with mock.patch("vl_convert.vegalite_to_svg", return_value=picture):
        yield


def figure_file(folder: Path, file: str) -> Path:
    """Return a file of a figure that `draw_all` has drawn."""
    (found,) = (folder / "figures").glob(f"*/{file}")
    return found


def arms(number: int) -> list[Row]:
    """Return the untouched model and as many fine-tuned ones as are missing to `number`."""
    rates = [0.0, 0.1, 0.3, 0.5, 0.8, *(round(0.01 * step, 2) for step in range(11, 30))]
    every = [
        {"start": start, "scheme": scheme, "rate": rate}
        for rate, scheme, start in itertools.product(rates, SCHEMES, STARTS)
        if rate or scheme == "random"
    ]
    return [{"start": "untouched", "scheme": None, "rate": None}, *every[: number - 1]][:number]


def _purity(arm: Row, seed: int) -> list[Row]:
    rows = []
    for tower in ("image", "text"):
        here = {**arm, "tower": tower, "seed": seed}
        level = 0.08 + 0.04 * (arm["rate"] or 0) + 1e-4 * seed
        rows += [
            {**here, "metric": "mean_abs_cosine", "value": level, "n": 64 * 63 / 2},
            {**here, "metric": "mean_abs_correlation", "value": 2 * level},
            {**here, "metric": "random_reference", "value": 0.07},
            {**here, "metric": "participation_ratio", "value": 50 - 10 * (arm["rate"] or 0)},
            {
                **here,
                "metric": "mean_abs_cosine_rotated",
                "value": level,
                "low": level - 1e-3,
                "high": level + 1e-3,
                "below": 0.5,
                "rotations": 100,
            },
        ]
        rows += [
            {**here, "metric": "neuron_purity", "neuron": neuron, "value": level}
            for neuron in range(64)
        ]
    return rows


def _zeroshot(arm: Row, seed: int, sets: list[str], missing: bool) -> list[Row]:
    rows = []
    for place, name in enumerate(sets):
        here = {**arm, "towers": "towers", "evaluation_set": name, "seed": seed, "n": 1000}
        value = 0.9 - 0.2 * (arm["rate"] or 0) - 0.01 * place + 1e-3 * seed
        rows.append({**here, "metric": "silhouette", "value": None if missing else value / 3})
        for protocol in PROTOCOLS:
            asked = {**here, "protocol": protocol, "chance": 0.1, "headline": "acc1",
                     "fingerprint": "a1b2c3d4e5f60718"}  # fmt: skip
            rows += [
                {**asked, "metric": metric, "value": None if missing else value}
                for metric in ("acc1", "acc5", "mean_per_class_recall")
            ]
            rows += [
                {**asked, "metric": "class_recall", "classname": name_, "value": value, "n": 100}
                for name_ in CLASSES
            ]
    return rows


def _pruning(sets: list[str]) -> list[Row]:
    rows = []
    for name, k, metric, basis in itertools.product(
        sets, (16, 32, 48, 64), ("acc1", "silhouette"), ("original", "rotated-0")
    ):
        here = {"start": "untouched", "towers": "towers", "evaluation_set": name, "seed": 0,
                "basis": basis, "k": k, "metric": metric, "normalised": "masked",
                "protocol": "clip_benchmark" if metric == "acc1" else None}  # fmt: skip
        for (rank, strategy), tower in itertools.product(
            enumerate(RANKED), ("text", "image", "both")
        ):
            about = {"strategy": strategy, "ranked_by": tower, "draw": 0}
            rows.append({**here, **about, "value": 0.5 + k / 200 + 0.01 * rank})
        rows += [
            {**here, "strategy": "random", "ranked_by": "none", "draw": draw,
             "value": 0.5 + k / 200 + 1e-3 * draw}
            for draw in range(20)
        ]  # fmt: skip
    return rows


def _simulation(trials: int) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    points: list[Row] = []
    for preset, probability, trial, arm in itertools.product(
        ("as-written", "as-run"), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), range(trials), ("raw", "filtered")
    ):
        here = {"condition": preset, "kind": "preset", "preset": preset, "features": 50,
                "spurious_probability": probability, "trained_on": arm, "trial": trial}  # fmt: skip
        value = 0.9 - probability * (0.4 if arm == "filtered" else 0.8)
        value += 0.002 * trial * (2 if arm == "filtered" else 1)  # the gain varies by trial
        rows += [
            {**here, "metric": metric, "value": factor * value}
            for metric, factor in (("purified_features", 50), ("purified_magnitude", 1),
                                   ("accuracy", 1), ("silhouette", 0.1),
                                   ("second_alignment", 0.3))
        ]  # fmt: skip
        rows += [
            {**here, "metric": "cosine_histogram", "tower": tower, "value": 10 + k % 7,
             "bin_low": round(0.02 * k, 2), "bin_high": round(0.02 * k + 0.02, 2)}
            for tower in ("image", "text") for k in range(50)
        ]  # fmt: skip
        if trial == 0 and probability == 0.5:
            points += [
                {**here, "metric": "neuron_alignment", "tower": tower, "neuron": k,
                 "x": 0.5 + k / 400, "y": k / 400}
                for tower in ("image", "text") for k in range(100)
            ]  # fmt: skip
    return rows, points


def _models(sets: list[str], number: int) -> list[Row]:
    return [
        {"pretraining": "CC12M", "architecture": "ViT-B/16", "method": method,
         "towers": f"{EVIL}/{method}-{model}", "evaluation_set": name, "protocol": protocol,
         "metric": metric, "value": 0.5 + 0.01 * model, "low": 0.48, "high": 0.55, "n": 1000,
         "headline": "acc1", "fingerprint": "c" * 16}
        for model in range(number) for method in ("CLIP", "LaCLIP") for name in sets
        for protocol, metric in (("laclip", "acc1"), (None, "silhouette"))
    ]  # fmt: skip


def made_up(
    number: int, sets: list[str], *, seeds: int = 3, trials: int = 3, models: int = 0,
    missing: bool = False,
) -> Tables:  # fmt: skip
    """Return the tables of a run.

    Parameters
    ----------
    number : int
        Arms of the image-text study, the untouched one among them.
    sets : list of str
        Names of evaluation sets.
    seeds, trials : int
        Of every fine-tuned arm; of every condition of the simulation, 0 for none.
    models : int
        Pairs of models that are compared as they are.
    missing : bool
        Whether every score is a number that is not defined.
    """
    purity: list[Row] = []
    zeroshot: list[Row] = []
    provenance: list[Row] = []
    for arm in arms(number):
        for seed in range(1 if arm["rate"] is None else seeds):
            purity += _purity(arm, seed)
            zeroshot += _zeroshot(arm, seed, sets, missing)
        training = json.dumps({"epochs": 10, "preset": "as-run", "note": EVIL})
        for key, text in (("projection.towers", "d" * 64), ("projection.training", training)):
            provenance.append({"artefact": "purity", **arm, "key": key, "text": text})
    pairs = [
        {"metric": metric, "scheme": arm["scheme"], "rate": arm["rate"], "value": arm["rate"],
         "n": 1000}
        for arm in arms(number) if arm["start"] == "pretrained"
        for metric in ("swapped_share", "text_changed_share")
    ]  # fmt: skip
    simulation, points = _simulation(trials)
    rows = {
        "purity": purity, "zeroshot": zeroshot, "pairs": pairs, "provenance": provenance,
        "pruning": _pruning(sets) if number else [], "simulation": simulation,
        "simulation_points": points, "checkpoints": _models(sets, models),
    }  # fmt: skip
    return Tables({name: tidy(name, own) for name, own in rows.items()})


def write_site(
    tables: Tables,
    folder: Path,
    *,
    draw: bool = True,
    sheet: str | None = None,
    gallery: str | None = None,
    **settings: Any,
) -> list[Path]:
    """Write tables, figures and pages as a run does; return the files that the pages consist of.

    These are all that a browser loads to show the site: pages and scripts, and pictures where they
    are files of their own. What a page only links for download (the tables, and figures as SVG,
    PDF, PNG, CSV and Vega-Lite) is not among them.
    """
    for name in studies.tables():
        files.write_csv(folder / "tables" / f"{name}.csv", getattr(tables, name))
    paths = sorted((folder / "tables").glob("*.csv"))
    drawn = draw_all(folder) if draw else [*(folder / "figures").glob("*")]
    pieces = {"contact_sheet.html": sheet, "neurons.html": gallery}
    for name, html in pieces.items():
        if html is not None:
            files.write_text(folder / name, html)
    written = [folder / name for name, html in pieces.items() if html]
    write_report.run(
        write_report.Settings(**settings), tables=paths,
        figures=drawn, pieces=written,
        benchmarks=folder / "benchmarks", record=[], page=folder / "index.html",
        pages=folder / "pages", latex=folder / "latex", claims=folder / "tables/claims.csv",
    )  # fmt: skip
    return [folder / "index.html", *sorted((folder / "pages").rglob("*.*"))]
