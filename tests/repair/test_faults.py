"""What makes a caption unusable."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mispair.core.files import UserError
from mispair.repair.captioners import faults
from mispair.repair.captioners.faults import (
    Caption,
    Draft,
    check,
    clean,
    refuse_same_for_many,
    repeats_itself,
)

DRAFTS = {
    None: (
        "a red star", "a red star, a red ring and a red", "very, very large", "une étoile rouge",
        "red star", "3 dogs", "赤い星", "妈妈和红色的杯子", "빨간 별",
    ),
    faults.TOO_SHORT: (
        "A", "A.", "has.", "ocean .", "in the", "There is a...", "Звезда", "- a -", "고양이", "قطة",
        "बिल्ली",
    ),
    faults.EMPTY: ("", " \n\t ", "\x00\x1b\u2028", "...", "\udcff"),
    faults.REPEATS_ITSELF: (
        "a a a", "a cat, on a mat. On a mat, on a mat", "红色的红色的红色的红色的",
        "赤い、赤い、赤い。", "ดอกไม้ดอกไม้ดอกไม้",
    ),
    faults.TOO_LONG: (
        "红色的杯子和红色的盘子", "one two three four five six seven eight nine ten eleven",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("draft", "reason"),
    [*((Draft(text), reason) for reason, texts in DRAFTS.items() for text in texts),
     (Draft("a a a", is_cut=True), faults.REPEATS_ITSELF),
     (Draft("a red", is_cut=True), faults.CUT_OFF)],
)  # fmt: skip
def test_reasons(draft: Draft, reason: str | None) -> None:
    assert check(draft, 10).reason == reason


@given(st.text(alphabet=st.characters()))
def test_a_clean_text_can_be_written_anywhere(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()  # no halves of characters
    assert not {unicodedata.category(c) for c in cleaned} & {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert clean(cleaned) == cleaned == " ".join(cleaned.split())
    if text.isascii() and text.isprintable():
        assert cleaned.split() == text.split()


@given(st.lists(st.sampled_from("abc"), max_size=14))
def test_repetition_is_three_copies_in_a_row(words: list[str]) -> None:
    text = "".join(words)
    assert repeats_itself(words) == bool(re.search(r"(.+)\1\1", text))


def test_a_caption_that_many_pictures_have() -> None:
    captions = [Caption("A dog")] * 11 + [Caption("a dog")] * 10 + [Caption("a cat")] * 20
    captions += [Caption(f"thing {n}") for n in range(59)] + [Caption("a dog", faults.CUT_OFF)]
    refused = refuse_same_for_many(captions, 0.2)
    assert [c.reason for c in refused[:21]] == [faults.SAME_FOR_MANY] * 21
    assert refused[21:] == captions[21:]
    assert refuse_same_for_many(captions, 0.25) == captions


def test_few_pictures_may_all_have_one_caption() -> None:
    captions = [Caption("a dog")] * faults.FEWEST_ALIKE
    assert refuse_same_for_many(captions, 0.01) == captions
    assert refuse_same_for_many([*captions, captions[0]], 0.01)[0].reason == faults.SAME_FOR_MANY


def test_single_words_are_a_choice() -> None:
    assert check(Draft("dog"), 10, 1).reason is None
    assert check(Draft("two dogs"), 10, 3).reason == faults.TOO_SHORT


@pytest.mark.parametrize("reason", sorted({*faults.REASONS} - {faults.NOT_BETTER}))
def test_a_captioner_of_which_nothing_is_usable_is_refused(reason: str) -> None:
    captions = [Caption("a <b>odd</b> one " * 9, reason)] * 3
    with pytest.raises(UserError, match=rf"none of|any of 3 pictures \({reason} 3") as raised:
        faults.refuse_all_unusable(captions, "mine:loops")
    assert "mine:loops" in str(raised.value)
    assert len(str(raised.value)) < 400
    faults.refuse_all_unusable([*captions, Caption("a dog")], "mine:loops")
    faults.refuse_all_unusable([Caption("", faults.NOT_BETTER)] * 3, "trained")
    faults.refuse_all_unusable([], "trained")
