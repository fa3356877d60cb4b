"""Checks of a user's files before the first job: forms, and the first rows of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mispair.core.files import UserError, in_place_of_file, refuse_unfetched
from mispair.core.words import count
from mispair.evaluation.protocols import protocol_files
from mispair.pairs.captions.corpus_keys import (
    MOST_LETTERS,
    are_few,
    as_in_corpus,
    first_keys,
    first_sidecars,
    refuse_other_form,
    refuse_same_keys,
    refuse_unknown,
    refuse_unlike,
)
from mispair.pairs.captions.key_lists import TRUSTED, lines, naming, read_keys
from mispair.pairs.captions.scripts import is_blank
from mispair.pairs.captions.table_files import KEY
from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.first_samples import SAMPLES
from mispair.pairs.sources.first_captions import refuse_labels_and_lines
from mispair.pairs.steps.find_similar_captions import refuse_without_seismic
from mispair.review import dag as review
from mispair.review.labels import OF_REPAIRS, WRONG, read_labels
from mispair.towers.checkpoints.hub_weights import refuse_unreachable, weights_of
from mispair.towers.checkpoints.model_spec import kind_of
from mispair.towers.pretraining.pretraining import read_definition, refuse_too_few_pairs

if TYPE_CHECKING:
    from mispair.dag import Dag

Corpus = Callable[[], set[str] | None]
"""Returns all keys of the user's pairs, or None if they are not known before any job."""

ROWS = 1000
"""Rows at the start of a caption table whose keys are compared with those of the shards."""


def refuse_unusable(dag: Dag) -> None:
    """Refuse files and programs that a job would refuse later.

    Parameters
    ----------
    dag : Dag
        A checked configuration.

    Raises
    ------
    UserError
        If an input cannot be used.
    """
    _refuse_evaluation_sets(dag)
    for path in dag.models.given_weights():
        kind_of(path)  # raises if these are no weights
    _refuse_models(dag)
    dag.repair.captioner_files()
    if dag.encodes and dag.config.towers == "train":
        if not dag.models.start:
            read_definition(dag.config.pretrain_towers.definition)
        if pairs := dag.pairs.pairs_of_shards():
            refuse_too_few_pairs(dag.config.pretrain_towers, pairs)
    if not dag.encodes:
        return
    for key in ("trusted", "reviewed", "reviewed_repairs", "caption_keys", "groups"):
        refuse_unfetched(*map(Path, dag.user_file(key)), setting=key)
    _refuse_damaged(dag)
    _refuse_pictures(dag)
    if dag.config.gather_index.duplicate_keys == "refuse":
        extension = Policy(caption_from=dag.pairs.captions_in).caption_extension
        refuse_same_keys(dag.pairs.own_shards(), extension, dag.config.captions is not None)
    dag.pairs.refuse_remote_captions()
    _refuse_caption_field(dag)
    captions, are_decided = dag.pairs.first_captions(), _decides_on_lines(dag)
    refuse_labels_and_lines("pairs", captions, are_decided, len(captions) == dag.pairs.source.pairs)
    _refuse_lost_pairs(dag)
    _refuse_schemes(dag)
    examples, corpus = dag.pairs.example_keys(), cache(dag.pairs.own_keys)
    _refuse_groups(dag, examples, corpus)
    trusted: set[str] = set()
    for path in map(Path, dag.user_file("trusted")):
        keys = read_keys(path, TRUSTED)
        trusted |= {*keys}
        _refuse_keys(TRUSTED, path, keys, examples)
        _refuse_unknown(TRUSTED, path, {*keys}, corpus())
    for path in map(Path, dag.user_file("reviewed")):
        labelled = read_labels(path)
        _refuse_keys("reviewed", path, [*labelled], examples)
        _refuse_unknown("reviewed", path, {*labelled}, corpus())
        wrong = [key for key, (label, _) in labelled.items() if label == WRONG and key in trusted]
        if wrong and dag.runs("audit"):
            raise UserError(
                f"{TRUSTED}: the list has {count(len(wrong), 'key')} with the label wrong in "
                f"{path} (reviewed), such as {wrong[0][:MOST_LETTERS]!r}. Delete them from the "
                "list, or correct the labels."
            )
    for path in map(Path, review.kept(dag)):
        from mispair.review.draw import read_kept

        read_kept(path)  # raises if it is no sample
    for path in map(Path, dag.user_file("reviewed_repairs")):
        compared = read_labels(path, "reviewed_repairs", OF_REPAIRS)
        _refuse_keys("reviewed_repairs", path, [*compared], examples)
        if dag.runs("repair"):
            _ = dag.repair.compared  # raises if no rule replaces captions
    _refuse_caption_tables(dag, examples, corpus)


def _decides_on_lines(dag: Dag) -> bool:
    """Return whether the configuration says what the lines of a caption are."""
    return dag.config.index_shards.captions_per_line is not None


def damaged_words(dag: Dag) -> str:
    """Return how many shards cannot be read, by their sizes and the starts of some; or nothing."""
    faults, number = _faults(dag), len(dag.pairs.shards())
    if not faults:
        return ""
    shard, fault = next(iter(faults.items()))
    return (
        f"shards: {count(len(faults), 'shard')} of {number:,} cannot be read, such as {shard}: "
        f"{fault}. Write or fetch them again. The report counts damaged shards; more than "
        "gather_index.max_quarantined_share of all stop the run."
    )


def _refuse_damaged(dag: Dag) -> None:
    """Refuse shards if none of some can be read, or if too many of all cannot."""
    faults, number = _faults(dag), len(dag.pairs.shards())
    limit, shard = dag.config.gather_index.max_quarantined_share, next(iter(faults), "")
    is_remote = bool(dag.pairs.remote)
    remedy = "Check the address and who may read it" if is_remote else "Write or fetch them again"
    if faults and len(faults) == len(dag.pairs.faults):
        raise UserError(
            f"{shard}: {faults[shard]}. No shard can be used, by {len(faults):,} of {number:,}. "
            f"{remedy}."
        )
    if len(faults) > limit * number:
        raise UserError(
            f"shards: at least {len(faults):,} of {number:,} cannot be read, such as {shard}: "
            f"{faults[shard]}. {remedy}, or leave them out; at most {100 * limit:g} % may be "
            "(gather_index.max_quarantined_share)."
        )


def _faults(dag: Dag) -> dict[str, str]:
    return {shard: fault for shard, fault in dag.pairs.faults.items() if fault}


def _refuse_lost_pairs(dag: Dag) -> None:
    """Refuse a folder or table that lists too many pairs without a picture or a caption."""
    limit, listed = dag.config.gather_index.max_quarantined_share, dag.pairs.source.pairs
    lost = dag.pairs.lost_pairs()
    if sum(map(len, lost.values())) > limit * listed:
        parts = [f"{len(keys):,} have no {what}, such as {keys[0][:MOST_LETTERS]!r}"
                 for what, keys in lost.items() if keys]  # fmt: skip
        source, table = dag.pairs.source, ""
        if source.kind == "imagefolder" and len(source.tables) == 1 and lost["caption"]:
            table = f"name the table alone if it has all pairs (pairs: {source.tables[0]}), or "
        raise UserError(
            f"pairs: of {listed:,} pairs {' and '.join(parts)}. Complete them or take them out, or "
            f"{table}allow more than {100 * limit:g} %, as by --config "
            '"gather_index={max_quarantined_share: 1}".'
        )


def _refuse_pictures(dag: Dag) -> None:
    """Refuse pairs of which some pictures are read and none can be decoded, with the first one."""
    if find_spec("PIL") is None:
        return  # with --sdm conda the jobs have Pillow, and this process need not have it
    from mispair.pairs.shards.images import UndecodableImageError, image_size

    limits, faults = dag.config.index_shards, list[str]()
    for where, content in dag.pairs.first_pictures():
        try:
            image_size(content, limits.max_image_pixels, limits.max_aspect_ratio)
            return
        except UndecodableImageError as error:
            unfetched = in_place_of_file(content)
            remedy = f"{error}. Write or fetch the pictures again, or name others."
            faults.append(f"{where}: {f'is {unfetched}' if unfetched else remedy}")
    if faults:
        number = count(len(faults), "picture")
        raise UserError(f"pairs: of {number} that were read none can be decoded. {faults[0]}")


def _refuse_models(dag: Dag) -> None:
    """Refuse models that open_clip cannot build, and weights that are nowhere to be had."""
    for key, spec in dag.models.unconverted():
        from mispair.towers.checkpoints import model_recipes  # torch, which not every plan needs

        model_recipes.candidates(spec)
        if spec.kind == "tag":
            weights = weights_of(model_recipes.pretrained_cfg(spec))
            option = " (--towers)" if key == "towers" else ""
            named = f"{spec.pretrained} of {spec.model}"
            refuse_unreachable(f"{key}{option}", named, weights)


def _refuse_evaluation_sets(dag: Dag) -> None:
    """Read the prompts of the user's sets and the first samples of each split."""
    from mispair.evaluation.prompts import prompts  # numpy, which not every plan needs
    from mispair.evaluation.set_samples import open_set

    evaluation = dag.evaluation
    for name, folder in evaluation.folders.items():
        if evaluation.is_generated(name):
            continue
        for path in folder.iterdir():
            refuse_unfetched(path, setting=f"evaluation_sets: {name}")
        for split in evaluation.splits(name):
            opened = open_set(folder, split, name)
            if not [*islice(opened.samples(), SAMPLES)]:
                raise UserError(
                    f"{folder / split}: its shards hold no sample. Fetch the set again, or take it "
                    "out of `evaluation_sets`."
                )
        if opened.kind == "classification":
            for protocol in (of for named, of in evaluation.pairs if named == name):
                source = evaluation.protocols[protocol]
                custom = protocol_files(source, folder, name)
                prompts(opened, protocol, custom)


def _refuse_groups(dag: Dag, examples: Sequence[str], corpus: Corpus) -> None:
    """Refuse a file of groups without a column of groups, or with none of the keys."""
    for path in map(Path, dag.user_file("groups")):
        from mispair.audit.user_lists import first_rows

        keys = first_rows(path, dag.config.select_pairs.group_fields, ROWS)
        _refuse_keys("groups", path, keys, examples)
        _refuse_strange("groups", path, keys, corpus)


def _refuse_keys(setting: str, path: Path, keys: Sequence[str], examples: Sequence[str]) -> None:
    """Refuse a list of keys whose form is none of the corpus; paths of pictures stand for keys."""
    meant = as_in_corpus(keys, examples)
    refuse_unlike(setting, path, [meant.get(key, key) for key in keys], examples)


def _refuse_unknown(setting: str, path: Path, named: set[str], corpus: set[str] | None) -> None:
    """Refuse keys of a list that the corpus does not have, as far as its keys are known by now."""
    if corpus:
        unknown = sorted(named - corpus)
        meant = as_in_corpus(unknown, corpus)
        refuse_unknown(setting, path, len(named), [key for key in unknown if key not in meant])


def _refuse_strange(
    setting: str, path: Path, keys: Sequence[str], corpus: Corpus, least: float = 0.0
) -> None:
    """Refuse a small table that has none of the keys of the corpus, if these are known by now.

    It is refused also if it has a smaller share of them than `least`.
    """
    known = corpus() if 0 < len(keys) < ROWS else None
    joined = len(known.intersection(keys)) if known else 0
    if known and 0 < joined < least * len(known):
        raise UserError(
            f"{setting}: {path} has a row for {joined} of {len(known):,} pairs, and at least "
            f"{100 * least:g} % must have one. Give the whole table, or lower "
            "gather_index.min_joined_share."
        )
    if known and not joined and not as_in_corpus(keys, known):
        raise UserError(
            f"{setting}: {path} has none of the keys of the corpus. Its keys are such as "
            f"{keys[0][:MOST_LETTERS]!r}, and those of the corpus such as {min(known)!r}."
        )


def _refuse_caption_tables(dag: Dag, examples: Sequence[str], corpus: Corpus) -> None:
    """Read the columns and first rows of the tables of captions and of recaptions."""
    config = dag.config
    lists = [Path(path) for path in dag.user_file("caption_keys")]
    for path in lists:
        with naming("caption_keys"):
            keys = [line.rstrip("\r\n") for line in islice(lines(path), ROWS)]
        if not keys:
            raise UserError(f"caption_keys: {path} is empty. Write the key of each line there.")
        refuse_unlike("caption_keys", path, keys, examples)
        refuse_other_form("caption_keys", path, keys, examples)
    reading = config.read_captions
    columns = reading.key_column, reading.caption_column, reading.join, "read_captions"
    _refuse_tables(dag, "captions", dag.pairs.caption_tables(), lists, columns, examples, corpus)
    giving = config.recaption_pairs
    if dag.runs("repair") and giving.kind.model == "tables":
        columns = giving.key_column, giving.caption_column, giving.join, "recaption_pairs"
        tables = dag.repair.captioner_files()
        _refuse_tables(dag, "recaption_pairs.model", tables, [], columns, examples, corpus)


def _refuse_schemes(dag: Dag) -> None:
    """Refuse schemes that need the features of the pictures, by the first table of these."""
    asked = dag.config.corrupt_captions
    if any("similar" in schemes()[name].reads for name in asked.schemes):
        refuse_without_seismic(dag.config.find_similar_captions)
    needs = any("truth" in schemes()[name].reads for name in asked.schemes) and max(asked.rates) > 0
    if (dag.runs("image_text") or dag.runs("repair")) and needs and not dag.pairs.is_generated:
        from mispair.pairs.captions.caption_texts import read_named_features

        read_named_features(map(Path, dag.pairs.beside(dag.pairs.shards(), ".parquet")[:1]))


def _refuse_join(
    dag: Dag, key: str, columns: Any, path: Path, values: Sequence[str], is_whole: bool
) -> None:
    """Refuse a join by a field that no first sample has, or whose values match none of a table.

    `values` are those of the table's first rows. If they are all (`is_whole`), they are compared
    with those of all pairs of a small corpus; else their forms are, with those of first samples.
    """
    from mispair.pairs.captions.decoding import sidecar_text

    field = columns.join.removeprefix("json:")
    _refuse_field(dag, field, f"{columns.section}.join", sidecar_text)
    known = dag.pairs.texts_of(field)
    if known is None or not {*known}.isdisjoint(values):
        return
    if {*map(_form, known)} & {*map(_form, values)}:
        known = dag.pairs.texts_of(field, of_all=True) if is_whole else None
    if known is not None and {*known}.isdisjoint(values):
        has = f"pairs have such as {known[0][:MOST_LETTERS]!r}" if known else "no pair has any"
        raise UserError(
            f"{key}: {path} is joined by {columns.join} and has values such as "
            f"{values[0][:MOST_LETTERS]!r}, but {has}. Correct {columns.section}.join or "
            f"{columns.section}.key_column."
        )


def _form(value: str) -> str:
    """Return the form of a value that joins: an address, a hash of a length, or another text."""
    is_hash = re.fullmatch(r"[0-9a-f]{32,128}|[0-9A-F]{32,128}", value)
    return f"{len(value)} {value.isupper()}" if is_hash else "address" * ("://" in value)


def _refuse_caption_field(dag: Dag) -> None:
    """Refuse captions in a field, or next to pictures, that no first sample of the shards has."""
    from mispair.pairs.captions.decoding import parse_json, values_at

    def captions(content: bytes, field: str) -> list[str | None] | None:
        try:
            values = values_at(parse_json(content), field)
            return [value for value in values if value is None or isinstance(value, str)] or None
        except ValueError:
            return []  # index_shards says why

    if dag.pairs.captions_in.startswith("json:") and dag.config.captions is None:
        field = dag.pairs.captions_in.removeprefix("json:")
        _refuse_field(dag, field, "index_shards.caption_from", captions)


def _refuse_field(dag: Dag, field: str, setting: str, read: Callable[[bytes, str], Any]) -> None:
    """Refuse a field of which `read` returns None for the first samples of all shards."""
    from mispair.pairs.captions.decoding import parse_json, text_fields

    shards = dag.pairs.first_shards()
    sidecars = [*first_sidecars(shards)]
    if not sidecars and first_keys(shards):
        raise UserError(
            f"{setting}: no sample at the start of the shards has a JSON (KEY.json), which would "
            f"have {field!r}. Change this setting, or name shards that have them."
        )
    if not sidecars or any(read(content, field) is not None for content in sidecars):
        return
    try:
        has = ", ".join(text_fields(parse_json(sidecars[0])))
    except ValueError:
        return
    raise UserError(
        f"{setting}: no sample at the start of the shards has a text as {field!r} in its JSON. "
        f"Its texts are {has[:MOST_LETTERS]}: name one of these."
    )


def _refuse_tables(
    dag: Dag,
    key: str,
    tables: Sequence[str],
    lists: Sequence[Path],
    columns: tuple[str, str, str, str],
    examples: Sequence[str],
    corpus: Corpus,
) -> None:
    """Read the first rows of caption tables, and compare the keys that join them."""
    if not tables:
        return
    from mispair.pairs.captions.user_tables import TableColumns, read_rows

    named = TableColumns(*columns)
    for path in map(Path, tables):
        if lists and not are_few([str(path), str(lists[0])]):
            continue  # by position: both files are read to their ends, which a job does
        refuse_unfetched(path, setting=key)
        rows = [*islice(read_rows([path], lists[0] if lists else None, named), ROWS)]
        is_whole = len(tables) == 1 and len(rows) < ROWS
        values = [value for value, _ in rows if value]
        if not values:
            raise UserError(f"{key}: {path} has no row. Write it again, or take it out.")
        captions = [caption for _, caption in rows if caption and not is_blank(caption)]
        if is_whole and not captions:
            raise UserError(
                f"{key}: {path} has no caption in its column {named.caption!r}. Name another as "
                f"{named.section}.caption_column."
            )
        are_decided = _decides_on_lines(dag) or key != "captions"
        refuse_labels_and_lines(f"{key}: {path}", captions, are_decided, is_whole)
        if named.join != KEY:
            _refuse_join(dag, key, named, path, values, is_whole)
            continue
        if values and "://" in values[0]:
            raise UserError(
                f"{key}: {path} has addresses, such as {values[0]!r}, where keys are expected. Set "
                f"{named.section}.join to url."
            )
        refuse_unlike(key, path, values, examples)
        refuse_other_form(key, path, values, examples)
        if len(tables) == 1:
            least = dag.config.gather_index.min_joined_share if key == "captions" else 0.0
            _refuse_strange(key, path, values, corpus, least)
