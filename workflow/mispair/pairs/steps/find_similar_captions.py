"""Find the captions that are most similar to each caption of the corpus."""

import logging
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from mispair.core import settings
from mispair.core.settings import command_line

log = logging.getLogger(__name__)

LARGE = 150_000
"""Captions from which on visits take less time than the comparison of all with all."""


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
    search: Literal["auto", "exact", "visits"] = Field(
        "auto",
        description="How features are compared: exact, all with all; visits, each with those of "
        "near cells until 0.98 of the nearest of 2,000 captions are found, for which the exact "
        "search is done too. auto is visits from 150,000 captions on, and exact on a GPU. Words "
        "are always compared exactly.",
    )
    memory_megabytes: int = Field(
        256, ge=16, description="Largest size of the blocks that compare captions, in megabytes."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Device that compares features; auto is a GPU if there is one."
    )


def visits_cells(settings: Settings, captions: int, device: str) -> bool:
    """Return whether a search among so many captions visits cells."""
    by_features = settings.measure == "features"
    is_large = device != "cuda" and captions >= LARGE
    return by_features and (settings.search == "visits" or (settings.search == "auto" and is_large))


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
    Its metadata has the measure and, if not all were compared with all, the measured recall.
    """
    from mispair.core import files, resume
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest, fingerprint
    from mispair.pairs.captions.caption_texts import read_texts
    from mispair.pairs.neighbours import similar_captions, tfidf

    captions = similar_captions.read_distinct_captions(corpus)
    # What is compared is identified by the captions' identities and the files of their features.
    device = "cpu" if settings.measure == "tfidf" else choose_device(settings.device)
    job: list[str | bytes] = [captions.tobytes(), command_line(settings), device]
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
            "k": settings.neighbours, "memory": settings.memory_megabytes * 1_000_000,
            "progress": lambda share: progress.reach(round(share * pairs)),
            "keeper": states.array_keeper("nearest"),
        }  # fmt: skip
        if settings.measure == "tfidf":
            texts = read_texts(index, captions)
            vectors = tfidf.tfidf([texts.pop(number) for number in captions.tolist()])
            portions = tfidf.nearest_texts(vectors, **search)
        else:
            from mispair.pairs.neighbours import approximate, similarity

            rows = similarity.gather_vectors(features, feature_rows, captions, scratch)
            if visits_cells(settings, len(captions), device):
                found = approximate.nearest_by_cells(rows, **search)
                portions = found.portions
                facts |= {"recall": f"{found.recall:.4f}", "visits": str(found.visits)}
                log.info("recall %.4f on %d captions after %d visits",
                         found.recall, found.queries, found.visits)  # fmt: skip
            else:
                portions = similarity.nearest_rows(rows, device=device, **search)
        similar_captions.write_similar(temporary, captions, portions, facts)
