"""What the study puts on the pages of the report."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from mispair.core import files
from mispair.evaluation.purity import DEFINITION
from mispair.image_text.report import claims
from mispair.image_text.report import tables as of_models
from mispair.image_text.report.arms import KEYS
from mispair.image_text.report.study import PURITY, SAMPLES
from mispair.pairs.corruption.scheme import MAIN
from mispair.pairs.report import corpus
from mispair.report import texts
from mispair.report.curves import Curve, TrainingCurves, in_order, path_of, tag_of, thinned
from mispair.report.pages.content import Content
from mispair.report.pages.study_pages import FigureWithoutClaim, Pages, Piece
from mispair.report.table import Table
from mispair.report.tables import Tables, records
from mispair.report.texts import Note
from mispair.towers.arms import LABELS, PRETRAINED, UNTOUCHED, Arm
from mispair.towers.encoding_record import MOST_WAITING

# Notes on the image-text study in the report: warnings, limits and what is missing.


def summary(tables: Tables) -> list[Note]:
    """Return how many arms were fine-tuned, and of which model."""
    if not tables.study("image_text"):
        return []
    of_arms = [table[KEYS] for table in (tables.purity, tables.zeroshot, tables.pruning)]
    arms = pd.concat(of_arms).dropna(subset=["start"]).drop_duplicates()
    arms = arms[arms["start"] != UNTOUCHED]
    return [Note("image_text", "summary_arms", arms=len(arms), model=_model(tables))]


def _model(tables: Tables) -> str:
    """Return the name of the model, or "" if only projections were measured."""
    for table in (tables.zeroshot, tables.pruning):
        for name in table["towers"].dropna():
            return str(name)
    return ""


def warnings(tables: Tables) -> list[Note]:
    """Return what makes results hard to compare, or numbers wrong."""
    return [*_apart(tables), *corpus.warnings(tables), *waiting(tables), *empty_classes(tables)]


def waiting(tables: Tables) -> list[Note]:
    """Return a warning for every GPU that waited too long for its data."""
    table = tables.encoding
    slow = table[(table["metric"] == "waiting_share") & (table["value"] > MOST_WAITING)]
    slow = slow[~slow["device"].fillna("cpu").str.startswith("cpu")]
    return [
        Note("image_text", "warning_waiting", device=device, bound=MOST_WAITING, jobs=len(shares),
             most=shares["value"].max())
        for device, shares in slow.groupby("device")
    ]  # fmt: skip


def empty_classes(tables: Tables) -> list[Note]:
    """Return a warning for every evaluation set with classes without images."""
    rows = pd.concat([tables.zeroshot, tables.checkpoints])
    rows = rows[rows["metric"] == "classes_without_images"]
    return [
        Note("image_text", "warning_empty_classes", name=str(name),
             absent=int(of_set["value"].max()), classes=int(of_set["n"].max()))
        for name, of_set in rows.groupby("evaluation_set")
    ]  # fmt: skip


def _apart(tables: Tables) -> list[Note]:
    """Return what makes results hard to compare: arms of different data or towers."""
    found = []
    # Checkpoints are other towers, and are meant to be.
    apart = ["simulation", "checkpoint", "checkpoints"]
    rows = tables.provenance[~tables.provenance["artefact"].isin(apart)]
    last = rows["key"].str.rsplit(".", n=1).str[-1]
    for kind in ("pairs_fingerprint", "towers"):
        seen = rows.loc[last == kind, "text"].dropna().nunique()
        if seen > 1:
            found.append(Note("image_text", "warning_apart", seen=seen, kind=kind))
    for kind, end in (("evaluation_sets", ".images_fingerprint"), ("protocols", ".fingerprint")):
        start = f"{kind}."
        same = rows["key"].str.startswith(start) & rows["key"].str.endswith(end)
        for key, group in rows[same].groupby("key"):
            if group["text"].nunique() > 1:
                name = str(key).removeprefix(start).removesuffix(end)
                found.append(Note("image_text", "warning_unequal", kind=kind, name=name))
    return found


def limits(tables: Tables) -> list[Note]:
    """Return what this run cannot tell."""
    found = []
    if tables.study("image_text"):
        found.append(Note("image_text", "limits_one_model"))
    schemes, protocols = tables.schemes, tables.protocols
    if schemes and schemes[0] != MAIN:
        found.append(Note("image_text", "limits_not_random", scheme=schemes[0]))
    if len(schemes) > 1:
        found.append(Note("image_text", "limits_scheme", scheme=schemes[0], others=schemes[1:]))
    if protocols:
        main, others = protocols[0], protocols[1:]
        found.append(Note("image_text", "limits_protocol", protocol=main, others=others))
    return found


def holes(tables: Tables) -> list[Note]:
    """Return which arms, measures and runs are missing where others are there."""
    found = []
    for name in ("purity", "zeroshot"):
        found += _missing_arms(tables, name)
    for name in ("purity", "zeroshot", "pruning"):
        table = getattr(tables, name)
        empty = table[table["value"].isna()]
        where = ["metric", "evaluation_set"] if "evaluation_set" in empty else ["metric", "tower"]
        for (metric, of), group in empty.groupby(where):
            found.append(Note("image_text", "missing_values", metric=metric, of=of, n=len(group)))
    return found


def _missing_arms(tables: Tables, name: str) -> list[Note]:
    """Name the arms of a table with a pairing but no measurement, if their start has others.

    A control has few rates by its settings: one that was measured at no rate of a scheme, or only
    at the lowest and the largest one, lacks nothing.
    """
    found = []
    tuned = getattr(tables, name).dropna(subset=["rate"])
    for start in sorted(tuned["start"].dropna().unique()):
        lost: dict[str, dict[float, None]] = {}
        for scheme in tables.schemes or [""]:
            of_scheme = tables.of_scheme(scheme)
            have = getattr(of_scheme, name)
            rates = {*of_scheme.pairs["rate"].dropna()}
            measured = {*have.loc[have["start"] == start, "rate"]}
            by_settings = measured <= {min(rates, default=0.0), max(rates, default=0.0)}
            for rate in sorted(set() if by_settings and start != PRETRAINED else rates - measured):
                # The main scheme, and the arm without corruption, need no name.
                of = scheme if rate and scheme not in tables.schemes[:1] else ""
                lost.setdefault(of, {})[rate] = None
        found += [
            Note(
                "image_text",
                "missing_arms",
                table=name,
                start=LABELS.get(start, start),
                scheme=of,
                rates=[*rates],
            )
            for of, rates in lost.items()
        ]
    return found


def drawings(tables: Tables) -> list[FigureWithoutClaim]:
    """Return the figures of the paper that no claim can be measured on, with the reason."""
    measured = tables.purity[tables.purity["metric"] == "neuron_purity"]
    neurons = measured.groupby("tower")["neuron"].nunique().to_dict()
    pairs = tables.of_scheme().pairs
    swapped = pairs[(pairs["metric"] == "swapped_share") & (pairs["rate"] > 0)]
    shares = swapped.groupby("rate")["value"].mean().to_dict()
    apart = max((abs(share - rate) for rate, share in shares.items()), default=math.nan)
    return [
        FigureWithoutClaim(
            "figure 6",
            Note("image_text", "drawing_architecture"),
            Note("image_text", "drawing_neurons", neurons=neurons),
        ),
        FigureWithoutClaim(
            "figure 7",
            Note("image_text", "drawing_shuffling"),
            Note("image_text", "drawing_swapped", shares=shares, apart=apart),
        ),
    ]


GALLERY = Markup('<h3 id="neurons">What the neurons respond to</h3>\n')


def _tables(tables: Tables, confidence: float) -> list[Table]:
    return [*of_models.of_arms(tables), *of_models.replicates(tables), *corpus.tables_of(tables)]


def _pieces(content: Content) -> dict[str, Piece]:
    sheet = content.pieces.get("contact_sheet")
    no_sheet = texts.text(Note("image_text", "piece_no_sheet", failed=bool(content.failed)))
    pieces = {SAMPLES: Piece(html=Markup(sheet)) if sheet else Piece(no_sheet)}
    gallery = content.pieces.get("neurons")
    if gallery:
        pieces[PURITY] = Piece(DEFINITION, GALLERY + Markup(gallery))
    elif not content.tables.purity.empty:
        pieces[PURITY] = Piece(f"{DEFINITION} {texts.text(Note('image_text', 'piece_no_gallery'))}")
    return pieces


# Curves for TensorBoard: the losses of trainings, and the scores of arms after the last step.


SCORES = {
    "zeroshot": (
        "acc1", "acc5", "mean_per_class_recall", "silhouette", "image_recall@1", "image_recall@5",
        "text_recall@1", "text_recall@5", "probe_acc1",
    ),
    "purity": ("mean_abs_cosine", "participation_ratio"),
}  # fmt: skip
"""Metrics of an arm and seed that are shown at the end of its training, by table."""


def runs(
    tables: Tables, trained: Mapping[str, Sequence[Path]], points: int
) -> list[TrainingCurves]:
    """Return the fine-tunings, and the training of towers that this run trained."""
    return [
        *fine_tuning(map(_losses, trained.get("projection", [])), tables, points),
        *(
            pretraining(path.parent.name, files.read_json(path))
            for path in trained.get("training", [])
        ),
    ]


def _losses(path: Path) -> tuple[dict[str, Any], np.ndarray]:
    tensors, run = files.read_tensors(path, only=["loss"])
    arm = {"start": run["start"], "scheme": run["scheme"], "rate": float(run["rate"])}
    return {**arm, "seeds": json.loads(run["seeds"])}, tensors["loss"]


def fine_tuning(
    losses: Iterable[tuple[Mapping[str, Any], np.ndarray]], tables: Tables, points: int
) -> list[TrainingCurves]:
    """Return a run for each seed of each arm: the loss of its steps, and its scores after the last.

    Each of `losses` has an arm (``start``, ``scheme``, ``rate`` and ``seeds``) and the losses of
    its steps by seed, (s, steps). A curve has at most `points` points.
    """
    scores = _scores(tables)
    runs = []
    for metadata, stack in losses:
        for seed, loss in zip(metadata["seeds"], stack, strict=True):
            arm = Arm(metadata["start"], metadata["scheme"], metadata["rate"])
            last = len(loss) - 1
            scored = scores.get((*arm, float(seed)), [])
            ends = [Curve(tag, (last,), (value,)) for tag, value in scored]
            name = path_of(f"fine-tuning/{arm}/seed~{seed}")
            keys = {**arm._asdict(), "seed": float(seed)}
            runs.append(TrainingCurves(name, keys, (thinned("loss", loss, points), *ends)))
    return runs


def _scores(tables: Tables) -> dict[tuple[Any, ...], list[tuple[str, float]]]:
    by_arm: dict[tuple[Any, ...], list[tuple[str, float]]] = {}
    for table, metrics in SCORES.items():
        rows = getattr(tables, table)
        for row in records(rows[rows["metric"].isin(metrics) & rows["rate"].notna()]):
            where = [row.get("evaluation_set"), row.get("protocol"), row.get("tower")]
            tag = tag_of([row["metric"], *where])
            arm = (row["start"], row["scheme"], row["rate"], row["seed"])
            by_arm.setdefault(arm, []).append((tag, row["value"]))
    return by_arm


def pretraining(name: str, training: Mapping[str, Any]) -> TrainingCurves:
    """Return the run of towers that were trained: the loss of each epoch (``training.json``)."""
    points = {int(row["epoch"]): float(row["loss"]) for row in training["losses"]}
    return TrainingCurves(
        path_of(f"pretraining/{name}"), {"towers": name}, tuple(in_order({"loss": points}))
    )


PAGES = Pages(
    claims=claims.CLAIMS,
    questions=claims.QUESTIONS,
    tables=_tables,
    definitions={"Overlap and purity of neurons": DEFINITION},
    summary=summary,
    warnings=warnings,
    limits=limits,
    holes=holes,
    drawings=drawings,
    pieces=_pieces,
    runs=runs,
)
