"""Find the captions that are most similar to each caption of the corpus."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

from pydantic import Field

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    measure: Literal["tfidf", "features"] = Field(
        "tfidf",
        description="Cosine of what: tfidf of the captions' words, with document frequencies from "
        "the distinct captions of the corpus and without English stop words (captions that share "
        "no word are not similar; the paper's public code adds pairs of words and keeps 5,000 "
        "terms at most), or features of the model's own text tower.",
    )
    neighbours: int = Field(
        10, ge=1, le=100, description="Most similar other captions that are kept of each."
    )
    memory_megabytes: int = Field(
        256, ge=16, description="Bound of the blocks in which captions are compared, in megabytes."
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto",
        description="Where features are compared: auto takes a GPU where there is one. Words are "
        "compared on the CPU.",
    )


def run(
    settings: Settings,
    *,
    corpus: Path,
    index: list[Path],
    features: list[Path],
    feature_rows: list[Path],
    similar: Path,
) -> None:
    """Write the most similar other captions of each distinct caption.

    The order of the arguments changes nothing.

    Parameters
    ----------
    settings : Settings
        Settings of the step.
    corpus : Path
        The kept pairs: their captions, first and further ones, are compared.
    index : list of Path
        The index of each group, for texts; read for the measure tfidf.
    features, feature_rows : list of Path
        The features of each group and the tables of their rows; read for the measure features.
    similar : Path
        Written: ``caption_id``, ``neighbour_ids`` and ``similarities`` (lists, best first, equal
        ones by identity), sorted by caption_id. A caption without words, or a feature of zeros,
        has empty lists.
    """
    import tempfile

    from mispair.core import files
    from mispair.core.devices import choose_device
    from mispair.core.progress import Progress
    from mispair.core.provenance import code_version, file_digest, fingerprint
    from mispair.core.resume import checkpoints
    from mispair.core.settings import command_line
    from mispair.pairs.neighbours.similar_captions import read_distinct_captions, write_similar

    captions = read_distinct_captions(corpus)
    bound = (settings.neighbours, settings.memory_megabytes * 1_000_000)
    # What is compared is known by the captions' identities and the files of their features.
    device = "cpu" if settings.measure == "tfidf" else choose_device(settings.device)
    job: list[str | bytes] = [captions.tobytes(), command_line(settings), device]
    job += [*map(file_digest, features), *code_version("find_similar_captions")]
    log.info("%d distinct captions, compared by %s", len(captions), settings.measure)
    pairs = len(captions) * (len(captions) - 1) // 2
    with (
        checkpoints(similar.with_name(f"{similar.name}.parts"), fingerprint(job)) as states,
        files.replacing(similar) as temporary,
        tempfile.TemporaryFile(dir=temporary.parent) as scratch,
        Progress("comparing captions", pairs, "pairs") as progress,
    ):
        keeper = states.array_keeper("nearest")

        def report_share(share: float) -> None:
            progress.reach(round(share * pairs))

        if settings.measure == "tfidf":
            from mispair.pairs.captions.caption_texts import read_texts
            from mispair.pairs.neighbours.tfidf import nearest_texts, tfidf

            texts = read_texts(index, captions)
            vectors = tfidf([texts.pop(number) for number in captions.tolist()])
            portions = nearest_texts(vectors, *bound, report_share, keeper)
        else:
            from mispair.pairs.neighbours.similarity import nearest_rows
            from mispair.towers.caption_vectors import gather_vectors, parts_by_group

            rows = gather_vectors(parts_by_group(features, feature_rows), captions, scratch)
            portions = nearest_rows(rows, *bound, device, report_share, keeper)
        write_similar(temporary, captions, portions, {"measure": settings.measure})
