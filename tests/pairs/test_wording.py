"""Rewording: exactly the intended features or words go, and the rest stays word for word."""

import hashlib
import math
import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from mispair.core import seeds
from mispair.pairs.captions.scripts import pieces
from mispair.pairs.corruption.draws import Draws, streams, uniforms
from mispair.pairs.corruption.pairing import sample
from mispair.pairs.corruption.rewording import leave_out_words, reword_features, rewrite
from mispair.pairs.neighbours.tfidf import tfidf_similarities
from mispair.pairs.scenes.scene_captions import (
    FEATURES,
    VOCABULARY,
    find_mentions,
    read_caption,
    spurious_partners,
    write_caption,
)
from mispair.pairs.scenes.scenes import misdescribed, training_scene

PARTNERS = spurious_partners(0)
ABSENT = dict.fromkeys(FEATURES)


def _sentences(count, quality="both"):
    captions = []
    for number in range(count):
        draws = Draws(seeds.generator("wording", number))
        scene = training_scene(draws)
        if quality == "low" or (quality == "both" and number % 2):
            scene = misdescribed(scene, draws, 0.4, PARTNERS)
        captions.append(write_caption(scene.objects, scene.whole, draws))
    return captions


CHINESE = [
    "桌子上有一个红色的圆形，编号3", "海边有一只 cat 和 two dogs", "แมวสีแดง",
    "ネコが2匹います", "แมวสีแดงนั่งอยู่บนโต๊ะ",
    "ແມວສີແດງນັ່ງຢູ່ເທິງໂຕະ", "ឆ្មាក្រហមនៅលើតុ", "ကြောင်နီစားပွဲပေါ်မှာ",
]  # fmt: skip


def test_letters_of_scripts_without_blanks_are_left_out():
    done = leave_out_words(CHINESE, _starts(len(CHINESE)), 0.5)
    for old, new in zip(CHINESE, done.captions, strict=True):
        assert 0 < len(new) < len(old)
        rest = iter(old)
        assert all(character in rest for character in new)  # in the old order
    assert 0.3 < done.changed / done.total < 0.7
    assert leave_out_words(CHINESE, _starts(len(CHINESE)), 0.0).captions == CHINESE


@pytest.mark.parametrize(
    "caption",
    ["एक लाल बिल्ली मेज पर बैठी", "একটি লাল বিড়াল টেবিলে বসে", "ஒரு சிவப்பு பூனை மேசையில்",
     "ఎర్ర పిల్లి బల్ల మీద", "חָתוּל אָדֹם עַל הַשֻּׁלְחָן", "قِطَّةٌ حَمْرَاءُ عَلَى الطَّاوِلَةِ", "ބުޅަލެއް މޭޒު މަތީގައި",
     "mo\u0323\u0302t me\u0300o do\u0309 tre\u0302n"],
)  # fmt: skip
def test_words_with_vowel_signs_points_and_accents_are_left_out_whole(caption):
    words = caption.split()
    done = leave_out_words([caption] * 60, _starts(60), 0.5)
    assert done.total == 60 * len(words)
    assert 0.3 < done.changed / done.total < 0.7
    assert {word for text in done.captions for word in text.split()} == {*words}


@pytest.mark.parametrize("caption", ["ဝစားပွဲပေါ်မှာကြောင်နီ", "ឆ្មាក្រហមនៅលើតុ", "སྟེང་དུ་ཞི་མི"])
def test_letters_without_blanks_keep_their_marks(caption):
    """No mark is left whose letter is left out."""
    for text in leave_out_words([caption] * 60, _starts(60), 0.5).captions:
        assert {unicodedata.category(piece[0])[0] for piece in pieces(text)} <= {"L", "P"}


def _starts(count, *name):
    return streams((f"{number:05d}" for number in range(count)), *(name or ("test",)))


def _grammar():
    """Write the sentences of scenes as a regular expression, from their description."""

    def values(kind):
        words = "|".join(re.escape(w) for words in VOCABULARY[kind].values() for w in words)
        return f"(?:{words})(?: and (?:{words}))*"

    kinds = ("size", "texture", "print", "colour")
    adjectives = "".join(f"(?:{values(kind)} )?" for kind in kinds)
    any_adjective = f"(?:{'|'.join(values(kind) for kind in kinds)})"
    digit = values("digit")
    noun = f"(?:{values('shape')}|thing|object|(?:number|digit)(?: {digit})?|{digit})"
    thing = f"(?:an?|the) {adjectives}{noun}(?: that is {any_adjective}(?: and {any_adjective})*)?"
    thing = f"{thing}(?: on {thing}| with {thing} on it)?"
    what = f"(?:{values('count')}: )?{thing}(?:(?:, {thing})* and {thing})?"
    where = "".join(
        f"(?: {values(kind)})?" for kind in ("position", "arrangement", "shadow", "frame")
    )
    background = f"(?: (?:on|against|with) an? {values('background')} (?:background|backdrop))?"
    openings = "a picture of |this image shows |there is |a drawing of |we can see |"
    opening = f"(?:{openings}a simple image with )?"
    return re.compile(opening + what + where + background)


def _articles_fit(sentence):
    return all(
        (article == "an") == (word in ("orange", "eight", "8", "object"))
        for article, word in re.findall(r"\b(an?) (\w+)", sentence)
    )


def test_mentions_are_what_reading_finds_and_where_it_stands():
    for caption in _sentences(300):
        mentions = find_mentions(caption)
        assert {feature for _, _, feature in mentions} == set(read_caption(caption))
        for start, end, feature in mentions:
            kind, value = feature.split(":")
            assert caption[start:end] in VOCABULARY[kind][value]


@pytest.mark.parametrize(("caption", "new", "expected"), [
    ("a red circle", {"colour:red": None}, "a circle"),
    ("an orange star", {"colour:orange": None}, "a star"),
    ("a red star", {"colour:red": "colour:orange"}, "an orange star"),
    ("a crimson star", {"colour:red": "colour:purple"}, "a violet star"),
    ("a crimson star", {"colour:red": "colour:green"}, "a green star"),
    ("a red star", {"shape:star": None}, "a red thing"),
    ("the red star", {"shape:star": None, "colour:red": None}, "the thing"),
    ("a ring that is red", {"colour:red": None}, "a ring"),
    ("a ring that is tiny and red", {"size:small": None}, "a ring that is red"),
    ("a ring that is red and a blue ring", {"colour:red": None}, "a ring and a blue ring"),
    ("an 8", {"digit:eight": None}, "a number"),
    ("an 8", {"digit:eight": "digit:two"}, "a 2"),
    ("a digit two that is blocky", {"digit:two": None}, "a digit that is blocky"),
    ("a red ring with an 8 on it", {"digit:eight": "digit:one"}, "a red ring with a 1 on it"),
    ("a pair: a ring and a red star in a row", {"count:pair": None},
        "a ring and a red star in " "a row"),
    ("a trio: a ring, a star and a box stacked", {"arrangement:column": None},
        "a trio: a ring," " a star and a box"),
    ("a ring to the left with a frame", {"position:left": None}, "a ring with a frame"),
    ("a ring to the left with a frame", {"frame:framed": None}, "a ring to the left"),
    ("a ring with a dark background", {"background:black": None}, "a ring"),
    ("a ring on a white and black background", {"background:black": None},
        "a ring on a white " "background"),
    ("a red and blue ring", {"colour:red": "colour:blue"}, "a blue ring"),
    ("a red and blue ring", {"colour:blue": None}, "a red ring"),
    ("a red ring and a red star", {"colour:red": "colour:pink"}, "a pink ring and a pink star"),
    ("a red ring and a blue star", {"colour:red": "colour:blue", "colour:blue": "colour:red"},
        "a blue ring and a red star"),
])  # fmt: skip
def test_one_sentence_of_each_form(caption, new, expected):
    assert rewrite(caption, new) == expected


def test_exactly_the_intended_features_change_and_sentences_stay_sentences():
    grammar = _grammar()
    draw = np.random.default_rng(0)
    for number, caption in enumerate(_sentences(3000)):
        assert grammar.fullmatch(caption), caption
        named = read_caption(caption)
        chosen = [feature for feature in named if draw.random() < (0.2, 0.6, 1.0)[number % 3]]
        for new in (dict.fromkeys(chosen), {f: PARTNERS[f] for f in chosen if f in PARTNERS}):
            text = rewrite(caption, new)
            expected = {new.get(feature, feature) for feature in named} - {None}
            assert set(read_caption(text)) == expected, (caption, new, text)
            assert grammar.fullmatch(text), (caption, new, text)
            assert _articles_fit(text), (caption, new, text)


def test_nothing_else_of_a_sentence_changes():
    for caption in _sentences(1000, "high"):
        for feature in read_caption(caption):
            if feature not in PARTNERS:
                continue
            texts = caption, rewrite(caption, {feature: PARTNERS[feature]})
            words = {w for f in (feature, PARTNERS[feature])
                     for phrase in VOCABULARY[f.split(":")[0]][f.split(":")[1]]
                     for w in phrase.split()} | {"a", "an"}  # fmt: skip
            rest = [[word for word in re.findall(r"\w+|\S", text) if word not in words]
                    for text in texts]  # fmt: skip
            assert rest[0] == rest[1], (caption, feature)


def test_missing_and_spurious_agree_with_a_loop_over_features():
    captions = _sentences(100)
    starts = _starts(100)
    for caption, start, missing, spurious in zip(
        captions,
        starts,
        reword_features(captions, starts, 0.4, ABSENT).captions,
        reword_features(captions, starts, 0.4, PARTNERS).captions,
        strict=True,
    ):
        named = read_caption(caption)
        drawn = {f for f in named if uniforms(start[None], FEATURES.index(f))[0] < 0.4}
        assert read_caption(missing) == [f for f in named if f not in drawn]
        assert set(read_caption(spurious)) == {PARTNERS.get(f, f) if f in drawn else f
                                               for f in named}  # fmt: skip


def test_a_rate_of_zero_changes_no_caption():
    captions = [*_sentences(50), "", "  two  spaces "]
    starts = _starts(len(captions))
    for done in (
        reword_features(captions, starts, 0.0, ABSENT),
        reword_features(captions, starts, 0.0, PARTNERS),
        leave_out_words(captions, starts, 0.0),
    ):
        assert done.captions == captions
        assert (done.changed, done.spared) == (0, 0)


PROSE = [
    "The quick brown fox jumps over the lazy dog, twice!", "sunset", "it is on the", "a - & b",
    "<PERSON> arrives at the premiere of a new film", "Café   über\nStraße 2024", "",
]  # fmt: skip


def _content(word):
    tokens = re.findall(r"(?u)\b\w\w+\b", word.lower())
    return any(token not in ENGLISH_STOP_WORDS for token in tokens)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
def test_content_words_are_dropped_as_a_loop_over_words_would(rate):
    captions = PROSE * 40
    starts = _starts(len(captions))
    done = leave_out_words(captions, starts, rate)
    total = changed = spared = 0
    for caption, start, text in zip(captions, starts, done.captions, strict=True):
        words = caption.split()
        draws = [uniforms(start[None], place)[0] for place in range(len(words))]
        content = [place for place, word in enumerate(words) if _content(word)]
        gone = [place for place in content if draws[place] < rate]
        if gone and gone == content:
            gone.remove(max(content, key=lambda place: draws[place]))
            spared += 1
        total, changed = total + len(content), changed + len(gone)
        assert text.split() == [word for place, word in enumerate(words) if place not in gone]
        assert text == caption or gone
    assert (done.total, done.changed, done.spared) == (total, changed, spared)


def test_a_content_word_always_stays_and_stop_words_never_go():
    done = leave_out_words(PROSE, _starts(len(PROSE)), 1.0)
    for caption, text in zip(PROSE, done.captions, strict=True):
        stops = [word for word in caption.split() if not _content(word)]
        assert Counter(stops) == Counter(word for word in text.split() if not _content(word))
        had, has = (sum(map(_content, part.split())) for part in (caption, text))
        assert has == min(had, 1)
    assert done.captions[1:4] == ["sunset", "it is on the", "a - & b"]
    assert done.spared == 4


def test_draws_of_a_key_are_splitmix_started_at_its_keyed_hash():
    keys, mask = ["00000001", "ключ", "x" * 200], (1 << 64) - 1
    starts = streams(keys, 7, "drop")
    secret = seeds.integer(7, "drop").to_bytes(8, "big")
    for key, start in zip(keys, starts.tolist(), strict=True):
        state = int.from_bytes(
            hashlib.blake2b(key.encode(), digest_size=8, key=secret).digest(), "little"
        )
        assert start == state
        for number in range(5):
            state = (state + 0x9E3779B97F4A7C15) & mask
            mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
            mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
            drawn = ((mixed ^ (mixed >> 31)) >> 11) / 2**53
            assert uniforms(np.array([start], np.uint64), number)[0] == drawn


def test_draws_are_uniform_and_independent_of_one_another():
    draws = uniforms(_starts(20_000)[:, None], np.arange(8))
    assert 0 <= draws.min() < draws.max() < 1
    counts = np.histogram(draws, 20, (0, 1))[0]
    assert (np.abs(counts - 8000) < 5 * math.sqrt(8000)).all()
    # Between numbers, between neighbouring keys, and between names.
    assert np.abs(np.corrcoef(draws.T) - np.eye(8)).max() < 0.04
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.04
    other = uniforms(_starts(20_000, "other"), 0)
    assert abs(np.corrcoef(draws[:, 0], other)[0, 1]) < 0.04


def test_similarity_is_the_cosine_of_tfidf_vectors():
    own = ["a red fox in the snow", "two dogs", "the of and", "a red fox", "zebra Zebra crossing"]
    given = ["the fox in snow", "cats", "two dogs", "a red fox", "a zebra"]
    corpus = ["a red fox in the snow", "two dogs and a fox", "snow on the roof", "red red roof"]
    found = tfidf_similarities(own, given, corpus)

    def tokens(text):
        found = re.findall(r"\w\w+", text.lower())
        return Counter(word for word in found if word not in ENGLISH_STOP_WORDS)

    def weight(word):
        return math.log((1 + len(corpus)) / (1 + sum(word in tokens(text) for text in corpus))) + 1

    for a, b, value in zip(own, given, found, strict=True):
        left, right = ({w: n * weight(w) for w, n in tokens(text).items()} for text in (a, b))
        norms = [math.sqrt(sum(x * x for x in part.values())) for part in (left, right)]
        dot = sum(left[word] * right.get(word, 0) for word in left)
        assert value == pytest.approx(dot / (norms[0] * norms[1]) if all(norms) else 0, abs=1e-12)
    assert found[[1, 2]].tolist() == [0, 0]
    assert found[3] == pytest.approx(1)


def test_texts_without_any_word_have_no_similarity():
    assert tfidf_similarities(["the", "!"], ["of", "?"], ["and"]).tolist() == [0, 0]
    assert tfidf_similarities([], [], ["a red fox"]).shape == (0,)


def test_a_sample_is_drawn_without_replacement_and_keeps_the_order():
    items = np.arange(100, 200)
    drawn = sample(items, 30, np.random.default_rng(0))
    assert len(set(drawn)) == 30
    assert (np.diff(drawn) > 0).all()
    assert np.isin(drawn, items).all()
    assert sample(items, 100, np.random.default_rng(0)) is items
