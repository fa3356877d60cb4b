"""Score old and new captions by their cosines with the image."""

import logging
from pathlib import Path

from mispair.core import settings

log = logging.getLogger(__name__)


class Settings(settings.Settings):
    """`score_captions` has no settings: which models score is a setting of filter_captions."""


def run(
    settings: Settings,
    *,
    pairing: Path,
    recaptions: Path,
    features: list[Path],
    feature_rows: list[Path],
    projection: Path,
    trusted: Path,
    scores: Path,
) -> None:
    """Write ``old`` and ``new``, cosines (s, n) by draw, and ``generated`` (s, n).

    `pairing` has the captions before the repair, in several draws. `recaptions` are the new
    captions. `features` are cached ones of images, captions and new captions, and `feature_rows`
    the tables of their rows. `projection` is the scoring model: one projection for all draws, or
    one for each. A pair without a new caption has NaN in ``new``. ``wins`` (s, 2, 2) are those of
    `mispair.repair.evidence.wins` with their errors: of the captions of `trusted` pairs, and of the
    new captions of other pairs, which no captioner has learned from.
    """
    import numpy as np

    from mispair.core import files, seeds
    from mispair.core.progress import Progress
    from mispair.pairs.corruption.draws import column
    from mispair.repair.evidence import cosines, wins
    from mispair.repair.pairings import aligned
    from mispair.towers.features import gather, parts_of_towers

    table, origin = files.read_parquet(pairing)
    tensors, model = files.read_tensors(projection)
    draws = int(origin["draws"])
    new = aligned(files.read_parquet(recaptions)[0], table["key"], recaptions)["caption_id"]
    for number in range(draws):
        before = table[column("caption_id", number)]
        table[column("caption_id", draws + number)] = new.fillna(before)
        table[column("text_changed", draws + number)] = True
    every = np.arange(len(table))
    is_trusted = table["key"].isin(files.read_parquet(trusted)[0]["key"]).to_numpy()
    generated = np.stack([new.notna()] * draws)
    judged = [*[is_trusted] * draws, *(generated & ~is_trusted)]
    parts = parts_of_towers(features, feature_rows, model.get("towers"))
    cosines_of, wins_of = [], []
    try:
        data = gather(parts, table, [every] * (2 * draws))
        with Progress("scoring captions", 2 * draws, "draws") as progress:
            for draw in range(2 * draws):
                stacks = [tensors[f"{kind}_projection"] for kind in ("image", "text")]
                image, text = (stack[draw % draws % len(stack)] for stack in stacks)
                cosines_of.append(cosines(data, image, text, draw))
                order = seeds.generator(0, "score-captions", draw)
                pairs = np.flatnonzero(judged[draw])
                wins_of.append(wins(data, image, text, draw, pairs, order))
                progress.advance()
    except ValueError as error:
        raise files.UserError(f"score_captions: {error}.") from error
    old, fresh = np.stack(cosines_of[:draws]), np.stack(cosines_of[draws:])
    fresh = np.where(generated, fresh, np.float32(np.nan)).astype(np.float32)
    by_draw = np.stack([wins_of[:draws], wins_of[draws:]], axis=1)
    arrays = {"old": old, "new": fresh, "generated": generated, "wins": by_draw}
    files.write_tensors(scores, arrays, model)
    log.info("mean cosine of old captions %.4f, of new ones %.4f", old.mean(), np.nanmean(fresh))
