"""Classes and templates of several questions on one image, which are refused by name.

FairFace's and UTKFace's files of DataComp have the name of a question before each class and each
template, such as ``age:0 to 9``, and the answers in ``KEY.npy``. As classes of one question they
would give an accuracy of zero.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from mispair.core.files import UserError

_QUESTION = re.compile(r"\s*([^\W\d][\w -]{0,30}?)\s*(?!(?<=\d):\d)[:：](\s*)(?!//)\S")
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
