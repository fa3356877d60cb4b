"""Samples of a shard of an evaluation set: names with dots, and members in any order.

Names are read as those of training shards (`mispair.pairs.shards.shards.split_run`). The members of
a sample need not be adjacent, because some tools order a tar by ending. So the headers of a shard
are read before its first sample.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mispair.core.files import UserError
from mispair.pairs.shards.shards import (
    BUFFER_BYTES,
    IMAGE_EXTENSIONS,
    MAX_MEMBER_BYTES,
    MAX_TEXT_BYTES,
    AdjacentMembers,
    Candidate,
    Sample,
    ShardReader,
    TruncatedShardError,
    split_run,
)
from mispair.pairs.shards.tar_members import BrokenTarError

# Classes and templates of several questions on one image, which are refused by name.
#
# FairFace's and UTKFace's files of DataComp have the name of a question before each class and each
# template, such as ``age:0 to 9``, and the answers in ``KEY.npy``. As classes of one question they
# would give an accuracy of zero.

_QUESTION = re.compile(r"\s*([^\W\d][\w -]{0,30}?)\s*(?!(?<=\d):\d)[:：](\s*)\S")
"""The name of a question before a colon, which is none between two numbers."""


def refuse_questions(path: Path, classnames: Sequence[str], templates: Iterable[str] = ()) -> None:
    """Refuse class names or templates that have the name of a question before a colon.

    A name counts if two classes share it without a blank after the colon, if all classes have one
    and two share it or none has a blank, or if it is before a template without a blank or before a
    class too. Case does not count.

    Parameters
    ----------
    path : Path
        Their file or folder, for the message.
    classnames, templates : sequence of str
        As they are in the files; either may be empty.

    Raises
    ------
    UserError
        If there is one; the message has the first.
    """
    matches = [(name, _QUESTION.match(name)) for name in classnames]
    found = [match for _, match in matches if match]
    close = Counter(match[1].casefold() for match in found if _is_close(match))
    questions = Counter(match[1].casefold() for match in found)
    every = bool(matches) and len(found) == len(matches)
    for name, match in matches:
        question = match[1].casefold() if match else ""
        if match and (
            close[question] > 1
            or (every and (questions[question] > 1 or close.total() == len(found)))
        ):
            _refuse(path, "class", name, match[1])
    for template in templates:
        match = _QUESTION.match(template)
        if match and (_is_close(match) or match[1].casefold() in questions):
            _refuse(path, "template", template, match[1])


def _is_close(match: re.Match[str]) -> bool:
    """Return whether one word is before a colon without a blank, unlike in "at 10:30"."""
    return not match[2] and " " not in match[1]


def refuse_questions_in_json(path: Path, text: str) -> None:
    """Refuse names of questions in a file of prompts by class, which may be nested by set.

    Content of another form is left to its reader.

    Raises
    ------
    UserError
        If a class or a prompt has the name of a question.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return
    tables = [content, *content.values()] if isinstance(content, dict) else []
    for table in tables:
        if isinstance(table, dict):
            prompts = [value for value in table.values() if isinstance(value, list)]
            texts = [one for each in prompts for one in each if isinstance(one, str)]
            refuse_questions(path, list(table), texts)


def _refuse(path: Path, what: str, text: str, question: str) -> None:
    raise UserError(
        f"{path}: the {what} {text[:60]!r} has the name of a question ({question[:30]!r}) before "
        "its colon, as in FairFace and UTKFace: answers to several questions on one image are not "
        "supported. Take the set out of `evaluation_sets`, or write a set of one question, without "
        "such names."
    )


def read_set_samples(shard: Path, label_extension: str) -> Iterator[Sample]:
    """Yield the samples of a shard, in the order of their first members.

    Only plain files are read: images of at most `MAX_MEMBER_BYTES`, others of at most
    `MAX_TEXT_BYTES`. A sample lacks the rest. Of members with the same name the first one counts.

    Parameters
    ----------
    shard : Path
        The tar.
    label_extension : str
        Extension that, with an image, makes a sample complete: ``cls`` or ``txt``.

    Raises
    ------
    TruncatedShardError
        If the shard is damaged; every sample yielded before is whole.
    """
    key = None
    try:
        with Path(shard).open("rb", buffering=BUFFER_BYTES) as opened:
            reader = ShardReader(opened)
            for run in _joined([*reader.runs()]):
                key = run.key
                if run.damage:
                    raise TruncatedShardError(run.key or None, run.damage)
                for candidate in split_run(run, label_extension, lambda key: False):
                    yield _sample(candidate, reader)
    except (BrokenTarError, OSError) as error:
        raise TruncatedShardError(key, str(error)) from error


def _joined(runs: Sequence[AdjacentMembers]) -> Iterator[AdjacentMembers]:
    """Yield runs; those of one key as one, unless a name repeats: then they are other samples."""
    by_key: dict[str, list[AdjacentMembers]] = {}
    for run in runs:
        by_key.setdefault(run.key, []).append(run)
    for run in runs:
        of_key = by_key[run.key]
        names = [member.name.lower() for each in of_key for member in each.members]
        if len(of_key) == 1 or len(set(names)) < len(names) or any(one.damage for one in of_key):
            yield run
        elif run is of_key[0]:
            yield AdjacentMembers(run.key, [member for each in of_key for member in each.members])


def _sample(candidate: Candidate, reader: ShardReader) -> Sample:
    sample = Sample(candidate.key)
    for extension, member in candidate.members:
        limit = MAX_MEMBER_BYTES if extension in IMAGE_EXTENSIONS else MAX_TEXT_BYTES
        if member.is_file and member.size <= limit:
            sample.members.setdefault(extension, reader.read(member))
    return sample
