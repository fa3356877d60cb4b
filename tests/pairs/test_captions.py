"""From the bytes of a caption to its text: what is stripped, what is flagged, what is refused."""

import json

import pytest

from mispair.pairs.captions.decoding import (
    check_caption,
    decode_captions,
    describe_caption,
    sidecar_fields,
    sidecar_text,
)
from mispair.pairs.index.faults import Fault, RejectedError
from mispair.pairs.index.policy import Policy


def reason_of(text: str, **policy: object) -> str:
    with pytest.raises(RejectedError) as caught:
        check_caption(text, Policy(**policy))  # type: ignore[arg-type]
    return caught.value.reason


def test_a_byte_order_mark_and_white_space_are_no_part_of_a_caption():
    [decoded] = decode_captions(b"\xef\xbb\xbf \t a caf\xc3\xa9\r\n")
    assert check_caption(decoded, Policy()) == "a caf\u00e9"


@pytest.mark.parametrize("content", [b"caf\xe9", b"\xff\xfea\0", b"\xed\xa0\x80", b"ok \xf0\x9f"])
def test_what_is_not_utf8_is_refused(content):
    with pytest.raises(RejectedError) as caught:
        decode_captions(content)
    assert caught.value.reason == Fault.UNDECODABLE_CAPTION


@pytest.mark.parametrize(("content", "reason"), [
    (b'{"caption": "a cat"', Fault.UNDECODABLE_CAPTION),
    (b"", Fault.UNDECODABLE_CAPTION),
    (b"\xff{}", Fault.UNDECODABLE_CAPTION),
    (b'"caption"', Fault.UNDECODABLE_CAPTION),
    (b'["caption"]', Fault.NO_CAPTION),
    (b"[" * 100_000, Fault.UNDECODABLE_CAPTION),
    (b'{"caption": ' + b"9" * 5_000 + b"}", Fault.UNDECODABLE_CAPTION),
    (b'{"caption": 7}', Fault.UNDECODABLE_CAPTION),
    (b'{"caption": ["a cat", 7]}', Fault.UNDECODABLE_CAPTION),
    (b'{"caption": {"text": "a cat"}}', Fault.UNDECODABLE_CAPTION),
    (b'{"caption": [{"text": "a cat"}]}', Fault.UNDECODABLE_CAPTION),
    (b'{"caption": []}', Fault.NO_CAPTION),
    (b'{"caption": [null]}', Fault.NO_CAPTION),
    (b'{"caption": null}', Fault.NO_CAPTION),
    (b'{"text": "a cat"}', Fault.NO_CAPTION),
])  # fmt: skip
def test_a_json_without_a_caption_says_why(content, reason):
    with pytest.raises(RejectedError) as caught:
        decode_captions(content, "caption")
    assert caught.value.reason == reason


@pytest.mark.parametrize(("content", "field", "is_null"), [
    ({"caption": None}, "caption", True),
    ({"caption": [None]}, "caption", True),
    ({"caption": [None, None], "text": "a"}, "caption", True),
    ({"a": {"caption": None}}, "a.caption", True),
    ({"a": [{"caption": None}, {}]}, "a.caption", True),
    ({"text": "a cat"}, "caption", False),
    ({"caption": []}, "caption", False),
    ({"a": {"text": "a cat"}}, "a.caption", False),
    ({"a": None}, "a.caption", False),
])  # fmt: skip
def test_null_is_told_apart_from_a_field_that_is_missing(content, field, is_null):
    with pytest.raises(RejectedError) as caught:
        decode_captions(json.dumps(content).encode(), field)
    assert ("is null" in caught.value.detail) == is_null
    assert ("is missing or an empty list" in caught.value.detail) != is_null
    assert content != {"text": "a cat"} or "it has the fields 'text'" in caught.value.detail


TURNS = [{"from": "human", "value": "<image> what?"}, {"from": "gpt", "value": "a cup"}]
ROLES = [{"role": turn["from"].replace("gpt", "assistant"), "content": turn["value"]}
         for turn in TURNS]  # fmt: skip


@pytest.mark.parametrize(("content", "field", "captions"), [
    ({"captions": ["a", None, "b"]}, "captions", ["a", "b"]),
    ({"llava": {"caption": "a"}, "caption": "b"}, "llava.caption", ["a"]),
    ({"x": [{"y": "a"}, {"y": "b"}, {}]}, "x.y", ["a", "b"]),
    ({"x": [{"y": "a"}, {"y": "b"}]}, "x.1.y", ["b"]),
    ({"x": {"0": "a"}}, "x.0", ["a"]),
    ({"x.y": "a", "x": {"y": "b"}}, "x.y", ["a"]),
    ({"x": {"y.z": {"w": "a"}}}, "x.y.z.w", ["a"]),
    ({"sentences": [{"raw": "a"}, {"raw": "b"}]}, "sentences.raw", ["a", "b"]),
    (["a", "b"], "", ["a", "b"]),
    ("a", "", ["a"]),
    ({"conversations": TURNS}, "conversations", ["a cup"]),
    ({"x": {"messages": ROLES}}, "x.messages", ["a cup"]),
    ({"conversations": TURNS}, "conversations.gpt", ["a cup"]),
    ({"conversations": TURNS}, "conversations.value", ["<image> what?", "a cup"]),
    ({"captions": '["a", "b"]'}, "captions", ["a", "b"]),  # as a column of a table has it
    ({"captions": ["['a', 'b']", "c"]}, "captions", ["a", "b", "c"]),
])  # fmt: skip
def test_fields_may_be_lists_and_inside_of_others(content, field, captions):
    assert decode_captions(json.dumps(content).encode(), field) == captions


def test_a_text_file_may_hold_a_list():
    assert decode_captions(b'["a cat", "a pet"]\n') == ["a cat", "a pet"]
    assert decode_captions(b"['sic'] a cat") == ["['sic'] a cat"]
    with pytest.raises(RejectedError, match="numpy"):
        decode_captions(b"['a cat' 'a pet']")


@pytest.mark.parametrize(
    ("field", "value"), [("a.b", "u"), ("list", None), ("a", None), ("a.c", None)]
)
def test_a_joining_text_may_be_inside_of_another_field(field, value):
    content = b'{"a": {"b": " u ", "c": 7}, "list": ["u", "v"]}'
    assert sidecar_text(content, field) == value


def test_a_lone_surrogate_is_refused_and_a_pair_of_them_is_one_character():
    [lone] = decode_captions(rb'{"caption": "a \ud83d cat"}', "caption")
    assert reason_of(lone) == Fault.UNDECODABLE_CAPTION
    [pair] = decode_captions(rb'{"caption": "a \ud83d\ude00 cat"}', "caption")
    assert check_caption(pair, Policy()) == "a \U0001f600 cat"


@pytest.mark.parametrize("character", ["\0", "\x07", "\x0b", "\x1b", "\x7f", "\x85", "\x9f"])
def test_control_characters_are_refused_wherever_they_stand_or_kept_and_flagged(character):
    for text in (f"{character}a cat", f"a{character}cat", f"a cat{character}"):
        assert reason_of(text) == Fault.CONTROL_CHARACTERS
    kept = check_caption(f"a{character}cat", Policy(control_characters="keep"))
    assert kept == f"a{character}cat"
    assert describe_caption(kept)["control"]


def test_tab_newline_and_return_are_white_space():
    text = check_caption("a\tblack\ncat\r\n", Policy())
    assert text == "a\tblack\ncat"
    assert describe_caption(text) == {
        "words": 3, "characters": 11, "person": False, "non_ascii": False, "control": False,
    }  # fmt: skip


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u200f", "\u200b", "\u00ad", "\ufeff"])
def test_bidirectional_and_format_characters_are_kept_and_flagged(mark):
    text = check_caption(f"a {mark}cat", Policy())
    assert text == f"a {mark}cat"
    assert describe_caption(text)["control"]


def test_letters_of_other_scripts_are_no_control_characters():
    for text in (
        "\u0645\u0631\u062d\u0628\u0627",
        "\u732b\u3000\u72ac",
        "caf\u00e9 \u2014 na\u00efve",
    ):
        described = describe_caption(check_caption(text, Policy()))
        assert described["non_ascii"]
        assert not described["control"]


@pytest.mark.parametrize(
    "text", ["", " \n\t", "\u200b\u200b", "\ufeff \u202e", "\u3164", "\u115f \u1160", "\uffa0",
             "\u2800\u2800", "\u034f\ufe0f", "\U000e0100", "\u17b4", "\u180b"],
)  # fmt: skip
def test_empty_captions_are_refused_or_kept(text):
    assert reason_of(text) == Fault.EMPTY_CAPTION
    assert check_caption(text, Policy(empty_captions="keep")) == text.strip()


def test_length_limits_count_words_and_characters_after_stripping():
    text = "  one two three  "
    assert check_caption(text, Policy(min_words=3, max_words=3, max_characters=13))
    assert reason_of(text, min_words=4) == Fault.CAPTION_LENGTH
    assert reason_of(text, max_words=2) == Fault.CAPTION_LENGTH
    assert reason_of(text, max_characters=12) == Fault.CAPTION_LENGTH


@pytest.mark.parametrize(("text", "words"), [
    ("桌子上有一个圆形。", 8), ("红色的 mug, ok", 5), ("ネコ と犬", 4), ("แมว", 3),
    ("ein — Café", 3), ("चित्र में बिल्ली", 3), ("ឆ្មា នៅ", 2), ("ပွဲကြောင်", 3),
    ("cafe\u0301 红", 2), ("고양이 두 마리", 3),
    ("кот и пёс", 3), ("قطة حمراء", 2),
])  # fmt: skip
def test_letters_of_scripts_without_blanks_are_words(text, words):
    assert describe_caption(text)["words"] == words
    assert check_caption(text, Policy(min_words=words, max_words=words)) == text


def test_person_is_flagged_as_conceptual_12m_writes_it():
    assert describe_caption("portrait of <PERSON>.")["person"]
    assert not describe_caption("portrait of a person")["person"]


def test_a_sidecar_gives_strings_only():
    content = json.dumps({"url": "https://x/\u00e9", "status": "success", "sha256": 12}).encode()
    assert sidecar_fields(content) == {
        "url": "https://x/\u00e9", "status": "success", "sha256": None, "licence": None,
        "uid": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000, rb'{"url": "\ud800"}',
     json.dumps({"url": "x" * 100_000}).encode()],
)  # fmt: skip
def test_a_broken_sidecar_has_nothing_to_say(content):
    assert set(sidecar_fields(content).values()) == {None}


@pytest.mark.parametrize("name", ["licence", "license", "LICENSE"])
def test_a_sidecar_names_licence_and_maker(name):
    content = {name: "CC-BY-4.0", "attribution": "Twemoji"}
    assert sidecar_fields(json.dumps(content).encode())["licence"] == "CC-BY-4.0: Twemoji"
    assert sidecar_fields(json.dumps({name: "MIT"}).encode())["licence"] == "MIT"
    assert sidecar_fields(b'{"attribution": "Twemoji"}')["licence"] is None
