"""Keys of a user's files, compared with keys of the corpus."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from mispair.core.files import UserError
from mispair.core.words import composed, count
from mispair.pairs.shards.first_samples import FirstSamples, first_samples
from mispair.pairs.shards.packed_keys import key_of_member
from mispair.pairs.shards.shards import IMAGE_EXTENSIONS, split_run
from mispair.pairs.sources.in_shards import probed
from mispair.pairs.sources.source import picture_key

FEW_BYTES = 1 << 28
"""Bytes of shards up to which all of their names are read before any job."""
LARGEST_UNKNOWN_SHARE = 0.05
"""Largest share of keys that may be neither in the corpus nor among the pairs it left out."""
SHOWN, MOST_LETTERS = 3, 80
"""Examples of such keys in a message, and letters of one."""
_ROUNDED = re.compile(r"^\d[.,]\d+[eE]\+?\d+$")
_FILE = re.compile(rf"\.({'|'.join((*IMAGE_EXTENSIONS, 'txt', 'json', 'cls'))})$", re.IGNORECASE)


def as_in_corpus(keys: Iterable[str], corpus: Iterable[str]) -> dict[str, str]:
    """Return the key of the corpus for keys that differ from it in their form alone.

    Keys of pairs are compared byte by byte. A key that is none of the corpus stands for the one
    that has the same composed form of Unicode, or is the key of a picture of that path, or of the
    members of that name in a packed shard; unless several are.

    Examples
    --------
    >>> as_in_corpus(["cre\u0302pe", "b"], ["cr\u00eape", "a"]) == {"cre\u0302pe": "cr\u00eape"}
    True
    >>> as_in_corpus(["./a/b.v1.jpg", "a/b%2Ev2"], ["a/b.v1", "a/b.v2"])
    {'./a/b.v1.jpg': 'a/b.v1', 'a/b%2Ev2': 'a/b.v2'}
    """
    wanted = {key: forms_of(key) for key in keys}
    found: dict[str, list[str]] = {form: [] for forms in wanted.values() for form in forms}
    for key in corpus if wanted else ():
        if (form := composed(key)) in found:
            found[form].append(key)
    meant = {}
    for key, forms in wanted.items():
        of_corpus = next((found[form] for form in forms if found[form]), [])
        if len(of_corpus) == 1 and of_corpus != [key]:
            meant[key] = of_corpus[0]
    return meant


def forms_of(key: str) -> list[str]:
    """Return the composed forms that the key of a pair may have, the most certain first."""
    path = key.removeprefix("./")
    forms = (key, path, picture_key(path), key_of_member(path))
    return [*dict.fromkeys(map(composed, forms))]


def refuse_unknown(setting: str, path: Path, named: int, unknown: Sequence[str]) -> None:
    """Refuse a list of which more than `LARGEST_UNKNOWN_SHARE` is in no corpus.

    Parameters
    ----------
    setting, path : str, Path
        For the message.
    named : int
        Distinct keys of the list.
    unknown : sequence of str
        Those of them that the corpus does not have.

    Raises
    ------
    UserError
        If there are too many.
    """
    if len(unknown) > LARGEST_UNKNOWN_SHARE * named:
        shown = ", ".join(repr(key[:MOST_LETTERS]) for key in unknown[:SHOWN])
        raise UserError(
            f"{setting}: {path} names {len(unknown)} keys of {named} that the corpus does not "
            f"have, such as {shown}. Keys are those of the shards, or of the column key of "
            "results/pairs/CORPUS/corpus.parquet."
        )


def all_keys(shards: Mapping[str, str]) -> set[str] | None:
    """Return the keys of all shards if these are small and can be read, otherwise None.

    `shards` are those of `first_keys`.
    """
    try:
        if not are_few(shards):
            return None
    except OSError:  # index_shards says why
        return None
    keys: set[str] = set()
    for shard, source in shards.items():
        samples = first_samples(shard, is_whole=True, names_only=True)
        if samples.fault or samples.runs[-1].damage:
            return None
        keys.update(_keys_of(samples, source))
    return keys


def refuse_same_keys(shards: Mapping[str, str], extension: str, has_table: bool) -> None:
    """Refuse pairs of one key: of small shards all, else those of shards that begin alike.

    Parameters
    ----------
    shards : mapping
        Those of `first_keys`.
    extension : str
        That of captions, which a pair has unless a table may have one for it (`has_table`).
    has_table : bool
        Whether there are captions in a table.

    Raises
    ------
    UserError
        With the first such key and its places.
    """
    of_key: dict[str, str] = {}
    are_all = are_few(filter(os.path.exists, shards))
    for shard in [*shards] if are_all else probed([*shards]):
        prefix = f"{shards[shard]}/" if shards[shard] else ""
        keys = [
            prefix + one.key
            for run in first_samples(shard, are_all, names_only=True).runs
            for one in split_run(run, extension, lambda key: has_table)
            if one.image and (one.caption or has_table) and not one.ambiguity
        ]
        repeated = []
        for key in keys:
            repeated += [key] * (key in of_key)
            of_key.setdefault(key, shard)
        if repeated and (are_all or 2 * len(repeated) >= len(keys)):
            other = of_key[repeated[0]]
            where = "twice in it" if other == shard else f"in {other}, too"
            raise UserError(
                f"shards: {count(len(repeated), 'key')} of {shard} "
                f"{'is' if len(repeated) == 1 else 'are'} {where}, such as {repeated[0]!r}. If "
                "these are copies, set gather_index.duplicate_keys to first. If each shard counts "
                "its own pairs, pack them with keys of their own, or name them (shards: {a: ..., "
                "b: ...}, whose keys begin with a/ and b/)."
            )


def are_few(shards: Iterable[str]) -> bool:
    """Return whether all samples of shards may be looked at before any job."""
    return sum(os.path.getsize(shard) for shard in shards) <= FEW_BYTES


def _keys_of(samples: FirstSamples, source: str) -> list[str]:
    prefix = f"{source}/" if source else ""
    return [prefix + run.key for run in samples.runs if run.key]


def first_keys(shards: Mapping[str, str]) -> list[str]:
    """Return keys at the start of shards, as far as these can be read.

    `shards` are paths with the name of each shard's source (or nothing), which begins its keys.
    """
    return [key for one, source in shards.items() for key in _keys_of(first_samples(one), source)]


def first_sidecars(shards: Iterable[str], is_whole: bool = False) -> Iterator[bytes]:
    """Yield img2dataset's JSON of the first samples of shards, or of all, that can be read."""
    for shard in shards:
        for member, content in first_samples(shard, is_whole).texts.items():
            if member.name.endswith(".json"):
                yield content


def refuse_unlike(setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]) -> None:
    """Refuse keys whose form is none of this corpus: file names, or numbers without their zeros.

    Parameters
    ----------
    setting, path : str, Path
        For the message.
    keys : sequence of str
        Keys of the list, at least one.
    examples : sequence of str
        Keys of the corpus, as `first_keys` returns them.

    Raises
    ------
    UserError
        If the keys cannot be those of the shards.
    """
    if rounded := next((key for key in keys if _ROUNDED.match(key)), None):
        raise UserError(
            f"{setting}: {path} holds {rounded!r}, a number that a spreadsheet has rounded. Format "
            "the column as text and export the list again from its source."
        )
    of_corpus = {*examples}
    if not examples or not of_corpus.isdisjoint(keys):
        return
    files = [key for key in keys if _FILE.search(key)]
    if 2 * len(files) > len(keys):
        raise UserError(
            f"{setting}: {path} holds names of files such as {files[0]!r}, not keys. A key is the "
            f"name in the shard without its ending, such as {examples[0]!r}."
        )
    sources = {key.partition("/")[0] for key in examples if "/" in key}
    if len(sources) and not any("/" in key for key in keys) and all("/" in k for k in examples):
        raise UserError(
            f"{setting}: {path} holds keys such as {keys[0]!r}, but keys of this corpus begin with "
            f"the name of a source or folder, such as {examples[0]!r}. Write it before each key."
        )
    _refuse_lost_zeros(setting, path, keys, examples)


def refuse_other_form(
    setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]
) -> None:
    """Refuse keys of a caption table in another form of Unicode, which would join no pair.

    Parameters
    ----------
    setting, path, keys, examples
        Those of `refuse_unlike`.

    Raises
    ------
    UserError
        If a key is that of a pair but for its form.
    """
    of_corpus = {*examples}
    meant = as_in_corpus([key for key in keys if key not in of_corpus], of_corpus)
    for key, of_pair in meant.items():
        if composed(key) != composed(of_pair):
            raise UserError(
                f"{setting}: {path} holds the key {key!r}, and a pair has {of_pair!r}: caption "
                "tables join equal keys only. Write those of the column key of "
                "results/pairs/CORPUS/corpus.parquet."
            )
        raise UserError(
            f"{setting}: {path} holds the key {key!a}, and a pair has {of_pair!a}: the same text "
            "in two forms of Unicode, which caption tables do not join. Write its keys with "
            f"unicodedata.normalize({'NFC' if of_pair == composed(key) else 'NFD'!r}, key)."
        )


def _refuse_lost_zeros(
    setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]
) -> None:
    lengths = {len(key) for key in examples}
    padded = len(lengths) == 1 and all(key.isdecimal() for key in examples)
    if not padded or not any(key.startswith("0") for key in examples):
        return
    (length,) = lengths
    numbers = [re.sub(r"\.0+$", "", key) for key in keys]  # a spreadsheet's 12.0
    if all(key.isdecimal() and len(key) < length for key in numbers):
        raise UserError(
            f"{setting}: {path} holds keys such as {keys[0]!r}, but keys of this corpus have "
            f"{length} digits, such as {examples[0]!r}: their leading zeros are lost. Write the "
            f"column as text, filled with zeros to {length} digits."
        )
