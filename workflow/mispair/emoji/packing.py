"""Pack the emoji corpus: pairs as img2dataset writes them, and evaluation sets."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from pydantic import Field

from mispair.core import seeds
from mispair.core.files import UserError, replacing_folder
from mispair.core.settings import Settings
from mispair.emoji.concepts import (
    HELD_OUT,
    SOURCES,
    Concept,
    caption,
    encoded,
    pictures,
    read_concepts,
    unseen,
)
from mispair.emoji.packages import PACKAGES
from mispair.pairs.scenes.evaluation_sets import GeneratedSet, write_descriptions, write_split
from mispair.pairs.shards.shard_writer import img2dataset_row, key_of, write_shard

PAIRS = "pairs"
"""Folder of the shards."""
LICENCES = "LICENCES.md"
SUBCATEGORIES, SUBCATEGORIES_UNSEEN, RETRIEVAL = (
    "emoji-subcategories",
    "emoji-subcategories-unseen",
    "emoji-retrieval",
)
"""The evaluation sets: pictures of the held-out vendor of concepts that pairs show, the same of
concepts that no pair shows, and the latter with captions."""

CAPTIONS = 3
"""Captions of a picture of the retrieval set, at most."""
TEMPLATES = ("{c}",)


class Packing(Settings):
    """How the corpus is packed."""

    side: int = Field(64, ge=1, description="Side of the pictures, in pixels.")
    quality: int = Field(95, ge=1, le=95, description="Quality of the JPEG files, 1 to 95.")
    unseen_share: float = Field(
        0.2, ge=0, le=1, description="Share of the concepts that no pair shows."
    )
    smallest_class: int = Field(
        10, ge=1, description="Least number of pictures of a subcategory that is a class."
    )
    pairs_per_shard: int = Field(1000, ge=1, description="Pairs of a shard.")
    seed: int = Field(
        0, ge=0, description="Seed of captions, of held-out concepts, and of the order of pairs."
    )


class Packed(NamedTuple):
    """How much was packed."""

    pairs: dict[str, int]
    """By vendor."""
    sets: dict[str, int]
    """Pictures by evaluation set."""


def pack(packages: Path, target: Path, packing: Packing) -> Packed:
    """Write the corpus into a folder, which is replaced as a whole.

    Parameters
    ----------
    packages : Path
        Folder of the archives.
    target : Path
        Gets ``pairs``, the evaluation sets and ``LICENCES.md``.
    packing : Packing
        Settings. The same packages and settings give the same bytes.

    Raises
    ------
    UserError
        If a package is missing or damaged, or no class has enough pictures.
    """
    concepts = read_concepts(packages)
    held_out = {one.code for one in concepts if unseen(one, packing.unseen_share, packing.seed)}
    trained = [one for one in concepts if one.code not in held_out]
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing_folder(target) as folder:
        pairs = _write_pairs(packages, folder / PAIRS, trained, packing)
        sets = _write_sets(packages, folder, concepts, held_out, packing)
        (folder / LICENCES).write_text(licences(), encoding="utf-8")
    return Packed(pairs, sets)


def _write_pairs(
    packages: Path, folder: Path, concepts: Sequence[Concept], packing: Packing
) -> dict[str, int]:
    """Write every training vendor's pictures, in an order that mixes concepts and vendors."""
    drawn = {
        vendor: pictures(packages, vendor, concepts, packing.side)
        for vendor in SOURCES
        if vendor != HELD_OUT
    }
    pairs = [
        (vendor, concept)
        for vendor, by_code in drawn.items()
        for concept in concepts
        if concept.code in by_code
    ]
    order = seeds.generator(packing.seed, "emoji-order").permutation(len(pairs))
    folder.mkdir()
    for shard, start in enumerate(range(0, len(pairs), packing.pairs_per_shard)):
        chosen = [pairs[int(one)] for one in order[start : start + packing.pairs_per_shard]]
        write_shard(folder, shard, _samples(shard, chosen, drawn, packing))
    return dict(Counter(vendor for vendor, _ in pairs))


def _samples(
    shard: int,
    chosen: Sequence[tuple[str, Concept]],
    drawn: Mapping[str, Mapping[str, Image.Image]],
    packing: Packing,
) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for number, (vendor, concept) in enumerate(chosen):
        package = PACKAGES[vendor]
        key = key_of(shard, number, packing.pairs_per_shard)
        jpg = encoded(drawn[vendor][concept.code], packing.quality)
        text = caption(concept, vendor, packing.seed)
        url = f"package:{package.registry}/{package.name}@{package.version}#{concept.code}"
        metadata = {
            "vendor": vendor,
            "concept": concept.code,
            "category": concept.category,
            "subcategory": concept.subcategory,
            "licence": package.licence,
            "attribution": package.attribution,
        }
        yield jpg, img2dataset_row(key, jpg, text, url, packing.side, packing.side, **metadata)


def _write_sets(
    packages: Path, folder: Path, concepts: Sequence[Concept], held_out: set[str], packing: Packing
) -> dict[str, int]:
    """Write the evaluation sets, and return how many pictures each has."""
    drawn = pictures(packages, HELD_OUT, concepts, packing.side)
    shown = [one for one in concepts if one.code in drawn]
    seen, new = ([one for one in shown if (one.code in held_out) == side] for side in (False, True))
    sizes = Counter(one.subcategory for one in shown)
    classes = sorted(name for name, size in sizes.items() if size >= packing.smallest_class)
    if not classes or not new:
        raise UserError(
            f"{PACKAGES[HELD_OUT].file}: {len(shown)} pictures make {len(classes)} classes of "
            f"{packing.smallest_class} and show {len(new)} concepts that are held out. Lower "
            "--smallest-class, or raise --unseen-share."
        )
    labels = {name: number for number, name in enumerate(classes)}
    described = GeneratedSet(tuple(_plain(name) for name in classes), TEMPLATES)
    numbers = {}
    for name, some in ((SUBCATEGORIES, seen), (SUBCATEGORIES_UNSEEN, new)):
        labelled = [one for one in some if one.subcategory in labels]
        _write_set(
            folder / name,
            described,
            [(drawn[one.code], labels[one.subcategory]) for one in labelled],
        )
        numbers[name] = len(labelled)
    texts = [(drawn[one.code], _captions(one, packing.seed)) for one in new]
    _write_set(folder / RETRIEVAL, GeneratedSet((), (), kind="retrieval"), texts)
    return numbers | {RETRIEVAL: len(texts)}


def _captions(concept: Concept, seed: int) -> list[str]:
    """Return the name of a concept, and captions as pairs would have them."""
    drawn = [caption(concept, f"{HELD_OUT}-{number}", seed) for number in range(8)]
    return list(dict.fromkeys([concept.name, *drawn]))[:CAPTIONS]


def _write_set(
    folder: Path, described: GeneratedSet, samples: Sequence[tuple[Image.Image, int | list[str]]]
) -> None:
    folder.mkdir()
    write_descriptions(folder, described)
    write_split(folder / "test", samples)
    (folder / LICENCES).write_text(licences([HELD_OUT, "emojibase", "emojilib"]), encoding="utf-8")


def _plain(subcategory: str) -> str:
    """Return a subcategory in words."""
    return subcategory.replace("-", " ")


def licences(names: Sequence[str] = tuple(PACKAGES)) -> str:
    """Return the licences of the content of packages, as Markdown."""
    lines = [
        "# Licences",
        "",
        "Pictures, words and weights are those of the packages below, each under its own licence.",
        "Pictures are resized and put on white; captions are composed of names and keywords.",
        "",
        "| package | version | licence | made by |",
        "| --- | --- | --- | --- |",
    ]
    chosen = [PACKAGES[name] for name in names]
    lines += [f"| {p.name} | {p.version} | {p.licence} | {p.attribution} |" for p in chosen]
    return "\n".join(lines) + "\n"
