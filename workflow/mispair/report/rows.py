"""From what steps write to rows of the report's tables."""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mispair.report.tables import MAP, POINTS, Row

STEPSIZE = {
    "run": "stepsize_runs",
    "curve": "stepsize_curves",
    "speedup": "stepsize_speedups",
    "acceleration": "stepsize_acceleration",
}
"""The table of each kind of row of the stepsize study."""

CHECKPOINT_OVERLAP = "checkpoint_overlap"
"""Purity of a checkpoint that is compared as it is."""

PARTS = frozenset(("neuron", "bin_low", "rotation", "row"))
"""Keys of rows of purity that are not of a whole projection."""


def measured(
    artefact: str,
    rows: list[dict[str, Any]],
    provenance: Mapping[str, Any],
    towers: str,
    specs: Mapping[str, Mapping[str, Any]],
) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a file of results by the table that they belong to.

    Parameters
    ----------
    artefact : str
        Table that the file is for, or `CHECKPOINT_OVERLAP`, whose rows belong to ``checkpoints``.
    rows, provenance
        As `mispair.core.metrics.read_metrics` reads them.
    towers : str
        Name of the folder of the towers that were measured.
    specs : mapping
        What the folder of each converted checkpoint says of it, by its name.
    """
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    if artefact == "simulation":
        rows = simulated(rows, provenance)
        found["provenance"] = origins(artefact, provenance, rows[0]["condition"] if rows else None)
        for row in rows:
            found["simulation_points" if row["metric"] in POINTS else artefact].append(row)
        return found
    if artefact == "stepsize":
        condition = "/".join(str(rows[0][key]) for key in ("part", "data_set", "activation"))
        found["provenance"] = origins(artefact, provenance, condition)
        for row in rows:
            found[STEPSIZE[row["kind"]]].append(row)
        return found
    if artefact == CHECKPOINT_OVERLAP:
        rows = [row for row in rows if not PARTS.intersection(row)]
        found["checkpoints"] = [
            {"towers": towers, **checkpoint(specs.get(towers, {})), **row} for row in rows
        ]
        return found
    trained = provenance.get("trained") if artefact == "pretraining" else None
    training = "{scheme}~{rate}/draw~{draw}".format_map(trained) if trained else None
    found["provenance"] = origins(artefact, provenance, training)
    about = {"towers": towers, **arm(provenance)}
    if artefact in ("zeroshot", "checkpoints"):
        rows = scored(rows, provenance, towers)
    if artefact == "checkpoints":
        about = checkpoint(specs.get(towers, {}))
        rows = [row for row in rows if row["metric"] != "class_recall"]
    for row in rows:
        found["purity_map" if row["metric"] == MAP else artefact].append({**about, **row})
    return found


def of_ends(maps: Sequence[Row]) -> list[Row]:
    """Keep the heat maps that are shown: of untouched projections, and of both ends of C_m.

    Those of hundreds of arms would be millions of rows.
    """
    rates = [row["rate"] for row in maps if row["start"] == "pretrained"]
    ends = {min(rates), max(rates)} if rates else set()
    return [
        row for row in maps
        if row["start"] == "untouched" or (row["start"] == "pretrained" and row["rate"] in ends)
    ]  # fmt: skip


def arm(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``start``, ``scheme`` and ``rate`` of the projections that were measured."""
    origin = provenance.get("projection") or provenance
    rate = origin.get("rate")
    return {
        "start": origin.get("start"),
        "scheme": origin.get("scheme"),
        "rate": None if rate in (None, "") else float(rate),
    }


def scored(rows: Iterable[Row], provenance: Mapping[str, Any], towers: str) -> list[dict[str, Any]]:
    """Add to the rows of an evaluation the towers and the headline metric of their protocol.

    The silhouette needs no prompts: it becomes one row for each set and seed, without a protocol.
    Classes that no image has are named in rows ``class_without_images``.
    """
    headline = provenance.get("headline") or {}
    found = []
    silhouettes = set()
    for row in rows:
        of_set = {**row, "towers": towers}
        if row["metric"] == "silhouette":
            place = (row.get("evaluation_set"), row.get("seed"))
            if place in silhouettes:
                continue
            silhouettes.add(place)
            of_set |= {"protocol": None, "fingerprint": None}
        metric = headline.get(row.get("evaluation_set"), {}).get(of_set.get("protocol"))
        found.append({**of_set, "headline": metric})
    return found + _classes_without_images(found, provenance)


def _classes_without_images(
    rows: Sequence[Row], provenance: Mapping[str, Any]
) -> list[dict[str, Any]]:
    seen: dict[tuple[Any, Any], dict[str, Row]] = {}
    for row in rows:
        if row["metric"] == "class_recall":
            place = (row.get("evaluation_set"), row.get("protocol"))
            seen.setdefault(place, {})[row["classname"]] = row
    found = []
    for name, of_set in (provenance.get("protocols") or {}).items():
        for protocol, about in of_set.items():
            present = seen.get((name, protocol), {})
            like = next(iter(present.values()), {})
            here = {key: like.get(key) for key in ("towers", "fingerprint", "headline")}
            here |= {"evaluation_set": name, "protocol": protocol, "value": 0, "n": 0}
            found += [
                {**here, "metric": "class_without_images", "classname": classname}
                for classname in json.loads(about.get("classnames") or "[]")
                if present and classname not in present
            ]
    return found


def checkpoint(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels of a checkpoint in the report from what its folder says of it.

    ``architecture`` is that of the image tower, such as ViT-B/16: whatever else its name holds.
    """
    labels = {name: spec.get(name) for name in ("pretraining", "method", "recipe", "model")}
    name = "ViT-B-16" if labels["recipe"] == "laclip-cc" else spec.get("architecture") or ""
    found = re.search(r"(ViT-\w+?)[-/](\d+)", labels["model"] or name)
    return {**labels, "architecture": "/".join(found.groups()) if found else labels["model"]}


def simulated(rows: Iterable[Row], provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Add to the rows of a simulation what its condition is and what its settings say.

    ``kind`` is ``preset`` (figure 1 and arms), ``bridge`` (one ``switch`` of a preset thrown to the
    other preset's values), ``literal`` (one ``switch`` to what the text states), ``grid`` or
    ``scaling``; a condition without a name is its preset. ``features`` is d,
    ``image_noise_variance`` is per coordinate, and ``caption_features`` is how many features images
    of S_w have in all, on average: of so many cases is a probability of captions a share.
    """
    settings = provenance.get("settings") or {}
    about = {
        "preset": settings.get("preset"),
        "features": settings.get("d"),
        "definition_main": settings.get("figure1_definition"),
        "image_noise_variance": _variance(settings),
        "caption_features": _caption_features(settings),
        **{name: settings.get(name) for name in ("misalignment", "encoder", "bias_schedule")},
    }
    found = []
    for row in rows:
        name = row.get("condition") or about["preset"]
        found.append({**about, **row, "condition": name, **_kind(str(name))})
    return found


def _kind(condition: str) -> dict[str, str | None]:
    kind, _, rest = condition.partition("~")
    if not rest:
        return {"kind": "preset", "switch": None}
    return {"kind": kind, "switch": rest if kind in ("bridge", "literal") else None}


def _caption_features(settings: Mapping[str, Any]) -> float | None:
    names = ("low_quality_pairs", "d", "latent_density")
    if any(settings.get(name) is None for name in names):
        return None
    return math.prod(float(settings[name]) for name in names)


def _variance(settings: Mapping[str, Any]) -> float | None:
    noise, unit = settings.get("image_noise"), settings.get("noise_unit")
    if noise is None or unit is None:
        return None
    if unit == "std":
        return float(noise) ** 2
    return float(noise) / (float(settings["d1"]) if unit == "energy" else 1)


def origins(
    artefact: str, provenance: Mapping[str, Any], condition: str | None = None
) -> list[dict[str, Any]]:
    """Flatten a provenance to rows of key and text; nested keys are joined with dots.

    Lists of classes and templates are left out: their fingerprints stand for them.
    """
    about = {"artefact": artefact, "condition": condition, **arm(provenance)}
    return [{**about, "key": key, "text": text} for key, text in _flat(provenance)]


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in content.items():
        if key in ("classnames", "templates"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", "" if value is None else str(value)


COUNTED = ("identical_text_swaps", "distinct_captions", "most_used_caption")
"""What a pairing's metadata counts, besides shares and similarities."""


def swaps(metadata: Mapping[str, str], pairs: int) -> list[dict[str, Any]]:
    """Return what a pairing's metadata says of its corruption.

    Every share and similarity is a row, whatever the scheme calls it; so is each of `COUNTED`.
    """
    about = {"scheme": metadata.get("scheme"), "rate": float(metadata["nominal"]), "n": pairs}
    names = [
        name for name in metadata if name.endswith(("_share", "_similarity")) or name in COUNTED
    ]
    return [
        {"metric": name, "value": _number(metadata[name]), **about}
        for name in dict.fromkeys(("swapped_share", "text_changed_share", *names))
        if name in metadata
    ]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def counts(
    metadata: Iterable[Mapping[str, str]],
    rejected: Counter[str],
    excluded: Counter[str] | None = None,
) -> list[dict[str, Any]]:
    """Return how many pairs were read, kept, rejected and excluded in all, and for which reason.

    Read = kept + rejected + excluded: what policies of the whole corpus took out is not kept.

    Parameters
    ----------
    metadata : iterable of mappings
        What each index file says of itself.
    rejected, excluded : Counter of str
        Pairs by reason; None if no corpus was put together, an empty one if it lost no pair.
    """
    found = list(metadata)
    totals = Counter[str]()
    for each in found:
        totals.update({name: int(each[name]) for name in ("read", "kept", "rejected")})
    if excluded is not None:
        totals.update(kept=-excluded.total(), excluded=excluded.total())
    rows: list[dict[str, Any]] = [
        {"metric": name, "value": value} for name, value in totals.items()
    ]
    for kind, tally in (("rejected", rejected), ("excluded", excluded or Counter[str]())):
        rows += [
            {"metric": f"{kind}_reason", "reason": reason, "value": count}
            for reason, count in tally.items()
        ]
    return rows


def encoded(group: str, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the encoding of a group of shards says of itself: each number is a row."""
    about = {"group": group, "device": record.get("device"), "precision": record.get("precision")}
    return [
        {"metric": name, "value": value, **about}
        for name, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
