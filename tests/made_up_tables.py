"""Tables of made-up runs of any size, for tests of what the report makes of them."""

import itertools
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from mispair.audit import paths as audit
from mispair.core import files
from mispair.core.paths import WILDCARD, fill
from mispair.evaluation import paths as evaluation
from mispair.evaluation.pruning import RANKED
from mispair.image_text import paths as image_text
from mispair.image_text.report.arms import COLOURS
from mispair.laclip import paths as laclip
from mispair.pairs import paths as pairs
from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.report.contact_sheet import alone
from mispair.pretraining.paths import MIXING
from mispair.repair import paths as repair
from mispair.report import studies
from mispair.report.steps import draw_figures, gather_metrics, write_report
from mispair.report.tables import Tables, read, tidy
from mispair.simulation.paths import SIMULATION
from mispair.simulation.report.rows import POINTS
from mispair.stepsize.paths import TWO_LAYER
from mispair.sufficiency.paths import TRANSFER
from mispair.towers import paths as towers

EVIL = "<script>hit = 1</script>'\"&amp;}{"
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
    return [UNTOUCHED, *every[: number - 1]][:number]


UNTOUCHED: Row = {"start": "untouched", "scheme": None, "rate": None}


def purity(arm: Row, seed: int) -> list[Row]:
    """Return overlaps of an arm; with the rate they rise where it starts from trained weights."""
    rate, rows = arm["rate"] or 0, []
    for tower in ("image", "text"):
        here = {**arm, "tower": tower, "seed": seed}
        level = 0.08 + 0.04 * rate * (arm["start"] == "pretrained") + 1e-4 * seed
        values = {
            "mean_abs_cosine": level, "mean_abs_correlation": 2 * level, "random_reference": 0.07,
            "participation_ratio": 50 - 10 * rate, "mean_abs_cosine_rotated": level,
        }  # fmt: skip
        rows += [{**here, "metric": name, "value": value} for name, value in values.items()]
        rows += [
            {**here, "metric": "neuron_purity", "neuron": neuron, "value": level}
            for neuron in range(64)
        ]
        if arm["rate"] is not None:
            gap = {"metric": "gap_times_scale", "tower": None, "value": 30 - 25 * rate + seed}
            rows.append({**here, **gap})
    return rows


def scores(
    arm: Row, seed: int, sets: Sequence[str], *, protocols: Iterable[str] = PROTOCOLS,
    classes: Sequence[str] = CLASSES, missing: bool = False, undefined: Sequence[str] = (),
) -> list[Row]:  # fmt: skip
    """Return scores of an arm; all or the silhouettes of some sets are numbers not defined."""
    rows = []
    for place, name in enumerate(sets):
        here = {**arm, "towers": "towers", "evaluation_set": name, "seed": seed, "n": 1000}
        value = 0.9 - 0.2 * (arm["rate"] or 0) - 0.01 * place + 1e-3 * seed
        silhouette = None if missing or name in undefined else value / 3
        rows.append({**here, "metric": "silhouette", "value": silhouette})
        for protocol in protocols:
            asked = {**here, "protocol": protocol, "chance": 0.1, "headline": "acc1",
                     "fingerprint": "a1b2c3d4e5f60718"}  # fmt: skip
            rows += [
                {**asked, "metric": metric, "value": None if missing else value}
                for metric in ("acc1", "acc5", "mean_per_class_recall")
            ]
            rows += [
                {**asked, "metric": "class_recall", "classname": name_, "value": value, "n": 100}
                for name_ in classes
            ]
    return rows


def chosen(arm: Row, seed: int) -> list[Row]:
    """Return shares of right choices between two captions, over all and by category."""
    common = {**arm, "evaluation_set": "choices", "seed": seed, "protocol": "captions", "n": 100,
            "chance": 0.5, "value": 0.9 - 0.2 * (arm["rate"] or 0) + 0.01 * seed,
            "headline": "selection_acc", "fingerprint": "b" * 16}  # fmt: skip
    of_all = [{**common, "metric": f"selection_{what}"} for what in ("acc", "blind", "ties")]
    return of_all + [
        {**common, "metric": f"category_selection_{what}", "classname": category}
        for what in ("acc", "blind") for category in ("add-shape", "swap-shape")
    ]  # fmt: skip


def pruned(sets: Sequence[str], draws: int = 20, ways: Sequence[str] = ("masked",)) -> list[Row]:
    """Return scores of the untouched model by neurons kept."""
    ranked = [
        {"strategy": strategy, "ranked_by": tower, "draw": 0, "gain": 0.01 * rank}
        for (rank, strategy), tower in itertools.product(
            enumerate(RANKED), ("text", "image", "both")
        )
    ]
    ranked += [{"strategy": "random", "ranked_by": "none", "draw": draw, "gain": 1e-3 * draw}
               for draw in range(draws)]  # fmt: skip
    return [
        {"start": "untouched", "towers": "towers", "evaluation_set": name, "seed": 0,
         "basis": basis, "k": k, "metric": metric, "normalised": way,
         "protocol": "clip_benchmark" if metric == "acc1" else None,
         **about, "value": 0.5 + k / 200 + about["gain"]}
        for name, k, metric, basis, way in itertools.product(
            sets, (16, 32, 48, 64), ("acc1", "silhouette"), ("original", "rotated-0"), ways)
        for about in ranked
    ]  # fmt: skip


def semantics(neurons: int) -> list[Row]:
    """Return how closely neurons follow a feature: means of arms, and single neurons."""
    ends = [(UNTOUCHED, 0), *(({**UNTOUCHED, "start": "pretrained", "rate": rate}, seed)
                              for rate in (0.0, 0.8) for seed in range(3))]  # fmt: skip
    means = [
        {**arm, "tower": tower, "seed": seed, "metric": "mean_semantic_purity", "basis": basis,
         "value": 0.4 + 0.01 * seed, **limits}
        for arm, seed in ends for tower in ("text", "image")
        for basis, limits in (("original", {}), ("rotated", {"low": 0.39, "high": 0.42}))
    ]  # fmt: skip
    return means + [
        {"start": "untouched", "tower": tower, "seed": 0, "basis": basis, "neuron": neuron,
         "metric": "best_correlation", "feature": EVIL, "value": math.sin(7 * neuron),
         "overlap": neuron / neurons, "n": 100}
        for tower in ("text", "image") for basis in ("original", "rotated-0")
        for neuron in range(neurons)
    ]  # fmt: skip


def simulated(
    trials: int, at: Sequence[float] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), switches: Sequence[str] = ()
) -> list[Row]:
    """Return runs of both presets, and of bridges from the first one."""
    rows: list[Row] = []
    for preset, probability, trial, arm in itertools.product(
        ("as-written", "as-run"), at, range(trials), ("raw", "filtered")
    ):
        here = {"condition": preset, "kind": "preset", "preset": preset, "features": 50,
                "definition_main": preset, "spurious_probability": probability, "trained_on": arm,
                "trial": trial}  # fmt: skip
        value = 0.9 - probability * (0.4 if arm == "filtered" else 0.8)
        value += 0.002 * trial * (2 if arm == "filtered" else 1)  # the gain varies by trial
        figure1 = {"purified_features": 50 * value, "purified_magnitude": value,
                   "accuracy": value, "silhouette": 0.1 * value}  # fmt: skip
        measured = {**figure1, "second_alignment": 0.3 * value}
        rows += [{**here, "metric": metric, "value": of} for metric, of in measured.items()]
        rows += [
            {**here, "metric": "cosine_histogram", "tower": tower, "value": 10 + k % 7,
             "bin_low": round(0.02 * k, 2), "bin_high": round(0.02 * k + 0.02, 2)}
            for tower in ("image", "text") for k in range(50)
        ]  # fmt: skip
        if trial == 0 and probability == max(at):
            rows += [
                {**here, "metric": "neuron_alignment", "tower": tower, "neuron": k,
                 "x": 0.5 + k / 400, "y": k / 400}
                for tower in ("image", "text") for k in range(100)
            ]  # fmt: skip
        if preset == "as-written":
            rows += [
                {**here, "condition": f"bridge~{switch}", "kind": "bridge", "switch": switch,
                 "metric": metric, "value": of + 0.1}
                for switch in switches for metric, of in figure1.items()
            ]  # fmt: skip
    return rows


def _models(sets: Sequence[str], number: int) -> list[Row]:
    return [
        {"pretraining": "CC12M", "architecture": "ViT-B/16", "method": method,
         "towers": f"{EVIL}/{method}-{model}", "evaluation_set": name, "protocol": protocol,
         "metric": metric, "value": 0.5 + 0.01 * model, "low": 0.48, "high": 0.55, "n": 1000,
         "headline": "acc1", "fingerprint": "c" * 16}
        for model in range(number) for method in ("CLIP", "LaCLIP") for name in sets
        for protocol, metric in (("laclip", "acc1"), (None, "silhouette"))
    ]  # fmt: skip


def _pairs(of: Iterable[Row]) -> list[Row]:
    return [
        {"metric": metric, "scheme": arm["scheme"], "rate": arm["rate"], "value": arm["rate"],
         "n": 1000}
        for arm in of if arm["start"] == "pretrained"
        for metric in ("swapped_share", "text_changed_share")
    ]  # fmt: skip


def _seeds(arm: Row, seeds: int) -> range:
    return range(1 if arm["rate"] is None else seeds)


def tables(**rows: list[Row]) -> Tables:
    """Return tables of rows by name."""
    return Tables({name: tidy(name, own) for name, own in rows.items()})


def _tables(runs: list[Row], **rows: list[Row]) -> Tables:
    """Return tables of rows by name, and of runs of the simulation."""
    points = [row for row in runs if row["metric"] in POINTS]
    others = [row for row in runs if row["metric"] not in POINTS]
    return tables(**rows, simulation=others, simulation_points=points)


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
    of = [(arm, seed) for arm in arms(number) for seed in _seeds(arm, seeds)]
    training = json.dumps({"epochs": 10, "preset": "as-run", "note": EVIL})
    origin = {"projection.towers": "d" * 64, "projection.training": training}
    return _tables(
        simulated(trials),
        purity=[row for arm, seed in of for row in purity(arm, seed)],
        zeroshot=[row for arm, seed in of for row in scores(arm, seed, sets, missing=missing)],
        provenance=[{"artefact": "purity", **arm, "key": key, "text": text}
                    for arm in arms(number) for key, text in origin.items()],
        pairs=_pairs(arms(number)), pruning=pruned(sets) if number else [],
        checkpoints=_models(sets, models),
    )  # fmt: skip


@cache
def measured(
    rates: int = 3, seeds: int = 3, sets: int = 2, models: int = 2, neurons: int = 30,
    trials: int = 3, draws: int = 4,
) -> Tables:  # fmt: skip
    """Return tables for all figures: every start at so many rates; the first set is `EVIL`."""
    names = [EVIL, *(f"set {number}" for number in range(1, sets))]
    steps = [round(0.9 * step / (rates - 1), 4) for step in range(rates)]
    starts = [name for name in COLOURS if name != UNTOUCHED["start"]]
    every = [UNTOUCHED, *({"start": start, "scheme": "random", "rate": rate}
                          for start in starts for rate in steps)]  # fmt: skip
    every += [{"start": "pretrained", "scheme": "similar", "rate": rate} for rate in steps[1:]]
    of = [(arm, seed) for arm in every for seed in _seeds(arm, seeds)]
    few: Row = {"protocols": PROTOCOLS[:1], "classes": ()}
    return _tables(
        simulated(trials, (0.0, 0.3), switches=("loss", "noise")),
        purity=[row for arm, seed in of for row in purity(arm, seed)],
        zeroshot=[row for arm, seed in of
                  for row in (*scores(arm, seed, names, **few), *chosen(arm, seed))],
        pruning=pruned(names, draws, ("masked", "renormalised")), semantics=semantics(neurons),
        checkpoints=_models(names, models), pairs=_pairs(every),
    )  # fmt: skip


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
            files.write_text(folder / name, alone(html, name))
    written = [folder / name for name, html in pieces.items() if html]
    write_report.run(
        write_report.Settings(**settings), tables=paths,
        figures=drawn, pieces=written,
        benchmarks=folder / "benchmarks", record=[], page=folder / "index.html",
        pages=folder / "pages", latex=folder / "latex", claims=folder / "tables/claims.csv",
    )  # fmt: skip
    return [folder / "index.html", *sorted((folder / "pages").rglob("*.*"))]
