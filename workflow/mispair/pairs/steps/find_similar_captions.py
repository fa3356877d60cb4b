"""Find the captions that are most similar to each caption of the corpus."""

import logging
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mispair.core import settings
from mispair.core.files import UserError
from mispair.core.settings import command_line

log = logging.getLogger(__name__)

LARGE = 150_000
"""Captions from which on the approximate search by features takes less time than the exact one."""

PRODUCTS = 10_000
"""Products for each caption from which on the approximate search by words takes less time."""


class Settings(settings.Settings):
    measure: Literal["tfidf", "features"] = Field(
        "tfidf",
        description="Cosine of what: tfidf of the captions' words, with document frequencies from "
        "the distinct captions of the corpus and without English stop words (captions that share "
        "no word are not similar), or features of the model's own text tower.",
    )
    neighbours: int = Field(
        10, ge=1, le=100, description="Most similar other captions kept for each caption."
    )
    search: Literal["auto", "exact", "approximate"] = Field(
        "auto",
        description="How captions are compared: exact, all with all; approximate, each with "
        "likely ones, until 0.98 of the nearest of 2,000 captions are found, for which the exact "
        "search is done too. By features, likely are those of near cells; by words, those that "
        "Seismic does not skip (`pip install pyseismic-lsr`; for Linux on x86-64). auto is "
        "approximate from 150,000 captions on by features, but exact on a GPU; by words, where "
        "the exact search needs 10,000 products for each caption, if Seismic is installed.",
    )
    memory_megabytes: int = Field(
        256, ge=16, description="Largest size of the blocks that compare captions, in megabytes."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device that compares features; auto is a GPU if there is one."
    )


def has_seismic() -> bool:
    """Return whether words can be compared approximately here."""
    return find_spec("seismic") is not None


def refuse_without_seismic(settings: Settings) -> None:
    """Refuse an approximate search by words where it cannot be made.

    Raises
    ------
    UserError
        If it is asked for, and Seismic is not installed.
    """
    if settings.measure == "tfidf" and settings.search == "approximate" and not has_seismic():
        raise UserError(
            "find_similar_captions.search: approximate needs Seismic to compare words, and it is "
            "not installed. Install it with `pip install pyseismic-lsr`, or set auto."
        )


def visits_cells(settings: Settings, captions: int, device: str) -> bool:
    """Return whether features of so many captions are compared approximately."""
    is_large = device != "cuda" and captions >= LARGE
    return settings.search == "approximate" or (settings.search == "auto" and is_large)


def skips_blocks(settings: Settings, products: float) -> bool:
    """Return whether words are compared approximately if a caption needs so many products."""
    is_large = has_seismic() and products >= PRODUCTS
    return settings.search == "approximate" or (settings.search == "auto" and is_large)


def run(
    settings: Settings,
    *,
    corpus: Path,
    index: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    similar: Path,
) -> None:
    """Write the most similar other captions of each distinct caption of the corpus.

    `similar` has ``caption_id``, ``neighbour_ids`` and ``similarities`` (lists, best first, equal
    ones by identity), sorted by caption_id. Captions without words or features have empty lists.
    Its metadata has the measure and, if not all were compared with all, the measured recall and
    the effort.
    """
    from mispair.core import files, resume
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest, fingerprint
    from mispair.pairs.captions.caption_texts import read_texts
    from mispair.pairs.neighbours import pruned, similar_captions, tfidf

    captions = similar_captions.read_distinct_captions(corpus)
    # What is compared is identified by the captions' identities and the files of their features.
    device = "cpu" if settings.measure == "tfidf" else choose_device(settings.device)
    # A search by words that was interrupted goes on only as the same kind of search.
    job: list[str | bytes] = [captions.tobytes(), command_line(settings), device]
    job += ["Seismic"] if settings.measure == "tfidf" and has_seismic() else []
    job += [*map(file_digest, features), *code_version("find_similar_captions")]
    pairs = len(captions) * (len(captions) - 1) // 2
    facts: dict[str, str] = {"measure": settings.measure}
    with (
        resume.checkpoints(similar.with_name(f"{similar.name}.parts"), fingerprint(job)) as states,
        files.replacing(similar) as temporary,
        tempfile.TemporaryFile(dir=temporary.parent) as scratch,
        Progress("comparing captions", pairs, "pairs") as progress,
    ):
        search: dict[str, Any] = {
            "k": settings.neighbours,
            "progress": lambda share: progress.reach(round(share * pairs)),
            "keeper": states.array_keeper("nearest"),
        }  # fmt: skip
        memory = settings.memory_megabytes * 1_000_000
        found: similar_captions.Found | Iterator[similar_captions.Neighbours]
        if settings.measure == "tfidf":
            texts = read_texts(index, captions)
            vectors = tfidf.tfidf([texts.pop(number) for number in captions.tolist()])
            if skips_blocks(settings, tfidf.products(vectors)):
                found = pruned.nearest_by_pruning(vectors, **search)
            else:
                found = tfidf.nearest_texts(vectors, memory=memory, **search)
        else:
            from mispair.pairs.neighbours import approximate, similarity

            rows = similarity.gather_vectors(features, feature_rows, captions, scratch)
            if visits_cells(settings, len(captions), device):
                found = approximate.nearest_by_cells(rows, memory=memory, **search)
            else:
                found = similarity.nearest_rows(rows, memory=memory, device=device, **search)
        if isinstance(found, similar_captions.Found):
            facts |= {"recall": f"{found.recall:.4f}", "effort": str(found.effort)}
            log.info("recall %.4f on %d captions with effort %d",
                     found.recall, found.queries, found.effort)  # fmt: skip
            found = found.portions
        similar_captions.write_similar(temporary, captions, found, facts)
