"""Checks of texts, what suspicious pairs share, and groups."""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mispair.audit.captions import SCRIPT, scripts_of
from mispair.audit.report.claims import numbers, unequal_groups
from mispair.audit.report.pages import PAGES, SUSPECTS, audit
from mispair.audit.results import suspect_rows, suspects
from mispair.audit.selection import group_rows
from mispair.audit.text_checks import LABELS, MANY_PAIRS, check_rows, checked
from mispair.report import texts
from mispair.report.tables import Tables, tidy
from mispair.report.texts import Note

COLOURS = ("red", "green", "blue", "yellow", "white", "black")
THINGS = ("dog", "cat", "ball", "child", "car", "boat", "bird", "table")
PLACES = ("in the snow", "on the beach", "near a small wall", "under an old lamp", "at night")


def sentence(draw: random.Random, end: str = "") -> str:
    two = (f"{draw.choice(('a', 'the', 'one'))} {draw.choice(COLOURS)} {draw.choice(THINGS)}"
           for _ in range(2))  # fmt: skip
    first, second = two
    middle = draw.choice(("is running with", "jumps over", "plays next to", "sits on"))
    more = "".join(f" {draw.choice(PLACES)}" for _ in range(draw.randint(1, 3)))
    return f"{first} {middle} {second}{more}{end}"


def names_of(texts: list[str], pairs: int = 1) -> list[str]:
    return checked(pa.array(texts, pa.large_string()), np.full(len(texts), pairs)).tolist()


@pytest.mark.parametrize(
    ("name", "texts"),
    {
        "file name": ("IMG_2034.JPG", "DSC00123", "red_dog_beach", "my dog.png", r"C:\a\b",
                      "DSC 12", "/home/me/pictures/dog", "photos/2019/beach", "brown-dog-running-2",
                      "WhatsApp Image 2019-03-02 at 11.22.33", "File:Red dog.svg", "写真_01.jpg"),
        "address": ("https://x.com/a.jpg", "www.example.org", "flickr.com", "me@mail.example.com",
                    "see http://a.b/c", "//cdn.example.net/x.png"),
        "placeholder": ("untitled", "Null", "image", "N/A", "Untitled 3", "photo",
                        "Photo 3 of 12", "No caption", "ohne Titel", "图片", "[image]",
                        "sans titre", "A photo."),
        "no words": ("12345", "12-34/5", "B07XYZ1234", "© ®", "#dog #beach #sun", "😀 😀 😀",
                     "3f2a9c"),
        "markup": ("a <b>red</b> dog runs here", "Tom &amp; Jerry play outside",
                   '{"caption": "a red dog runs"}', "[[a dog]] that runs here",
                   "b'a red dog runs here'", 'b"a dog\'s red ball"', "a cafÃ© by the sea here",
                   "the dogâ€™s red ball here", "a caf\ufffd by the sea here",
                   "\\u0441\\u043e\\u0431\\u0430 runs"),
        "short": ("a dog", "Dog", "Hund!", "一只狗", "собака", "图1", "หมา"),
        "cut off": ("a dog runs over ...", "a dog runs over…", "a dog with a", "ein Hund und",
                    "a red dog, a blue cat,", "a dog (running"),
        "": ("A dog runs on the beach .", "mother-in-law at the beach", "桌子上有一个红色的圆形",
             "2017年の東京オリンピック", "สุนัขวิ่งเล่นบนชายหาดกับเด็ก", "two dogs in Portland, OR",
             "caption number 17", "black and white photo", "собака бежит по снегу",
             "3 dogs & 2 cats",
             "GRANDE ÂNCORA E CORAÇÃO NA PRAIA", "b is a letter in 'a word' here",
             "a dog on the beach https://t.co/abc", "he turned 50% faster than 10%"),
    }.items(),
)  # fmt: skip
def test_each_check_finds_its_texts(name: str, texts: tuple[str, ...]) -> None:
    assert dict(zip(texts, names_of([*texts]), strict=True)) == dict.fromkeys(texts, name)


@pytest.mark.parametrize("end", ["", ".", " ."])
@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize(("kind", "length"), [("words", 3), ("words", 6), ("letters", 17),
                                              ("letters", 30)])  # fmt: skip
def test_texts_that_end_at_one_length_are_cut_off(end, share, kind, length) -> None:
    draw = random.Random(3)
    texts = [sentence(draw, end) for _ in range(3000)]
    chosen = [draw.random() < share for _ in texts]
    cut = [
        (" ".join(text.split()[:length]) if kind == "words" else text[:length]) if one else text
        for text, one in zip(texts, chosen, strict=True)
    ]
    distinct, of_pair = np.unique(np.array(cut, object), return_inverse=True)
    names = checked(pa.array(distinct.tolist(), pa.large_string()), np.bincount(of_pair))[of_pair]
    wrong = np.array(chosen)
    assert (names[wrong] != "").mean() > 0.7
    assert (names[~wrong] == "cut off").mean() < 0.02


@pytest.mark.parametrize("made", [
    lambda draw, n: f"a photo of a {draw.choice(COLOURS)} {draw.choice(THINGS)}",
    lambda draw, n: f"a {draw.choice(COLOURS)} {draw.choice(THINGS)} number {n:05d}",
    lambda draw, n: f"portrait of {draw.choice('ABC')}{''.join(draw.choices('aeioulmn', k=6))}",
    lambda draw, n: sentence(draw),
    lambda draw, n: sentence(draw, " ."),
])  # fmt: skip
def test_whole_texts_are_not_cut_off(made: Any) -> None:
    draw = random.Random(1)
    texts = [*{made(draw, number) for number in range(1500)}]
    assert "cut off" not in names_of(texts)


def test_texts_of_many_pairs_are_counted_with_examples() -> None:
    texts = pa.array(["a red dog runs", "A red dog runs!", "a cat sleeps here", "x" * 500])
    pairs = np.array([MANY_PAIRS - 1, 1, 1, 1])
    names = checked(texts, pairs)
    assert names.tolist() == ["repeated", "repeated", "", "short"]
    rows = check_rows(texts, pairs, names)
    counts = {row["word"]: row["value"] for row in rows if row["metric"] == "text_check"}
    assert counts == {**dict.fromkeys(LABELS, 0), "repeated": MANY_PAIRS, "short": 1}
    examples = [row["text"] for row in rows if row["metric"] == "text_example"]
    assert examples[:1] + examples[1:2] == ["x" * 59 + "…", "a red dog runs"]
    assert check_rows(pa.array(["<a\nb\u202e"]), np.ones(1, int), np.array(["short"], object))


@pytest.mark.parametrize(
    ("captions", "kind", "text"),
    [
        ([f"a photo of a {THINGS[n % 5]}" for n in range(600)], "text", "a photo of a dog"),
        ([f"{COLOURS[n % 6]} {THINGS[n % 5]} {n}" for n in range(600)], "word", "dog"),
        ([f"{n}号{'圆方三长星'[n % 5]}形的图" for n in range(600)], "word", "圆形"),
        ([f"a photo {n} of a dog" for n in range(600)], "", ""),
    ],
)
def test_what_nearly_all_suspicious_pairs_share_is_named(captions, kind, text) -> None:
    distinct, of_pair = np.unique(np.array(captions, object), return_inverse=True)
    unknown = np.arange(600) % 5 == 0
    chance = np.where(unknown, 0.9, 0.01)
    suspected = suspects(chance, -chance)
    assert len(suspected) == round(chance.sum())
    rows = suspect_rows(pa.array(distinct.tolist(), pa.large_string()), of_pair, suspected)
    rate = {"metric": "wrong_captions", "value": 0.2, "low": 0.1, "high": 0.3}
    tables = Tables({"audit": tidy("audit", [*rows, rate])})
    shared = numbers(tables)["shared"]
    content = SimpleNamespace(tables=tables, pieces={}, failed={})
    on_page = PAGES.pieces(content)[SUSPECTS].text
    assert (f"“{shared['text']}”" in on_page) if kind else "“" not in on_page
    named = {row["text"] for row in rows if row["metric"] == f"suspect_{kind}"}
    assert (shared["kind"] == kind and text in named) if kind else shared is None
    if shared:
        assert shared["letters"] == (not shared["text"].isascii())
        counted, refused = (
            texts.text(Note("audit", "suspects_share", s=shared, rate=rate)) for rate in (0.1, None)
        )
        assert "share of wrong captions" in counted
        assert "share of wrong captions" not in refused


def test_what_the_first_pairs_share_is_named_where_others_differ() -> None:
    captions = [f"a photo of a {THINGS[n % 5]} number {n}" for n in range(600)]
    chance = np.where(np.arange(600) < 60, 0.9, 0.3 * (np.arange(600) % 3 > 0))
    chance[np.arange(600) % 5 == 0] += 0.1
    suspected = suspects(chance, -chance)
    rows = [
        row for number in (len(suspected), 12)
        for row in suspect_rows(pa.array(captions), np.arange(600), suspected[:number])
    ]  # fmt: skip
    shared = numbers(Tables({"audit": tidy("audit", rows)}))["shared"]
    assert (shared["text"], shared["n"]) == ("dog", 12)


def test_without_probabilities_the_least_similar_pairs_are_suspicious() -> None:
    assert suspects(np.full(50, np.nan), np.arange(50.0)).tolist() == [*range(12)]


def test_scripts_are_told_apart() -> None:
    texts = ["a dog", "ein Hündchen", "собака", "犬が走る", "一只狗", "개가 달린다", "كلب أحمر",
             "12", "कुत्ता", "σκύλος", "a dog 狗", "ⴰⵢⴷⵉ"]  # fmt: skip
    assert scripts_of(pa.array(texts)).tolist() == [
        "Latin", "Latin", "Cyrillic", "Japanese", "Han", "Hangul", "Arabic", "no letters",
        "Devanagari", "Greek", "Latin", "another",
    ]  # fmt: skip


def test_a_group_that_loses_more_right_captions_is_named() -> None:
    n = 1000
    other = np.arange(n) % 2 == 0
    chance = np.where(other & (np.arange(n) % 3 == 0), 0.6, 0.02)
    table = pd.DataFrame(
        {"key": [f"k{i}" for i in range(n)], "probability": chance, "p_value": chance / 2,
         SCRIPT: np.where(other, "Han", "Latin")}
    )  # fmt: skip
    rows = group_rows(table, chance >= 0.5)
    assert {row["word"] for row in rows} == {"script"}
    values = pd.DataFrame(rows).pivot_table(index="text", columns="metric", values="value")
    assert values.loc["Han", "group_removed"] == pytest.approx(1 / 3, abs=0.01)
    assert values.loc["Latin", "group_right_lost"] == 0
    unequal = unequal_groups(values)
    assert unequal is not None
    assert unequal["name"] == "Han"
    assert unequal_groups(values.assign(group_right_lost=0.02)) is None
    printed = audit(Tables({"audit": tidy("audit", rows)}), 0.95)
    (by_script,) = (table for table in printed if "script" in table.heads)
    assert by_script.warning
    # The source is the beginning of the key; small groups are one.
    table["key"] = [f"{'abc'[min(i % 50, 2)]}/{i}" for i in range(n)]
    found = group_rows(table.drop(columns=SCRIPT), chance >= 0.5)
    sizes = {row["text"]: row["value"] for row in found if row["metric"] == "group_pairs"}
    assert sizes == {"a": 20, "b": 20, "c": 960}
    assert group_rows(table.assign(key="k").drop(columns=SCRIPT), chance >= 0.5) == []
