"""Schemes that reword the caption of every pair."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from mispair.core.files import UserError
from mispair.pairs.captions.caption_texts import CaptionedPairs, read_named_features, read_texts
from mispair.pairs.captions.scripts import TOKEN, pieces
from mispair.pairs.corruption.corrupted import STEP, Corrupted, Sources
from mispair.pairs.corruption.draws import streams, uniforms
from mispair.pairs.index.index import caption_id
from mispair.pairs.scenes.scene_captions import (
    FEATURES,
    VOCABULARY,
    find_mentions,
    read_caption,
    with_article,
)

# Captions reworded: features replaced or left out, content words left out.
#
# The schemes by feature apply C_s of the theory (Eq. 5) to texts. `spurious` is its first event:
# the text names the feature's linked partner instead. `missing` is its second event: the text does
# not name a feature of the picture. Partners are those of generated low-quality captions
# (`scene_captions.spurious_partners`). A feature always has the same partner: neurons mix features
# that always occur together.
#
# The rest of a sentence stays word for word. Each feature or word has its own draw in [0, 1),
# which is compared with the rate. So a large rate changes all that a small rate changes.


@dataclass(frozen=True)
class Reworded:
    """Captions after a scheme, and how much of them it changed.

    Attributes
    ----------
    captions : list of str
        New texts, in order.
    total, changed : int
        Features that captions name or content words that they hold, and how many of them were
        replaced or left out.
    spared : int
        Features without a partner, or last content words, that were drawn but stay.
    """

    captions: list[str]
    total: int
    changed: int
    spared: int


def reword_features(
    captions: Sequence[str], starts: np.ndarray, rate: float, partners: Mapping[str, str | None]
) -> Reworded:
    """Replace or leave out each feature that a caption names with the given probability.

    Parameters
    ----------
    captions : sequence of str
        The n sentences.
    starts : (n,) uint64 array
        Streams of draws (`draws.streams`).
    rate : float
        Probability of each feature.
    partners : mapping of str to str or None
        For each feature, another of its kind, or None to leave it out: a shape becomes "thing" and
        a digit's name "number", as in captions of scenes that never named them, so a noun always
        stays. The only feature of a kind has no partner and stays.
    """
    drawn = uniforms(starts[:, None], np.arange(len(FEATURES))) < rate
    number = {feature: i for i, feature in enumerate(FEATURES)}
    texts, total, changed, spared = [], 0, 0, 0
    for caption, row in zip(captions, drawn.tolist(), strict=True):
        named = {feature for _, _, feature in find_mentions(caption)}
        chosen = [feature for feature in named if row[number[feature]]]
        new = {feature: partners[feature] for feature in chosen if feature in partners}
        texts.append(rewrite(caption, new) if new else caption)
        total += len(named)
        changed += len(new)
        spared += len(chosen) - len(new)
    return Reworded(texts, total, changed, spared)


_GAP, _NAMELESS, _ARTICLE = "\x00", "\x01", "\x02"
"""Marks while a sentence is put together: nothing is left here; a digit without its name; an
article whose form depends on what follows now."""

_MENDING = (
    (f" that is {_GAP}", ""),
    (f" (?:on|against|with) {_ARTICLE} {_GAP} (?:background|backdrop)", ""),
    (f"{_GAP}: ", ""),
    (f"{_GAP} ", ""),
    (f" {_GAP}", ""),
    (f"(number|digit) {_NAMELESS}", r"\1"),
    (_NAMELESS, "number"),
)


def rewrite(caption: str, new: Mapping[str, str | None]) -> str:
    """Name other features in a sentence of `scene_captions.write_caption`.

    Parameters
    ----------
    caption : str
        The sentence.
    new : mapping of str to str or None
        For each feature to change, the one to name in its place, or None to leave it out.

    Examples
    --------
    >>> rewrite("an orange star that is small", {"colour:orange": "colour:red"})
    'a red star that is small'
    >>> rewrite("an orange star that is small", {"shape:star": None, "size:small": None})
    'an orange thing'
    """
    parts: list[str] = []
    end = 0
    for run in _runs(caption):
        before = caption[end : run[0][0]]
        end = run[-1][1]
        if not any(feature in new for _, _, feature in run):
            parts += [before, caption[run[0][0] : end]]
            continue
        replacements: dict[str, str] = {}
        for start, stop, feature in run:
            named = new.get(feature, feature)
            word = caption[start:stop]
            if named is not None:
                # "Blue and blue" means no more than "blue".
                replacements.setdefault(
                    named, word if named == feature else _word(feature, named, word)
                )
        kind = run[0][2].split(":")[0]
        gap = {"shape": "thing", "digit": _NAMELESS}.get(kind, _GAP)
        parts += [
            re.sub(r"\ban? $", f"{_ARTICLE} ", before),
            " and ".join(replacements.values()) or gap,
        ]
    text = "".join([*parts, caption[end:]])
    for pattern, replacement in _MENDING:
        text = re.sub(pattern, replacement, text)
    return re.sub(rf"{_ARTICLE} (\w+)", lambda match: with_article(match[1]), text)


def _runs(caption: str) -> list[list[tuple[int, int, str]]]:
    """Group mentions with nothing but "and" between them: "small and red", "on the left and"."""
    runs: list[list[tuple[int, int, str]]] = []
    for mention in find_mentions(caption):
        if runs and caption[runs[-1][-1][1] : mention[0]] == " and ":
            runs[-1].append(mention)
        else:
            runs.append([mention])
    return runs


def _word(feature: str, named: str, word: str) -> str:
    """Return a word for `named`: its second synonym if the sentence had a second, and so on."""
    (kind, value), (other_kind, instead) = feature.split(":"), named.split(":")
    synonyms = VOCABULARY[other_kind][instead]
    return synonyms[min(VOCABULARY[kind][value].index(word), len(synonyms) - 1)]


def leave_out_words(captions: Sequence[str], starts: np.ndarray, rate: float) -> Reworded:
    """Leave out each content word of a caption with the given probability.

    White space separates words; in scripts without blanks, each letter is a word. A content word
    is none of scikit-learn's English stop words, no single letter of another script and no mark. If
    all content words of a caption are drawn, the one with the largest draw stays, so no caption
    becomes empty. `starts` are (n,) streams of draws (`draws.streams`).
    """
    words = [pieces(caption) for caption in captions]
    counts = np.fromiter(map(len, words), np.int64, len(words))
    ends = np.cumsum(counts)
    content = np.fromiter((_has_content(word) for each in words for word in each), bool)
    position = np.arange(len(content)) - np.repeat(ends - counts, counts)
    draws = uniforms(np.repeat(starts, counts), position)
    gone = content & (draws < rate)
    texts, spared = list(captions), 0
    owners = np.unique(np.repeat(np.arange(len(words)), counts)[gone])
    for owner in owners.tolist():
        part = slice(ends[owner] - counts[owner], ends[owner])
        if (gone[part] == content[part]).all():
            gone[part.start + np.argmax(np.where(content[part], draws[part], -1.0))] = False
            spared += 1
        kept = [
            word for word, out in zip(words[owner], gone[part].tolist(), strict=True) if not out
        ]
        if len(kept) < counts[owner]:
            texts[owner] = "".join(kept).strip()
    return Reworded(texts, int(content.sum()), int(gone.sum()), spared)


@lru_cache(maxsize=1 << 18)
def _has_content(word: str) -> bool:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    # The same words as the similarity by TF-IDF counts.
    return any(part not in ENGLISH_STOP_WORDS for part in re.findall(TOKEN, word.lower()))


Edit = Callable[[list[str], np.ndarray], Reworded]
"""From captions and their streams of draws (`draws.streams`) to new captions."""


def reword(
    pairs: CaptionedPairs,
    scheme: str,
    seed: int,
    sources: Sources,
    edit: Edit,
    *,
    share: str,
    spared: str = "",
    check_features: bool = False,
) -> Corrupted:
    """Reword the caption of every pair, one group of shards at a time.

    Parameters
    ----------
    scheme : str
        Name of the draws.
    edit : callable
        What is done to the captions of a group.
    share : str
        Name of the metadatum of the realised rate.
    spared : str
        Note on what was drawn and stays, with places for ``spared`` and ``total``.
    check_features : bool
        Whether captions must name exactly the features that the ground truth has for them.

    Raises
    ------
    UserError
        If a caption is checked and fails, or the index of a group is missing.
    """
    truth = read_named_features(sources.truth) if check_features else None
    given = pairs.caption_ids.copy()
    ids, texts = [np.zeros(0, np.uint64)], [pa.array([], pa.large_string())]
    total = changed = stay = 0
    for group, rows in pairs.by_group():
        if group not in sources.index:
            raise UserError(f"corrupt_captions: the index of group {group} is missing.")
        originals = read_texts([sources.index[group]], given[rows])
        captions = [originals[number] for number in given[rows].tolist()]
        keys = list(pairs.keys(rows))
        if truth is not None:
            _check(keys, captions, truth)
        new = edit(captions, streams(keys, seed, STEP, scheme))
        total, changed, stay = total + new.total, changed + new.changed, stay + new.spared
        edited = [i for i, text in enumerate(new.captions) if text != captions[i]]
        new_texts = dict.fromkeys(new.captions[i] for i in edited)
        distinct = {text: int(caption_id(text), 16) for text in new_texts}
        given[rows[edited]] = [distinct[new.captions[i]] for i in edited]
        ids.append(np.fromiter(distinct.values(), np.uint64, len(distinct)))
        texts.append(pa.array(list(distinct), pa.large_string()))
    written_ids, first = np.unique(np.concatenate(ids), return_index=True)
    fresh = ~np.isin(written_ids, pairs.alternatives)
    return Corrupted(
        given,
        np.zeros(len(given), bool),
        {share: repr(changed / max(total, 1))},
        spared.format(spared=stay, total=total) if stay else "",
        written_ids[fresh],
        pa.concat_arrays(texts).take(pa.array(first[fresh])),
    )


def _check(keys: Iterable[str], captions: Iterable[str], truth: Mapping[str, list[str]]) -> None:
    for key, caption in zip(keys, captions, strict=True):
        if key not in truth:
            raise UserError(
                f"corrupt_captions: the ground truth has no features for the key {key!r}. Give the "
                "Parquet tables that were written with the shards."
            )
        if sorted(truth[key]) != sorted(named := read_caption(caption)):
            raise UserError(
                f"corrupt_captions: the caption {caption!r} of {key!r} names "
                f"{', '.join(named) or 'no feature'}, but its ground truth is "
                f"{', '.join(truth[key]) or 'no feature'}. The schemes spurious and missing change "
                "the sentences that make_scenes writes; keep those, or leave the schemes out."
            )
