"""The tables, figures and pages of a small made-up run, through the steps that write them."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from markupsafe import escape
from PIL import Image

from mispair.core import files, metrics
from mispair.pairs.report.contact_sheet import alone
from mispair.pairs.steps import draw_contact_sheet
from mispair.report import studies
from mispair.report.figures import compose, draw_of
from mispair.report.pages.study_pages import every_pages
from mispair.report.steps import record_run, write_report
from mispair.report.tables import read
from tests.browser import broken_links
from tests.made_up_tables import (
    PLACES,
    STARTS,
    TIDY,
    Row,
    draw_all,
    figure_file,
    gather,
    light_pictures,
    pruned,
    purity,
    scores,
    semantics,
    simulated,
)
from tests.pretraining import pretraining_run
from tests.stepsize.stepsize_run import trained
from tests.sufficiency import sufficiency_run
from tests.visible_words import parsed, words

DECLARED = [claim for pages in every_pages() for claim in pages.claims]
EVIL = "<script>alert('x')</script> & \"quoted\""
RATES = (0.0, 0.3, 0.8)
PROTOCOLS = {"clip_benchmark": "a1b2c3d4" * 2, "single-prompt": "b2c3d4e5" * 2}
SETS = ("shapes", EVIL)
SCHEMES = ("random", "similar")


def _zeroshot(arm: Row, seeds: list[int]) -> list[Row]:
    """Return scores on two sets, of which one has no silhouette, and recalls of captions."""
    rows = [
        {**row, "fingerprint": PROTOCOLS.get(row.get("protocol"))}
        for seed in seeds for row in scores(arm, seed, SETS, classes=(EVIL, "7"), undefined=[EVIL])
        if row["metric"] not in ("acc5", "mean_per_class_recall")
    ]  # fmt: skip
    captions = {"evaluation_set": "pictures", "protocol": "captions", "seed": 0, "value": 0.5,
                "fingerprint": "e" * 16}  # fmt: skip
    return rows + [
        {"metric": f"{way}_recall@{k}", **captions, "n": 250 if way == "image" else 50}
        for way in ("image", "text") for k in (1, 5, 10)
    ]  # fmt: skip


def _protocols() -> dict[str, Any]:
    about = {"metric": "acc1", "classnames": json.dumps([EVIL, "7"])}
    known = {name: {protocol: about for protocol in PROTOCOLS} for name in SETS}
    headline = {name: dict.fromkeys(PROTOCOLS, "acc1") for name in SETS}
    return {"protocols": known, "headline": headline}


def _simulation(probability: float, trial: int) -> list[Row]:
    """Return a run of one preset without its mixing, of which the report has no figure then."""
    runs = [row for row in simulated(2, (probability,))
            if (row["preset"], row["trial"]) == ("as-run", trial)
            and row["metric"] not in ("neuron_alignment", "second_alignment")]  # fmt: skip
    for arm in ("raw", "filtered"):
        here = {"trained_on": arm, "spurious_probability": probability, "trial": trial, "seed": 0}
        more = {"loss": 2.0, "replaced_share_bad": 0.99, "replaced_share_clean": 0.3}
        runs += [{"metric": name, **here, "value": value} for name, value in more.items()
                 if name == "loss" or arm == "filtered"]  # fmt: skip
    return runs


def make_run(folder: Path) -> dict[str, list[Path]]:
    """Write the results of a run as its steps write them."""
    made: dict[str, list[Path]] = {"purity": [], "zeroshot": [], "simulation": []}
    arms = [("untouched", None, None)] + [
        (start, scheme, rate)
        for scheme in SCHEMES
        for start in STARTS
        for rate in RATES
        if rate or scheme == SCHEMES[0]
    ]
    for number, (start, scheme, rate) in enumerate(arms):
        origin = {"start": start, "towers": "a" * 16}
        if rate is not None:
            origin |= {"scheme": scheme, "rate": repr(rate), "pairs_fingerprint": "b" * 16}
        seeds = [0] if rate is None else [0, 1]
        arm = {"start": start, "scheme": scheme, "rate": rate}
        overlaps = [row for seed in seeds for row in purity(arm, seed)]
        for what, rows in (("purity", overlaps), ("zeroshot", _zeroshot(arm, seeds))):
            path = folder / "arms" / "small" / str(number) / f"{what}.json"
            metrics.write_metrics(path, rows, {"projection": origin, **_protocols()})
            made[what].append(path)
    made |= _beside(folder / "arms" / "small" / "0") | _checkpoints(folder / "checkpoints")
    for probability in (0.1, 0.3, 0.5):
        for trial in (0, 1):
            path = folder / f"simulation-{probability}-{trial}.json"
            about = {"settings": {"preset": "as-run", "d": 50}}
            metrics.write_metrics(path, _simulation(probability, trial), about)
            made["simulation"].append(path)
    path = folder / "sufficiency.json"
    metrics.write_metrics(path, sufficiency_run.everything(), {"trees": {"size": "2x3x10"}})
    made["sufficiency"] = [path]
    path = folder / "pretraining.json"
    metrics.write_metrics(path, pretraining_run.rows(), {"trained": {"scheme": EVIL, "rate": "0.4",
                                                                 "draw": "0"}})  # fmt: skip
    made["pretraining"] = [path]
    made |= make_audit(folder) | make_repair(folder)
    return made | make_pairs(folder) | make_corpus(folder) | make_stepsizes(folder)


def make_audit(folder: Path) -> dict[str, list[Path]]:
    """Write a tiny run of the audit."""
    rates = [
        {"metric": name, "value": value, "low": value - 0.02, "high": value + 0.02, "n": 1000}
        for name, value in (("wrong_captions", 0.13), ("mixture", 0.13), ("storey", 0.14),
                            ("wins_against_random", 0.9))
    ]  # fmt: skip
    rates += [{"metric": "p_value_density", "at": at, "value": 0.2 / at} for at in (0.25, 0.75)]
    rates.append({**rates[0], "metric": "checked_reliability", "at": 0.2})
    rates += [
        {"metric": metric, "word": "short", "text": EVIL, "at": 12, "value": value, "n": 1000}
        for metric, value in (("text_check", 8), ("text_example", 8), ("suspects", 12),
                              ("suspect_text", 1.0), ("corpus_text", 0.2))
    ]  # fmt: skip
    selection = [{"metric": "pairs_kept", "value": 870, "n": 1000}]
    selection += [
        {"metric": f"group_{what}", "word": "script", "text": text, "value": value}
        for text, lost in ((EVIL, 0.3), ("Latin", 0.02))
        for what, value in (("pairs", 500), ("wins", 0.9), ("wrong", 0.1), ("removed", 0.3),
                            ("right_lost", lost))
    ]  # fmt: skip
    trials = [
        {"scheme": scheme, "injected": rate, "made": rate, "scorer": scorer, "method": method,
         "metric": "rate", "value": rate, "low": rate - 0.01, "high": rate + 0.01, "n": 1000}
        for scheme in ("random", "similar") for rate in (0.1, 0.3)
        for scorer, method in (("untouched", "mixture"), ("untouched", "similar"),
                               ("memorised", "mixture"), ("cross-fitted", "mixture"))
    ]  # fmt: skip
    told = {"scheme": "random", "injected": 0.3, "scorer": "untouched", "n": 1000, "made": 0.3}
    trials += [
        {**told, "metric": metric, "method": method, "value": 0.9}
        for metric in ("auroc", "auprc") for method in ("probability", "cosine", EVIL)
    ]  # fmt: skip
    trials += [{**told, "metric": "reliability", "at": at, "value": at} for at in (0.1, 0.9)]
    made = {"audit": rates, "selection": selection, "calibration": trials}
    for name, rows in made.items():
        metrics.write_metrics(folder / f"{name}.json", rows, {"refused": "", "note": EVIL})
    return {name: [folder / f"{name}.json"] for name in made}


def make_repair(folder: Path) -> dict[str, list[Path]]:
    """Write a tiny run of the repair: two rules at one rate."""
    made: dict[str, list[Path]] = {name: [] for name in REPAIRED}
    for rule, value in (("raw", 0.7), ("factor", 0.8)):
        counts = {"read": 10, "kept": 4, "replaced": 6, "dropped": 0, "failed": 0}
        ledger = [{"metric": name, "value": number} for name, number in counts.items()]
        ledger += [{"metric": "pairs", "before": "wrong", "after": "right", "value": 10}]
        ledger += [{"metric": "precision", "captions": "repaired", "value": 0.9, "n": 30}]
        origin = {"scheme": "random", "rate": "0.8"}
        overlap = [{"metric": "mean_abs_cosine", "tower": tower, "value": 0.1}
                   for tower in ("text", "image")]  # fmt: skip
        accuracy = [{"metric": "acc1", "evaluation_set": SETS[0], "protocol": "clip_benchmark",
                     "value": value, "n": 100}]  # fmt: skip
        arm = {"projection": {"start": f"repair-{rule}", **origin}}
        written = {
            "ledger": (
                ledger,
                {
                    "repair": rule,
                    "scheme": "random",
                    "nominal": "0.8",
                    "examples": [
                        {
                            "sample": sample,
                            "key": EVIL,
                            "old": EVIL,
                            "new": f"new {EVIL}",
                            "action": "replaced",
                        }
                        for sample in ("random", "best", "worst")
                    ],
                },
            ),
            "repair_purity": (overlap, arm),
            "repair_zeroshot": (accuracy, arm),
            "tower_ledger": (ledger, {"repair": rule, "scheme": "random", "nominal": "0.8"}),
            "learned": (
                [{"rate": 0.8, "chance": 0.1, **row} for row in overlap + accuracy],
                {"trained": {"repair": rule, "draw": "0", **origin}},
            ),
        }
        for kind, (rows, provenance) in written.items():
            made[kind].append(folder / "repair" / "small" / rule / f"{kind}.json")
            seeds = [{"seed": seed, **row} for seed in (0, 1) for row in rows]
            metrics.write_metrics(made[kind][-1], seeds, provenance)
    difference = {"rule": "factor", "reference": "raw", "scheme": "random", "rate": 0.8,
                  "protocol": "clip_benchmark", "metric": "acc1_difference_of_all_sets",
                  "value": 0.1, "n": 100, "seeds": 2, "error": 0.01, "freedom": 9, "low": 0.08,
                  "high": 0.12, "p": 0.001}  # fmt: skip
    made["repair_differences"] = [folder / "repair_differences.json"]
    metrics.write_metrics(made["repair_differences"][0], [difference], {})
    return made


REPAIRED = ("ledger", "repair_differences", "repair_purity", "repair_zeroshot", "tower_ledger",
            "learned")  # fmt: skip
"""Kinds of results of the repair."""


def make_stepsizes(folder: Path) -> dict[str, list[Path]]:
    """Write a tiny run of the stepsize study."""
    rows = trained("sweep", "xor4", "leaky_softplus", [20], [16, 32, 64], 2, 400)
    path = folder / "stepsize.json"
    metrics.write_metrics(path, rows, {"plan": {"note": EVIL}})
    return {"stepsize": [path]}


def _beside(folder: Path) -> dict[str, list[Path]]:
    """Write what is measured beside classification on the untouched model."""
    untouched = {"projection": {"start": "untouched"}}
    probes = [
        {"evaluation_set": name, "protocol": "linear-probe", "seed": 0, "metric": metric,
         "value": 0.9, "n": 100, "low": 0.8, "high": 0.95}
        for name in SETS for metric in ("probe_acc1", "probe_mean_per_class_recall")
    ]  # fmt: skip
    differences = [
        {"start": "pretrained", "scheme": "random", "rate": rate, "evaluation_set": name,
         "protocol": "clip_benchmark", "metric": "acc1_difference", "reference": reference,
         "value": -0.1, "low": -0.15, "high": -0.05, "n": 100, "p": 0.01}
        for name in SETS for rate in RATES[1:] for reference in ("untouched", "rate 0")
    ]  # fmt: skip
    followed = [row for row in semantics(4) if row["start"] == "untouched"] + [
        {"tower": tower, "seed": 0, "basis": basis, "n": 4, "metric": "semantic_purity_by_overlap",
         "value": 0.4, "p": 0.02}
        for tower in ("image", "text") for basis in ("original", "rotated-0")
    ]  # fmt: skip
    rows_by_name = {"pruning": pruned(SETS, 3, ("masked", "renormalised")), "probes": probes,
            "comparisons": differences, "semantics": followed}  # fmt: skip
    for name, rows in rows_by_name.items():
        metrics.write_metrics(folder / f"{name}.json", rows, untouched)
    return {name: [folder / f"{name}.json"] for name in rows_by_name}


def _checkpoints(folder: Path) -> dict[str, list[Path]]:
    """Write two converted checkpoints and their results."""
    kinds = ("checkpoint_zeroshot", "checkpoint_purity", "checkpoint_origins")
    found: dict[str, list[Path]] = {kind: [] for kind in kinds}
    for method, value in (("CLIP", 0.51), ("LaCLIP", 0.65)):
        name = f"cc12m-{method.lower()}"
        spec = {"name": name, "recipe": "laclip-cc", "pretraining": "CC12M", "method": method,
                "mean": [0.485, 0.456, 0.406], "sha256": "9" * 64,
                "activation": {"image": "gelu", "text": "quick_gelu"}}  # fmt: skip
        files.write_text(folder / name / "config.json", json.dumps({"mispair": spec}))
        rows = [
            {"evaluation_set": "wds_food101", "protocol": "laclip", "metric": metric, "seed": 0,
             "value": value, "low": value - 0.01, "high": value + 0.01, "n": 1000,
             "fingerprint": "c" * 16, "chance": 0.01}
            for metric in ("acc1", "silhouette")
        ]  # fmt: skip
        about = {"headline": {"wds_food101": {"laclip": "acc1"}}}
        path = folder / name / "untouched" / "zeroshot.json"
        metrics.write_metrics(path, rows, {"projection": {"start": "untouched"}, **about})
        found["checkpoint_zeroshot"].append(path)
        path = folder / name / "untouched" / "purity.json"
        rows = [{"tower": tower, "metric": "mean_abs_cosine", "seed": 0, "value": value / 10}
                for tower in ("image", "text")]  # fmt: skip
        metrics.write_metrics(path, rows, {"projection": {"start": "untouched"}})
        found["checkpoint_purity"].append(path)
        found["checkpoint_origins"].append(folder / name / "config.json")
    return found


def make_corpus(folder: Path) -> dict[str, list[Path]]:
    """Write what is known of the corpus and of its encoding; everything named by data is evil."""
    counts = {"read": 22, "kept": 20, "rejected": 2, "excluded": 0}
    rows: list[dict[str, Any]] = [
        {"metric": metric, "value": value, "n": 22} for metric, value in counts.items()
    ]
    rows += [
        {"metric": "rejected_reason", "reason": reason, "value": 1, "n": 22}
        for reason in ("no-image", EVIL)
    ]
    rows += [
        {"metric": "quarantined_share", "value": 2 / 22, "n": 22},
        {"metric": "damaged_shard_share", "value": 0.0, "n": 1},
        {"metric": "caption_empty_share", "value": 1 / 22, "n": 22},
        {"metric": "caption_duplicate_share", "value": 0.15, "n": 20},
        {"metric": "caption_person_share", "value": 0.25, "n": 20},
        {"metric": "caption_non_ascii_share", "value": 0.35, "n": 20},
        {"metric": "caption_control_share", "value": 0.0, "n": 20},
        {"metric": "captions_further", "value": 5, "n": 20},
        {"metric": "captions_distinct", "value": 23, "n": 25},
        {"metric": "image_duplicate_share", "value": 0.1, "n": 20},
        {"metric": "image_sha256_duplicate_share", "value": None, "n": 0},
        {"metric": "downloads", "status": "success", "value": 30, "n": 40},
        {"metric": "downloads", "status": EVIL, "value": 10, "n": 40},
    ]
    for name, numbers in (("words", (9.25, 9, 14, 20)), ("characters", (50.5, 49, 70, 101))):
        for part, value in zip(("mean", "median", "p95", "max"), numbers, strict=True):
            rows.append({"metric": f"caption_{name}_{part}", "value": value, "n": 20})
    for name, numbers in (("width", (8, 16, 200, 640, 800)),
                          ("aspect_ratio", (0.5, 0.75, 1.5, 1.75, 2.0))):  # fmt: skip
        for part, value in zip(("min", "p05", "median", "p95", "max"), numbers, strict=True):
            rows.append({"metric": f"image_{name}_{part}", "value": value, "n": 20})
    for metric in ("caption_words", "caption_characters", "image_shorter_side"):
        for low, high, value in ((0, 2, 1), (2, 4, 12), (4, None, 7)):
            rows.append({"metric": f"{metric}_histogram", "bin_low": low, "bin_high": high,
                         "value": value, "n": 20})  # fmt: skip
    metrics.write_metrics(folder / "statistics.json", rows, {"pairs_fingerprint": "b" * 16})
    columns = ["key", "shard", "reason", "detail", "group"]
    files.write_parquet(folder / "excluded.parquet", pd.DataFrame(columns=columns, dtype="str"), {})
    records = []
    for group, share in (("0000", 0.05), ("0001", 0.45)):
        record = {"images": 10, "captions": 10, "truncated": 2, "seconds": 5.0,
                  "images_per_s": 100 * share, "captions_per_s": 50.0, "waiting_share": share,
                  "memory_bytes": 2**30, "batch_size": 256, "workers": 4, "precision": "bf16",
                  "device": EVIL}  # fmt: skip
        records.append(folder / f"{group}.json")
        files.write_text(records[-1], json.dumps(record))
    return {"statistics": [folder / "statistics.json"], "records": records,
            "excluded": [folder / "excluded.parquet"]}  # fmt: skip


def make_pairs(folder: Path) -> dict[str, list[Path]]:
    keys = [f"{number:06d}" for number in range(20)]
    counts = {"read": "22", "kept": "20", "rejected": "2"}
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(buffer, "JPEG")
    images = [*[buffer.getvalue()] * 19, b"not an image"]
    with tarfile.open(folder / "00000.tar", "w") as archive:
        for key, encoded in zip(keys, images, strict=True):
            for name, content in ((f"{key}.jpg", encoded), (f"{key}.txt", b"text")):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    with tarfile.open(folder / "00000.tar") as archive:
        offsets = [archive.getmember(f"{key}.jpg").offset_data for key in keys]
    kept = pd.DataFrame({
        "key": keys, "shard": "00000.tar", "caption": [f"{EVIL} {key}" for key in keys],
        "caption_id": [f"c{key}" for key in keys], "width": 8, "height": 8,
        "image_offset": offsets, "image_bytes": [len(encoded) for encoded in images],
        "image_id": [hashlib.sha256(encoded).hexdigest()[:16] for encoded in images],
    })  # fmt: skip
    refused = pd.DataFrame({"key": ["x", "y"], "shard": "00000.tar",
                            "reason": ["no-image", "empty-caption"], "detail": ""})  # fmt: skip
    files.write_parquet(folder / "index.parquet", kept, counts)
    files.write_parquet(folder / "rejected.parquet", refused, counts)
    pairings = []
    for scheme, rate in [(scheme, rate) for scheme in SCHEMES for rate in RATES]:
        if rate == 0 and scheme != SCHEMES[0]:
            continue
        swapped = [number < rate * 20 for number in range(20)]
        table = pd.DataFrame({
            "key": keys, "swapped": swapped, "text_changed": swapped,
            "caption_id": [f"c{keys[19 - n] if moved else key}"
                           for n, (key, moved) in enumerate(zip(keys, swapped, strict=True))],
        })  # fmt: skip
        about = {"scheme": scheme, "note": EVIL, "nominal": repr(rate), "swapped_share": repr(rate),
                 "text_changed_share": repr(rate), "pairs_fingerprint": "b" * 16}  # fmt: skip
        pairings.append(folder / f"pairing-{scheme}-{rate}.parquet")
        files.write_parquet(pairings[-1], table, about)
    return {"pairings": pairings, "index": [folder / "index.parquet"],
            "rejected": [folder / "rejected.parquet"],
            "shards": [folder / "00000.tar"]}  # fmt: skip


NOTHING: dict[str, list[Path]] = {name: [] for name in (*PLACES, "shards")}


def report(run: dict[str, list[Path]], folder: Path, draw: bool = True, **settings: Any) -> str:
    """Run the report's five steps, or all but the drawing of figures; return all pages' text."""
    gather({name: paths for name, paths in run.items() if name != "shards"}, folder)
    tables, paths = folder / "tables", sorted((folder / "tables").glob("*.csv"))
    with light_pictures():
        figures = draw_all(folder) if draw else []
    sheet = folder / "contact_sheet.html"
    if run["index"]:
        draw_contact_sheet.run(
            draw_contact_sheet.Settings(), shards=run["shards"], sources=[], index=run["index"],
            pairing=run["pairings"], captions=[], contact_sheet=sheet,
        )  # fmt: skip
    gallery = folder / "neurons.html"
    piece = '<div class="neurons">Neuron 7 of the gallery</div>\n'
    files.write_text(gallery, alone(piece, "Neurons"))
    benchmarks = folder / "benchmarks"
    if run["index"]:
        files.write_text(
            benchmarks / "measure_purity/a.tsv", "s\th:m:s\tmax_rss\n90\t0:01:30\t12\n"
        )
        files.write_text(benchmarks / "make_scenes.tsv", "s\th:m:s\tmax_rss\n10\t0:00:10\t-\n")
    ends = run["purity"]
    record_run.run(
        record_run.Settings(), results=ends, provenance=tables / "provenance.csv", config="{}",
        benchmarks=benchmarks, record=folder / "run.json",
    )  # fmt: skip
    write_report.run(
        write_report.Settings(**settings),
        tables=paths,
        figures=figures,
        pieces=[*([sheet] if run["index"] else []), *([gallery] if run["semantics"] else [])],
        benchmarks=benchmarks,
        record=[folder / "run.json"],
        page=folder / "index.html",
        pages=folder / "pages",
        latex=folder / "latex",
        claims=folder / "claims.csv",
    )
    return "".join(pages(folder).values())


def pages(folder: Path) -> dict[str, str]:
    """Return the text of every page by its path; the landing page is there twice."""
    found = [folder / "index.html", *sorted((folder / "pages").glob("*.html"))]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in found}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("whole")
    return folder, report(make_run(folder), folder)


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("empty")
    return folder, report(NOTHING, folder)


@pytest.mark.parametrize("name", studies.NAMES)
def test_each_figure_of_a_study_is_drawn_by_the_function_of_its_name(name):
    module = import_module(f"mispair.{name}.report.figures")
    drawing = {
        key: function
        for key, function in vars(module).items()
        if not key.startswith("_") and returned(function) == "Drawing | Hole"
    }
    assert {key: function.__name__ for key, function in drawing.items()} == {
        figure.name: figure.name for figure in studies.drawn(name)
    }
    assert {figure: draw_of(figure) for figure in drawing} == drawing


def returned(function: object) -> object:
    return getattr(function, "__annotations__", {}).get("return")


def test_a_figure_without_a_function_is_an_error_that_names_both(monkeypatch):
    monkeypatch.delattr("mispair.laclip.report.figures.checkpoints")
    with pytest.raises(LookupError, match=r"mispair\.laclip\.report\.figures: .* checkpoints "):
        draw_of("checkpoints")


def test_tables_are_tidy_and_read_back_as_they_were(whole):
    folder, _ = whole
    found = read({name[:-4]: folder / "tables" / name for name in TIDY})
    assert set(found.zeroshot["classname"].dropna()) == {EVIL, "7"}
    arms = found.purity[["start", "rate"]].drop_duplicates()
    assert len(arms) == 13
    assert arms.loc[arms["start"] == "untouched", "rate"].isna().all()
    assert found.simulation["features"].eq(50).all()
    histogram = found.simulation[found.simulation["metric"] == "cosine_histogram"]
    assert histogram["bin_high"].notna().all()
    counts = found.pairs.set_index("metric")["value"]
    assert counts["read"] == counts["kept"] + counts["rejected"] == 22
    everything, _ = files.read_parquet(folder / "tables" / "metrics.parquet")
    texts = ("provenance", "repair_examples")
    measured = [table for name, table in found.frames.items() if name not in texts]
    assert len(everything) == sum(map(len, measured)) > 0


def test_the_order_of_inputs_changes_no_byte(whole, tmp_path):
    folder, _ = whole
    run = {name: paths[::-1] for name, paths in make_run(tmp_path).items()}
    report(run, tmp_path)
    for name in ("tables", "figures"):
        for path in sorted((folder / name).rglob("*.*")):
            other = tmp_path / path.relative_to(folder)
            assert path.read_bytes() == other.read_bytes(), path.name


BEYOND = {
    "simulation_figure1_as_written", "simulation_mixing", "simulation_bridge",
    "simulation_scaling", "stepsize_acceleration", "stepsize_bounds", "stepsize_accuracy",
    "compositional_by_shuffling", "semantics_by_shuffling",
}  # fmt: skip
"""Figures of what this small run did not do."""


def drawn() -> list[str]:
    return [figure.name for figure in studies.figures() if figure.name not in BEYOND]


def test_every_figure_has_its_forms(whole):
    folder, _ = whole
    for figure in studies.figures():
        spec = files.read_json(figure_file(folder, f"{figure.name}.vl.json"))
        about = spec["usermeta"]["mispair"]
        assert ("hole" in about) == (figure.name in BEYOND), figure.name
        if figure.name in BEYOND:
            # What was not measured has no empty picture.
            assert len([*(folder / "figures").glob(f"*/{figure.name}.*")]) == 1
        else:
            for form, start in (("svg", b"<svg"), ("pdf", b"%PDF-"), ("png", b"\x89PNG")):
                assert figure_file(folder, f"{figure.name}.{form}").read_bytes().startswith(start)
            assert not about["sentence"] or about["sentence"].endswith("."), figure.name
            assert len(pd.read_csv(figure_file(folder, f"{figure.name}.csv"))) > 0


def test_what_was_not_run_is_one_line_that_says_how_to_run_it(whole):
    _, html = whole
    for name in BEYOND:
        (line,) = re.findall(f'<li id="figure-{name}">(.*?)</li>', html)
        settings = re.search(
            r"(simulate|measure_purity): {|train_two_layer\.grid|simulation-scaling\.yaml", line
        )
        # The made-up arms have no choice of captions, and none but the untouched one has features.
        unmade = ("compositional_by_shuffling", "semantics_by_shuffling")
        assert settings or name in unmade, line


def test_figures_hold_every_run_and_the_published_curve(whole):
    folder, _ = whole
    table = pd.read_csv(figure_file(folder, "simulation_figure1_as_run.csv"))
    assert table["layer"].value_counts().to_dict() == {"run": 48, "mean": 24, "published": 88}
    mean = table[(table["layer"] == "mean") & (table["metric"] == "accuracy")]
    own = table[(table["layer"] == "run") & (table["metric"] == "accuracy")]
    keys = ["trained_on", "spurious_probability"]
    spread = own.groupby(keys)["value"].std()
    found = mean.set_index(keys)
    pd.testing.assert_series_equal(
        found["high"] - found["value"], spread, check_names=False, atol=1e-6
    )


LOADED = ("src", "srcset", "data", "poster")
"""Attributes whose addresses a browser loads."""


def test_the_pages_ask_nothing_of_the_network(whole):
    folder, _ = whole
    for html in pages(folder).values():
        nodes = [*parsed(html).iter()]
        loaded = [node.get(name) for node in nodes for name in LOADED if node.get(name)]
        assert all(source.startswith(("data:", "assets/", "pages/assets/")) for source in loaded)
        links = [node.get("href", "") for node in nodes]
        assert not [link for link in links if re.match(r"(?:https?:)?//", link)]
        assert not [name for node in nodes for name in node.attrib if name.startswith("on")]
        assert "default-src 'none'" in html
        assert "@import" not in html
        assert "url(" not in html.split("</style>")[0]


def test_links_and_anchors_of_all_pages_resolve(whole):
    folder, _ = whole
    assert broken_links(folder, [folder / name for name in pages(folder)]) == []


def test_text_from_data_stays_text(whole):
    _, html = whole
    assert EVIL not in html
    assert "<script>alert" not in html
    assert EVIL in words(html)  # as the name of an evaluation set, and in captions
    # No script element ends early: pages have as many as they have charts, and one or two that
    # draw them.
    for name, page in pages(whole[0]).items():
        charts = page.count('type="application/json"')
        assert page.count("</script>") == page.count("<script") == charts + (2 if charts else 1), (
            name
        )


def test_json_in_the_page_is_whole(whole):
    _, html = whole
    found = re.findall(r'<script type="application/json" id="spec-(\w+)">(.*?)</script>', html)
    assert {name for name, _ in found} == set(drawn())
    for _, text in found:
        assert json.loads(text)["usermeta"]["mispair"]["title"]


def test_the_page_says_what_is_measured_and_what_speaks_against(whole):
    _, html = whole
    seen = words(html)
    assert "Do neurons of little overlap classify better?" in seen
    assert "contradicts" in seen
    assert "silhouette on <script>" in seen  # the values that are not defined
    assert "no-image" in seen
    assert "Read = kept + rejected + excluded." in seen
    assert "as-written was not run" in seen
    assert "1 min 30 s" in seen
    assert "90.0 %" in seen
    assert "nan" not in seen.lower().split()


def test_the_page_shows_the_gallery_and_names_protocols(whole):
    _, html = whole
    seen = words(html)
    assert "Neuron 7 of the gallery" in seen
    assert "The same model under every protocol: untouched" in seen
    assert "clip_benchmark #a1b2c3d4" in seen
    assert "Tables 2 and 3 (LaCLIP" not in seen


def test_a_run_of_nothing_is_a_page_of_marked_holes(empty):
    folder, html = empty
    seen = words(html)
    assert f"{len(DECLARED)} more claims need other configurations" in seen
    assert {path.name for path in (folder / "pages").glob("*.html")} == {
        "index.html", "claims.html", "methods.html", "run.html",
    }  # fmt: skip
    assert "Nothing was measured in this run" in seen
    assert "No run times" in seen
    for figure in studies.figures():
        spec = files.read_json(figure_file(folder, f"{figure.name}.vl.json"))
        assert "hole" in spec["usermeta"]["mispair"]
    assert not [*(folder / "figures").glob("*/*.svg")]


@pytest.mark.parametrize("study", [study.key for study in studies.studies()])
def test_one_study_alone_is_reported(study, tmp_path):
    run = make_run(tmp_path)
    own = {"simulation": {"simulation"}, "stepsize": {"stepsize"}, "sufficiency": {"sufficiency"},
           "pretraining": {"pretraining"}, "audit": {"audit", "selection", "calibration"},
           "repair": set(REPAIRED), "laclip": set(_checkpoints(tmp_path / "names"))}  # fmt: skip
    kept = own.get(study) or set(run) - set.union(*own.values())
    html = report({**NOTHING, **{name: run[name] for name in kept}}, tmp_path, draw=False)
    others = {other.key for other in studies.studies()} - {study}
    # On both landing pages, and on the page of claims.
    assert html.count("other configurations</summary>") == 3
    for claim in DECLARED:
        unmeasured = f"<code>{escape(claim.needs)}</code>" in html
        assert unmeasured or claim.study == study, claim.key
    written = {path.stem for path in (tmp_path / "pages").glob("*.html")}
    assert study in written
    assert not others & written


def test_a_missing_arm_is_named(tmp_path):
    run = make_run(tmp_path)
    del run["purity"][2]
    html = report(run, tmp_path, draw=False, title=EVIL)
    assert "purity: no pretrained arm at" in html
    assert EVIL not in html


def test_the_contact_sheet_shows_both_captions_and_survives_missing_images(tmp_path):
    made = make_pairs(tmp_path)
    settings = draw_contact_sheet.Settings(samples=20, shuffle_rate=0.7)
    draw_contact_sheet.run(
        settings, shards=made["shards"], sources=[], index=made["index"],
        pairing=made["pairings"], captions=[], contact_sheet=tmp_path / "sheet.html",
    )  # fmt: skip
    html = (tmp_path / "sheet.html").read_text(encoding="utf-8")
    assert html.count("Shuffled to") == 16
    assert html.count("Not swapped") == 4
    assert html.count("image not available") == 1
    assert "<i>C</i><sub>m</sub> = 0.8" in html
    assert len(html.encode()) <= 150_000
    assert "<script" not in html
    for key, other in (("000000", "000019"), ("000003", "000016")):
        entry = next(part for part in html.split("<li>") if f'"key">{key}' in part)
        assert entry.index(f'{key}</p>\n    <p class="swapped"') < entry.index(other)


def test_an_empty_corpus_has_an_empty_contact_sheet(tmp_path):
    draw_contact_sheet.run(
        draw_contact_sheet.Settings(), shards=[], sources=[], index=[], pairing=[],
        captions=[], contact_sheet=tmp_path / "sheet.html",
    )  # fmt: skip
    assert "No sample pair" in (tmp_path / "sheet.html").read_text()


def test_a_figure_of_too_many_points_says_so(whole):
    folder, _ = whole
    found = read({name[:-4]: folder / "tables" / name for name in TIDY})
    figure = next(f for f in studies.figures() if f.name == "simulation_figure1_as_run")
    spec, _ = compose(figure, found, 12, 100)
    assert "more than the 100" in spec["usermeta"]["mispair"]["hole"]
