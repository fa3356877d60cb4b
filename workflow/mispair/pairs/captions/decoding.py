"""Decode the bytes of a caption as text, and give the reason if they are not text."""

import ast
import io
import json
import re
import tokenize
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

from mispair.pairs.captions.scripts import count_words, is_blank
from mispair.pairs.index.faults import Fault, RejectedError
from mispair.pairs.index.policy import Policy
from mispair.pairs.shards.shards import is_encodable

PERSON = "<PERSON>"
"""Placeholder of Conceptual 12M for names."""
SIDECAR_FIELDS = ("url", "status", "sha256", "licence", "uid")
LICENCE_NAMES = ("licence", "license", "LICENSE")
MAX_SIDECAR_TEXT = 8_192
"""Characters; a longer url or status is dropped, not cut: a cut url leads elsewhere."""

MOST_NAMES = 8
"""Fields of an object that a message names."""

_LAST_NUMBER = re.compile(r"[\s_-]*[0-9]+$")
LINE_END = re.compile("\r\n|[\r\n]")
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Unicode's category Cc without tab, newline and return."""


def decode_captions(content: bytes, field: str | None = None) -> list[str]:
    r"""Decode a caption file: the text itself, or the texts under a field of its JSON.

    Each text may be several, as `listed_texts` returns them.

    Parameters
    ----------
    content : bytes
        Content of the file.
    field : str, optional
        Dotted path in the JSON, as for `values_at`; "" for the whole JSON, None for a text file.

    Examples
    --------
    >>> decode_captions("\ufeffa café\n".encode()), decode_captions(b'{"alt": "a cat"}', "alt")
    (['a café\n'], ['a cat'])
    >>> decode_captions(b'{"llava": {"captions": ["a cat", "a pet"]}}', "llava.captions")
    ['a cat', 'a pet']

    Raises
    ------
    RejectedError
        If the bytes are not UTF-8 or not JSON, or the field is missing or holds other than texts.
    """
    if field is None:
        try:
            return _listed([content.decode("utf-8-sig")])
        except UnicodeDecodeError as error:
            raise RejectedError(
                Fault.UNDECODABLE_CAPTION, f"is not UTF-8: {error.reason}"
            ) from error
    try:
        parsed = _json(content)
        if field and not isinstance(parsed, dict | list):
            raise ValueError("is no object")
    except ValueError as error:
        raise RejectedError(
            Fault.UNDECODABLE_CAPTION, f"its json cannot be read: {error}"
        ) from error
    name = f"field {field!r} of its json" if field else "its json"
    values = values_at(parsed, field)
    texts = [value for value in values if value is not None]
    if not texts:
        has = f"; it has {_names(parsed)}" if isinstance(parsed, dict) else ""
        lacks = f"{name} is {'null' if values else 'missing or an empty list'}"
        raise RejectedError(Fault.NO_CAPTION, lacks + has)
    for value in texts:
        if isinstance(value, dict):
            path = f"json:{field}." if field else "json:"
            raise RejectedError(
                Fault.UNDECODABLE_CAPTION,
                f"{name} is an object with {_names(value)}: name one, as in {path}FIELD",
            )
        if not isinstance(value, str):
            raise RejectedError(
                Fault.UNDECODABLE_CAPTION, f"{name} is {type(value).__name__}, not text"
            )
    return _listed(texts)


def _listed(texts: list[str]) -> list[str]:
    try:
        return [text for every in texts for text in listed_texts(every)]
    except ValueError as error:
        raise RejectedError(Fault.UNDECODABLE_CAPTION, f"is {error}") from error


def listed_texts(text: str) -> list[str]:
    """Return the texts of a list in the notation of JSON or Python, or the text if it is none.

    Lists in the list are part of it, and null is left out. numpy writes lists without commas, which
    Python reads as one long text: a ValueError.

    Examples
    --------
    >>> listed_texts('["a cat", "a pet"]'), listed_texts("a cat"), listed_texts("['sic'] a cat")
    (['a cat', 'a pet'], ['a cat'], ["['sic'] a cat"])
    >>> listed_texts('[["a cat"], null, ["a pet"]]'), listed_texts("('a cat', 'a pet')")
    (['a cat', 'a pet'], ['a cat', 'a pet'])
    """
    bare = text.strip()
    if not _LISTED.match(bare) or bare[-1] not in "])":
        return [text]
    readers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)
    for read in readers:
        try:
            found = read(bare)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        texts = _flat(found)
        if not isinstance(found, list | tuple) or not all(isinstance(t, str) for t in texts):
            continue
        if read is ast.literal_eval and str(found) != bare and _has_adjacent_texts(bare):
            raise ValueError("a list without commas, as numpy prints it")
        return texts or [text]
    return [text]


_LISTED = re.compile(r"""[\[(]\s*(\[|["']|null\b|None\b)""")
"""Beginning of a list of texts in the notation of JSON or Python."""


def _has_adjacent_texts(code: str) -> bool:
    """Return whether a text in Python's notation follows another without a comma."""
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    kinds = [token.type for token in tokens if token.type != tokenize.NL]
    return any(pair == (tokenize.STRING, tokenize.STRING) for pair in pairwise(kinds))


def _flat(node: Any) -> list[Any]:
    """Return the items of lists in lists, without null."""
    if isinstance(node, list | tuple):
        return [item for each in node for item in _flat(each)]
    return [] if node is None else [node]


def values_at(node: Any, path: str) -> list[Any]:
    """Return the values to which a dotted path leads in parsed JSON; empty if it leads nowhere.

    A list gives the values of all its members, or of one if the path has its number, and the turns
    of a conversation its first answer. A name may have dots: the longest name that an object has is
    taken. ``caption*`` is `numbered`.

    Examples
    --------
    >>> values_at({"a": {"b": [{"c": 1}, {"c": 2}]}}, "a.b.c"), values_at({"a.b": 1}, "a.b")
    ([1, 2], [1])
    >>> values_at({"a": ["x", "y"]}, "a"), values_at({"a": ["x", "y"]}, "a.1")
    (['x', 'y'], ['y'])
    """
    return [
        value
        for found in _found(node, path)
        for value in (found if isinstance(found, list) else [found])
    ]


TURNS = (("from", "value", "gpt"), ("role", "content", "assistant"))
"""Fields of a turn in a conversation, and who gives the answers; the first is the caption."""
ANSWER = "gpt"
"""Name of the first answer in a conversation, as if it were a field."""


def turns_in(names: Any) -> tuple[str, str, str] | None:
    """Return which of `TURNS` an object is, by its fields; None for anything else."""
    has = {*names} if isinstance(names, Iterable) else set()
    return next((turn for turn in TURNS if has >= {*turn[:2]}), None)


def answer_in(turns: Sequence[Any]) -> Any:
    """Return the first answer in the turns of a conversation, or None.

    Its content may be a list of parts, of which the texts count.

    Examples
    --------
    >>> answer_in([{"from": "human", "value": "?"}, {"from": "gpt", "value": "a cup"}])
    'a cup'
    >>> answer_in([{"role": "assistant", "content": [{"type": "text", "text": "a cup"}]}])
    'a cup'
    """
    who, what, answering = turns_in(turns[0]) or TURNS[0]
    answers = (turn[what] for turn in turns if turns_in(turn) and turn[who] == answering)
    answer = next(answers, None)
    if isinstance(answer, list) and all(isinstance(part, dict) for part in answer):
        return "\n".join(part["text"] for part in answer if part.get("text")) or None
    return answer


def numbered(has: Sequence[str]) -> dict[str, list[str]]:
    """Return fields or columns that differ by a number at their end, or have none, by their name.

    Examples
    --------
    >>> numbered(["image", "caption_0", "caption_1"]), numbered(["text", "text 2", "id1"])
    ({'caption*': ['caption_0', 'caption_1']}, {'text*': ['text', 'text 2']})
    """
    groups: dict[str, list[str]] = {}
    for column in has:
        groups.setdefault(_LAST_NUMBER.sub("", column) + "*", []).append(column)
    return {name: columns for name, columns in groups.items() if len({*columns}) > 1}


def value_at(node: Any, path: str) -> Any:
    """Return the one value to which a dotted path leads; None if it leads to none, or to several.

    Examples
    --------
    >>> value_at({"a": {"b": 1}}, "a.b"), value_at({"a": [1]}, "a"), value_at({"a": 1}, "b")
    (1, [1], None)
    """
    values = _found(node, path)
    return values[0] if len(values) == 1 else None


def _found(node: Any, path: str) -> list[Any]:
    """Return what is at a path; a list on the way gives what is in each of its members."""
    if path in ("", ANSWER) and isinstance(node, list) and node and turns_in(node[0]):
        return [answer_in(node)]
    if not path:
        return [node]
    names = path.split(".")
    if isinstance(node, list):
        if names[0].isdecimal():
            chosen = node[int(names[0][:9]) :][:1]
            return [value for member in chosen for value in _found(member, ".".join(names[1:]))]
        return [value for member in node for value in _found(member, path)]
    if isinstance(node, dict):
        for length in range(len(names), 0, -1):
            if (name := ".".join(names[:length])) in node:
                return _found(node[name], ".".join(names[length:]))
        if names[0].endswith("*"):
            several = numbered([*node]).get(names[0], ())
            return [value for name in several for value in _found(node[name], ".".join(names[1:]))]
    return []


def _names(record: dict[str, Any]) -> str:
    """Return the first names of an object's fields, for a message."""
    names = ", ".join(map(repr, list(record)[:MOST_NAMES]))
    more = f" and {len(record) - MOST_NAMES} more" * (len(record) > MOST_NAMES)
    return f"the fields {names}{more}" if names else "no field"


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text that are not blank; a blank text is one line.

    Examples
    --------
    >>> split_lines("a cat\r\n\na pet\n"), split_lines(" ")
    (['a cat', 'a pet'], [' '])
    """
    return [line for line in LINE_END.split(text) if line.strip()] or [text]


def check_caption(text: str, policy: Policy) -> str:
    """Return the caption without white space around it, if the policy accepts it.

    Raises
    ------
    RejectedError
        If it cannot be written as UTF-8, has control characters, is empty, or has a length outside
        the limits.
    """
    if len(text) > policy.max_caption_bytes:  # from a table: others were refused unread
        raise RejectedError(
            Fault.CAPTION_LENGTH,
            f"{len(text)} characters, over the limit of {policy.max_caption_bytes}",
        )
    if not is_encodable(text):
        raise RejectedError(
            Fault.UNDECODABLE_CAPTION, "has a lone surrogate, which is no character"
        )
    if policy.control_characters == "quarantine" and (control := CONTROL.search(text)):
        raise RejectedError(Fault.CONTROL_CHARACTERS, f"has U+{ord(control.group()):04X}")
    text = text.strip()
    if policy.empty_captions == "quarantine" and is_blank(text):
        raise RejectedError(Fault.EMPTY_CAPTION, "it has no visible character" if text else "")
    word_count = count_words(text)
    if word_count < policy.min_words:
        raise RejectedError(
            Fault.CAPTION_LENGTH, f"{word_count} words, fewer than {policy.min_words}"
        )
    if policy.max_words is not None and word_count > policy.max_words:
        raise RejectedError(
            Fault.CAPTION_LENGTH, f"{word_count} words, more than {policy.max_words}"
        )
    if policy.max_characters is not None and len(text) > policy.max_characters:
        raise RejectedError(
            Fault.CAPTION_LENGTH, f"{len(text)} characters, more than {policy.max_characters}"
        )
    return text


def describe_caption(text: str) -> dict[str, Any]:
    r"""Count words and characters of a caption, and flag what troubles tokenizers and readers.

    Returns
    -------
    dict
        words, characters (Unicode code points), person (has ``<PERSON>``), non_ascii, control
        (bidirectional or other format characters, or control characters that the policy keeps).

    Examples
    --------
    >>> describe_caption("<PERSON> in a caf\u00e9")
    {'words': 4, 'characters': 18, 'person': True, 'non_ascii': True, 'control': False}
    """
    return {
        "words": count_words(text),
        "characters": len(text),
        "person": PERSON in text,
        "non_ascii": not text.isascii(),
        "control": not text.isprintable() and any(map(_is_format_or_control, text)),
    }


def sidecar_fields(content: bytes) -> dict[str, str | None]:
    """Return url, status, sha256, licence and uid of a sample's json; None where there is no text.

    The licence is under ``licence``, ``license`` or, as in LAION's tables, ``LICENSE``; what is
    under ``attribution`` follows it.
    """
    try:
        parsed = parse_json(content)
    except ValueError:
        parsed = {}
    fields = {name: _short_text(parsed.get(name)) for name in SIDECAR_FIELDS}
    named = (_short_text(parsed.get(name)) for name in LICENCE_NAMES)
    licence, maker = next(filter(None, named), None), _short_text(parsed.get("attribution"))
    return fields | {"licence": ": ".join([licence, *filter(None, [maker])]) if licence else None}


def sidecar_text(content: bytes, field: str) -> str | None:
    r"""Return a text of img2dataset's JSON without white space around it; None if there is none.

    Examples
    --------
    >>> sidecar_text(b'{"url": "http://a/1.jpg\\n", "width": 3}', "url")
    'http://a/1.jpg'
    >>> sidecar_text(b'{"url": " ", "width": 3}', "width") is None
    True
    """
    try:
        value = value_at(parse_json(content), field)
    except ValueError:
        return None
    return (_short_text(value) or "").strip() or None


def parse_json(content: bytes) -> dict[str, Any]:
    """Parse a JSON object.

    Raises
    ------
    ValueError
        If its encoding or syntax is wrong, it is nested too deeply, or it is no object.
    """
    parsed = _json(content)
    if not isinstance(parsed, dict):
        raise ValueError("is no object")
    return parsed


def fault_of_json(content: bytes) -> str:
    """Return why bytes are no JSON object, or nothing if they are one."""
    try:
        parse_json(content)
    except ValueError as error:
        return str(error)
    return ""


def text_fields(node: Any) -> list[str]:
    """Return the fields of parsed JSON that hold a text or a list of texts (``meta.caption``).

    A list of objects has the fields of all of them, and a conversation its answer.

    Examples
    --------
    >>> text_fields({"id": 1, "text": "a", "meta": {"captions": ["a"], "sizes": [1]}})
    ['text', 'meta.captions']
    >>> text_fields({"sentences": [{"raw": "a"}, {"raw": "b"}]})
    ['sentences.raw']
    >>> text_fields({"talk": [{"from": "human", "value": "?"}, {"from": "gpt", "value": "x"}]})
    ['talk.gpt']
    """
    objects = {"": node} if isinstance(node, dict) else {}
    fields = []
    while objects:
        start, inside = objects.popitem()
        for name, cell in inside.items():
            if isinstance(cell, list) and cell and turns_in(cell[0]):
                cell = {ANSWER: answer_in(cell)}
            if isinstance(cell, list) and cell and all(isinstance(one, dict) for one in cell):
                cell = {key: value for one in cell for key, value in one.items()}
            if isinstance(cell, dict):
                objects[f"{start}{name}."] = cell
            elif isinstance(cell, str) or (
                isinstance(cell, list) and all(isinstance(one, str) for one in cell[:1])
            ):
                fields.append(start + name)
    return fields


def read_json(text: str) -> Any:
    """Parse JSON with NaN as null; a name that is twice in an object has the list of its values.

    Raises
    ------
    ValueError
        If its syntax is wrong, or it is nested too deeply.

    Examples
    --------
    >>> read_json('{"a": "x", "a": ["y", "z"], "b": NaN, "b": null}')
    {'a': ['x', 'y', 'z'], 'b': None}
    """
    try:
        return json.loads(text, parse_constant=lambda _: None, object_pairs_hook=_object)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    for name in content if len(content) < len(pairs) else ():
        values = [value for one, value in pairs if one == name]
        if any(value != values[0] for value in values):
            lists = [value if isinstance(value, list) else [value] for value in values]
            content[name] = [item for items in lists for item in items]
    return content


def _json(content: bytes) -> Any:
    try:
        return read_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8: {error.reason}") from error


def _short_text(value: object) -> str | None:
    usable = isinstance(value, str) and len(value) <= MAX_SIDECAR_TEXT and is_encodable(value)
    return str(value) if usable else None


def _is_format_or_control(character: str) -> bool:
    return character not in "\t\n\r" and unicodedata.category(character) in ("Cc", "Cf")
