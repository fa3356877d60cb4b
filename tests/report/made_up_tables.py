"""Made-up measurements of any size for tests of the report's figures: all tables, no files."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np

from mispair.evaluation.pruning import RANKED
from mispair.image_text.report.arms import COLOURS
from mispair.report import style
from mispair.report.tables import Tables, tidy
from mispair.simulation.report.rows import POINTS
from mispair.towers.arms import UNTOUCHED

EVIL = "<img src=x onerror=alert(1)> & \"'}{"
"""The name of the first evaluation set."""
STARTS = tuple(name for name in COLOURS if name != UNTOUCHED)


def arms(rates: int) -> list[tuple[str, str | None, float | None]]:
    steps = np.linspace(0, 0.9, rates).round(4).tolist()
    return [("untouched", None, None), *((start, "random", rate) for start in STARTS
                                         for rate in steps)]  # fmt: skip


def purity(rates: int, seeds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    rows = []
    for (start, scheme, rate), tower in itertools.product(arms(rates), ("text", "image")):
        width = 0.05 + 0.1 * (rate or 0)
        for seed in range(1 if rate is None else seeds):
            here = {"start": start, "scheme": scheme, "rate": rate, "tower": tower, "seed": seed}
            level = 0.8 * width + 1e-3 * rng.random()
            values = {
                "mean_abs_cosine": level,
                "random_reference": 0.04,
                "participation_ratio": 60 - 10 * width,
                "mean_abs_cosine_rotated": level,
            }
            rows += [{"metric": name, "value": value, **here} for name, value in values.items()]
            if rate is not None:
                product = {**here, "tower": None, "value": 30 - 25 * rate}
                rows.append({"metric": "gap_times_scale", **product})
    return rows


def scored(rates: int, seeds: int, sets: list[str]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {"start": start, "scheme": scheme, "rate": rate, "evaluation_set": name, "seed": seed,
         "protocol": "clip_benchmark" if metric == "acc1" else None, "metric": metric,
         "value": 0.7 - 0.2 * (rate or 0) + 0.01 * rng.random(), "chance": 0.1, "n": 100,
         "fingerprint": "a" * 16}
        for start, scheme, rate in arms(rates) for name in sets
        for metric in ("acc1", "silhouette") for seed in range(1 if rate is None else seeds)
    ]  # fmt: skip


def chosen(rates: int, seeds: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(6)
    return [
        {"start": start, "scheme": scheme, "rate": rate, "evaluation_set": "choices", "seed": seed,
         "protocol": "captions", "metric": metric, "classname": category, "chance": 0.5, "n": 100,
         "value": 0.9 - 0.2 * (rate or 0) + 0.01 * rng.random(), "fingerprint": "b" * 16,
         "headline": "selection_acc"}
        for start, scheme, rate in arms(rates)
        for metric, category in (
            ("selection_acc", None), ("selection_blind", None), ("selection_ties", None),
            *(("category_selection_" + what, category) for what in ("acc", "blind")
              for category in ("add-shape", "swap-shape")),
        )
        for seed in range(1 if rate is None else seeds)
    ]  # fmt: skip


def pruned(sets: list[str], draws: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    ranked = [(strategy, tower, 0) for strategy in RANKED for tower in ("text", "image", "both")]
    ranked += [("random", "none", draw) for draw in range(draws)]
    return [
        {"start": "untouched", "evaluation_set": name, "protocol": "clip_benchmark" if metric ==
         "acc1" else None, "normalised": normalised, "basis": basis, "strategy": strategy,
         "ranked_by": tower, "draw": draw, "metric": metric, "seed": 0, "k": k,
         "value": 0.5 + k / 200 + 0.01 * rng.random()}
        for name in sets for metric in ("acc1", "silhouette")
        for normalised in ("masked", "renormalised") for basis in ("original", "rotated-0")
        for k in (8, 16, 32, 64) for strategy, tower, draw in ranked
    ]  # fmt: skip


def semantics(neurons: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(3)
    means = [
        {"start": start, "rate": rate, "tower": tower, "seed": seed, "metric":
         "mean_semantic_purity", "basis": basis, "value": 0.4 + 0.01 * rng.random(), **limits}
        for start, rate, seed in (("untouched", None, 0), *(
            ("pretrained", rate, seed) for rate in (0.0, 0.8) for seed in range(3)))
        for tower in ("text", "image")
        for basis, limits in (("original", {}), ("rotated", {"low": 0.39, "high": 0.42}))
    ]  # fmt: skip
    return means + [
        {"start": "untouched", "tower": tower, "seed": 0, "basis": basis, "neuron": neuron,
         "metric": "best_correlation", "feature": EVIL, "value": rng.uniform(-1, 1),
         "overlap": rng.random(), "n": 100}
        for tower in ("text", "image") for basis in ("original", "rotated-0")
        for neuron in range(neurons)
    ]  # fmt: skip


def compared(models: int, sets: list[str]) -> list[dict[str, Any]]:
    return [
        {"pretraining": "CC12M", "architecture": "ViT-B/16", "method": method, "towers": f"{method}"
         f"-{number}", "model": f"m{number}", "evaluation_set": name, "protocol": "laclip",
         "metric": metric, "value": 0.5 + 0.001 * number, "low": 0.4, "high": 0.6, "n": 100,
         "headline": "acc1", "fingerprint": "b" * 16}
        for number in range(models) for method in ("CLIP", "LaCLIP") for name in sets
        for metric in ("acc1", "silhouette")
    ]  # fmt: skip


def simulated(trials: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    rows: list[dict[str, Any]] = []
    for preset, c, trial, arm in itertools.product(
        ("as-written", "as-run"), (0.0, 0.3), range(trials), ("raw", "filtered")
    ):
        here = {
            "condition": preset,
            "preset": preset,
            "kind": "preset",
            "trial": trial,
            "spurious_probability": c,
            "trained_on": arm,
            "definition_main": preset,
        }
        values = {name: 0.5 + 0.01 * rng.random() for name in style.MEASURES}
        rows += [{**here, "metric": name, "value": value} for name, value in values.items()]
        rows += [{**here, "metric": "cosine_histogram", "tower": tower, "bin_low": low / 50,
                  "bin_high": (low + 1) / 50, "value": rng.integers(1, 50)}
                 for tower in ("text", "image") for low in range(50)]  # fmt: skip
        if preset == "as-written":
            rows += [{**here, "condition": f"bridge~{switch}", "kind": "bridge", "switch": switch,
                      "metric": name, "value": value + 0.1}
                     for switch in ("loss", "noise") for name, value in values.items()]  # fmt: skip
        rows += points(here, rng)
    return rows


def points(here: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {**here, "metric": "neuron_alignment", "tower": tower, "neuron": neuron,
         "x": rng.uniform(0.5, 1), "y": rng.uniform(0, 0.5)}
        for tower in ("text", "image") for neuron in range(20)
    ]  # fmt: skip


@cache
def measured(
    rates: int = 3, seeds: int = 3, sets: int = 2, models: int = 2, neurons: int = 30,
    trials: int = 3, draws: int = 4,
) -> Tables:  # fmt: skip
    names = [EVIL, *(f"set {number}" for number in range(1, sets))]
    of_simulation = simulated(trials)
    shares = ("swapped_share", "text_changed_share")
    other = [{**row, "scheme": "similar"} for row in (*purity(rates, seeds), *scored(
        rates, seeds, names)) if row["start"] == "pretrained" and row["rate"]]  # fmt: skip
    rows = {
        "purity": [*purity(rates, seeds), *(row for row in other if "tower" in row)],
        "zeroshot": [
            *scored(rates, seeds, names), *chosen(rates, seeds),
            *(row for row in other if "tower" not in row),
        ],
        "pruning": pruned(names, draws),
        "semantics": semantics(neurons),
        "checkpoints": compared(models, names),
        "pairs": [{"metric": name, "scheme": "random", "rate": rate, "value": rate or 0.0, "n": 9}
                  for name in shares for _, _, rate in arms(rates)[1:rates + 1]],
        "simulation": [row for row in of_simulation if row["metric"] not in POINTS],
        "simulation_points": [row for row in of_simulation if row["metric"] in POINTS],
    }  # fmt: skip
    return Tables({name: tidy(name, own) for name, own in rows.items()})
