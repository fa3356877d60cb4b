"""Checks of a user's files before the first job: forms, first rows of each, names and times."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import cache
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from mispair.core.copied import TOLERANCE
from mispair.core.files import UserError
from mispair.core.words import count
from mispair.evaluation.protocols import protocol_files
from mispair.pairs.captions.user_files import (
    KEY,
    MOST_LETTERS,
    TRUSTED,
    as_in_corpus,
    first_sidecars,
    read_keys,
    refuse_other_form,
    refuse_unknown,
    refuse_unlike,
)
from mispair.pairs.corruption.scheme import schemes
from mispair.pairs.shards.tar_members import BrokenTarError, read_members
from mispair.pairs.sources.first_captions import refuse_labels_and_lines
from mispair.pairs.sources.in_shards import probed
from mispair.review import dag as review
from mispair.review.labels import OF_REPAIRS, WRONG, read_labels
from mispair.towers.checkpoints.hub_weights import refuse_unreachable, weights_of
from mispair.towers.checkpoints.model_spec import kind_of

if TYPE_CHECKING:
    from mispair.dag import Dag

Corpus = Callable[[], set[str] | None]
"""Returns all keys of the user's pairs, or None if they are not known before any job."""

SLURM_PROGRAMS = ("sbatch", "squeue", "sacct", "scancel")
"""Programs by which Snakemake's plugin for SLURM starts jobs and follows them."""

PROFILES = ("--profile", "--workflow-profile")

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
    if dag.encodes and dag.config.towers == "train" and not dag.models.start:
        from mispair.towers.pretraining.pretraining import read_definition

        read_definition(dag.config.pretrain_towers.definition)
    if not dag.encodes:
        return
    refuse_damaged([*dag.pairs.own_shards()])
    dag.pairs.refuse_remote_captions()
    _refuse_caption_field(dag)
    refuse_labels_and_lines(
        dag.pairs.first_captions(), dag.config.index_shards.captions_per_line is not None
    )
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


def refuse_damaged(shards: Sequence[str]) -> None:
    """Refuse shards of which none has a member that can be read, by some of them.

    Raises
    ------
    UserError
        With the first shard, and why.
    """
    fault, read = "", probed(shards)
    for shard in map(Path, read):
        try:
            with shard.open("rb") as opened:
                if not os.fstat(opened.fileno()).st_size:
                    return  # it stands for a shard that is still to come, as where a run is planned
                if next(read_members(opened), None) is not None:
                    return
            reason = "has no member"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        except BrokenTarError as error:
            reason = str(error)
        fault = fault or f"{shard}: {reason}"
    if fault:
        raise UserError(
            f"{fault}. No shard can be used, by {len(read)} of {len(shards)}. Write or fetch "
            "them again."
        )


def refuse_missing_programs(programs: Sequence[str] = SLURM_PROGRAMS) -> None:
    """Refuse a machine from which no job can be sent to SLURM.

    Raises
    ------
    UserError
        Naming all programs that are missing.
    """
    if missing := [name for name in programs if shutil.which(name) is None]:
        raise UserError(
            f"profile: the executor slurm needs {', '.join(missing)}, which this machine does not "
            "have. Run on a login node of the cluster, or without the profile for SLURM."
        )


def warn_of_missing_programs(arguments: Sequence[str]) -> str:
    """Return a warning if Snakemake's arguments or profiles choose SLURM, which is not here.

    A dry run names no executor, so that a real one would stop later.
    """
    words = list(arguments)
    pairs = [*pairwise(words), *(word.split("=", 1) for word in words if "=" in word)]
    chosen = {value for name, value in pairs if name in ("--executor", "-e")}
    for folder in (Path(value) for name, value in pairs if name in PROFILES):
        try:
            content = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError):
            continue
        if isinstance(content, dict):
            chosen.add(str(content.get("executor")))
    if "slurm" in chosen:
        try:
            refuse_missing_programs()
        except UserError as error:
            return str(error)
    return ""


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
    """Read the prompts of the user's sets and the first sample of each split."""
    from mispair.evaluation.prompts import prompts  # numpy, which not every plan needs
    from mispair.evaluation.set_samples import open_set

    evaluation = dag.evaluation
    for name, folder in evaluation.folders.items():
        if evaluation.is_generated(name):
            continue
        for split in evaluation.splits(name):
            opened = open_set(folder, split, name)
            if next(iter(opened.samples()), None) is None:
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


def _refuse_strange(setting: str, path: Path, keys: Sequence[str], corpus: Corpus) -> None:
    """Refuse a small table that has none of the keys of the corpus, if these are known by now."""
    known = corpus() if 0 < len(keys) < ROWS else None
    if known and known.isdisjoint(keys) and not as_in_corpus(keys, known):
        raise UserError(
            f"{setting}: {path} has none of the keys of the corpus. Its keys are such as "
            f"{keys[0][:MOST_LETTERS]!r}, and those of the corpus such as {min(known)!r}."
        )


def _refuse_caption_tables(dag: Dag, examples: Sequence[str], corpus: Corpus) -> None:
    """Read the columns and first rows of the tables of captions and of recaptions."""
    config = dag.config
    lists = [Path(path) for path in dag.user_file("caption_keys")]
    for path in lists:
        with path.open(encoding="utf-8-sig", errors="replace") as opened:
            keys = [line.rstrip("\r\n") for line in islice(opened, ROWS)]
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
    needs = any("truth" in schemes()[name].reads for name in asked.schemes) and max(asked.rates) > 0
    if (dag.runs("image_text") or dag.runs("repair")) and needs and not dag.pairs.is_generated:
        from mispair.pairs.captions.caption_texts import read_named_features

        read_named_features(map(Path, dag.pairs.beside(dag.pairs.shards(), ".parquet")[:1]))


def _refuse_join(dag: Dag, join: str, setting: str) -> None:
    """Refuse a join by a field that no sample at the start of the shards has in its JSON."""
    from mispair.pairs.captions.decoding import sidecar_text

    if join != KEY:
        _refuse_field(dag, join.removeprefix("json:"), setting, sidecar_text)


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

    sidecars = [*first_sidecars(dag.pairs.first_shards())]
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
    from mispair.pairs.captions.user_tables import Columns, read_rows

    named = Columns(*columns)
    _refuse_join(dag, named.join, f"{named.section}.join")
    for path in map(Path, tables):
        if path.suffix.lower() in (".txt", ".gz") and lists:
            continue  # by position: both files are read to their ends, which a job does
        rows = read_rows([path], lists[0] if lists else None, named)
        values = [value for value, _ in islice(rows, ROWS) if value]
        if not values:
            raise UserError(f"{key}: {path} has no row. Write it again, or take it out.")
        if named.join != KEY:
            continue
        if values and "://" in values[0]:
            raise UserError(
                f"{key}: {path} has addresses, such as {values[0]!r}, where keys are expected. Set "
                f"{named.section}.join to url."
            )
        refuse_unlike(key, path, values, examples)
        refuse_other_form(key, path, values, examples)
        if len(tables) == 1:
            _refuse_strange(key, path, values, corpus)


# The user's own files as inputs of rules: their names are taken as they are, and their times.


LITERAL = "mispair-literal"
"""Flag of an input whose braces are no wildcards."""


def time_of_new_files(folder: Path = Path()) -> float:
    """Return the time that a file gets which is written now, by the clock of the folder's disk."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(b"0")
        probe.flush()
        return os.fstat(probe.fileno()).st_mtime


def refuse_dated_ahead(paths: Iterable[str], now: float) -> None:
    """Refuse files that are dated later than files that jobs write.

    Snakemake deletes an output that is older than one of its inputs.

    Raises
    ------
    UserError
        With the first such file, and how far it is ahead.
    """
    for path in map(Path, map(os.path.abspath, paths)):
        try:
            ahead = max(path.stat().st_mtime, path.lstat().st_mtime) - now
        except OSError:
            continue  # Snakemake reports that it is missing
        if ahead > TOLERANCE:
            named = shlex.quote(str(path))
            raise UserError(
                f"{path}: is dated {timedelta(seconds=round(ahead))} (hours:minutes:seconds) ahead "
                "of this machine's clock, so all results made from it would count as outdated and "
                f"be deleted. Correct the clock, or date the file now: touch -h {named} and "
                f"touch {named}."
            )


def take_literally() -> Callable[[str], str]:
    """Return a function that marks a path whose braces are no wildcards.

    Snakemake has no escape for braces in inputs, so the function that fills in wildcards leaves
    marked paths as they are.
    """
    from snakemake import io

    fill_in = io.apply_wildcards

    def fill_in_unmarked(pattern: Any, wildcards: Any) -> Any:
        return pattern if io.is_flagged(pattern, LITERAL) else fill_in(pattern, wildcards)

    io.apply_wildcards = fill_in_unmarked
    return lambda path: io.flag(path, LITERAL) if "{" in path else path
