"""A small made-up run of every study, and its report, through the steps that write them."""

import hashlib
import io
import json
import tarfile
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from PIL import Image

from mispair.core import files, metrics
from mispair.pairs.report.contact_sheet import alone
from mispair.pairs.steps import draw_contact_sheet
from mispair.report.steps import record_run, write_report
from tests.made_up_tables import (
    EVIL,
    PLACES,
    STARTS,
    Row,
    draw_all,
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
        for scorer, method in (("untouched", "similar"),
                               *product(("untouched", "memorised", "cross-fitted"),
                                        ("mixture", "storey")))
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
        about = {"repair": rule, "scheme": "random", "nominal": "0.8"}
        example = {"key": EVIL, "old": EVIL, "new": f"new {EVIL}", "action": "replaced"}
        written = {
            "ledger": (ledger, {**about, "examples": [{"sample": sample, **example} for sample in
                                                      ("random", "best", "worst")]}),
            "repair_purity": (overlap, arm),
            "repair_zeroshot": (accuracy, arm),
            "tower_ledger": (ledger, about),
            "learned": (
                [{"rate": 0.8, "chance": 0.1, **row} for row in overlap + accuracy],
                {"trained": {"repair": rule, "draw": "0", **origin}},
            ),
        }  # fmt: skip
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


CHECKPOINTS = ("checkpoint_zeroshot", "checkpoint_purity", "checkpoint_origins")
"""Kinds of results of the comparison of published checkpoints."""


def _checkpoints(folder: Path) -> dict[str, list[Path]]:
    """Write two converted checkpoints and their results."""
    found: dict[str, list[Path]] = {kind: [] for kind in CHECKPOINTS}
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
        {"metric": metric, "value": value, "n": n}
        for metric, value, n in (
            ("quarantined_share", 2 / 22, 22), ("damaged_shard_share", 0.0, 1),
            ("caption_empty_share", 1 / 22, 22), ("caption_duplicate_share", 0.15, 20),
            ("caption_person_share", 0.25, 20), ("caption_non_ascii_share", 0.35, 20),
            ("caption_control_share", 0.0, 20), ("captions_further", 5, 20),
            ("captions_distinct", 23, 25), ("image_duplicate_share", 0.1, 20),
            ("image_sha256_duplicate_share", None, 0))
    ]  # fmt: skip
    rows += [{"metric": "downloads", "status": status, "value": value, "n": 40}
             for status, value in (("success", 30), (EVIL, 10))]  # fmt: skip
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
        write_report.Settings(**settings), tables=paths, figures=figures,
        pieces=[*([sheet] if run["index"] else []), *([gallery] if run["semantics"] else [])],
        benchmarks=benchmarks, record=[folder / "run.json"], page=folder / "index.html",
        pages=folder / "pages", latex=folder / "latex", claims=folder / "claims.csv",
    )  # fmt: skip
    return "".join(pages(folder).values())


def pages(folder: Path) -> dict[str, str]:
    """Return the text of every page by its path; the landing page is there twice."""
    found = [folder / "index.html", *sorted((folder / "pages").glob("*.html"))]
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in found}
