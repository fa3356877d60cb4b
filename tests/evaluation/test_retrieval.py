"""Retrieval and the choice of captions: plain loops, CLIP_benchmark, and chance."""

import json
from pathlib import Path

import numpy as np
import pytest
from clip_benchmark.metrics import image_caption_selection

from mispair.cli import main
from mispair.core import distributions, metrics
from mispair.core.distributions import wilson
from mispair.core.files import read_tensors, write_tensors
from mispair.evaluation import retrieval
from mispair.evaluation.arm_comparison import difference
from mispair.evaluation.classification import normalised
from mispair.evaluation.retrieval import Questions, credits, pair_credits, selections
from tests.evaluation.encoded import step
from tests.evaluation.test_clip_benchmark import POINT, leaving_shards_open, measured, theirs


def _set(n, per_image, seed=0, e=6):
    draw = np.random.default_rng(seed)
    images = normalised(draw.standard_normal((n, e)))
    owners = np.repeat(np.arange(n), per_image)
    captions = normalised(images[owners] + 0.4 * draw.standard_normal((len(owners), e)))
    return images, captions, owners


def _values(rows):
    return {row["metric"]: row["value"] for row in rows}


def test_five_captions_an_image_by_hand():
    """Two images on the axes; five captions each, at angles that were chosen."""
    degrees = np.array([0, 10, 20, 50, 80, 90, 85, 75, 30, 5])
    captions = np.stack([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], axis=1)
    images, owners = np.eye(2), np.repeat([0, 1], 5)
    image_ranks, text_ranks = retrieval.ranks(images, captions, owners)
    # A caption finds its image if it stands on the right side of 45 degrees.
    assert image_ranks.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 1, 1]
    # Both images have a caption of their own at the very axis.
    assert text_ranks.tolist() == [0, 0]
    # Without it, a caption of the other one stands before: 5 degrees before 10, 80 before 75.
    captions[[0, 5, 6]] = captions[[3, 8, 8]]
    assert retrieval.ranks(images, captions, owners)[1].tolist() == [1, 1]
    rows = {row["metric"]: row for row in retrieval.recalls(images, captions, owners)}
    assert rows["text_recall@1"]["value"] == 0
    assert rows["text_recall@5"]["value"] == 1
    assert rows["image_recall@1"]["value"] == 0.3  # of 10 and 20, and 75 degrees
    assert rows["image_recall@5"]["value"] == 1
    assert (rows["image_recall@1"]["n"], rows["text_recall@1"]["n"]) == (10, 2)
    low, high = distributions.wilson(3, 10)
    assert (rows["image_recall@1"]["low"], rows["image_recall@1"]["high"]) == (low, high)
    assert rows["image_recall@1"]["chance"] == 1 / 2
    assert rows["text_recall@1"]["chance"] == pytest.approx(1 / 2)
    # Five captions of ten are all of the other image in one of C(10, 5) = 252 cases.
    assert rows["text_recall@5"]["chance"] == pytest.approx(251 / 252)
    assert rows["text_recall@10"]["chance"] == 1


def test_blocks_change_nothing_and_ranks_are_those_of_a_sort(monkeypatch):
    images, captions, owners = _set(40, 3, seed=2)
    whole = retrieval.ranks(images, captions, owners)
    monkeypatch.setattr(retrieval, "BLOCK_ENTRIES", 7 * len(captions))  # blocks of 7 images
    for one, other in zip(retrieval.ranks(images, captions, owners), whole, strict=True):
        np.testing.assert_array_equal(one, other)
    cosines = captions @ images.T
    by_caption = np.argsort(-cosines, axis=1)
    np.testing.assert_array_equal((by_caption == owners[:, None]).argmax(1), whole[0])
    by_image = owners[np.argsort(-cosines.T, axis=1)]
    np.testing.assert_array_equal((by_image == np.arange(40)[:, None]).argmax(1), whole[1])


def test_ties_count_against_the_model_whatever_the_order():
    """One embedding for everything retrieves nothing; rounding decides no tie."""
    images, captions, owners = np.ones((20, 4)) / 2, np.ones((40, 4)) / 2, np.repeat(range(20), 2)
    image_ranks, text_ranks = retrieval.ranks(images, captions, owners)
    assert set(image_ranks) == {19}
    assert set(text_ranks) == {38}
    noise = 1e-8 * np.random.default_rng(0).standard_normal((40, 4))
    np.testing.assert_array_equal(retrieval.ranks(images, captions + noise, owners)[0], image_ranks)
    # Images 0 and 1 have one caption of equal words: neither direction tells them apart.
    images = np.eye(3)
    captions = normalised(np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]))
    found = retrieval.ranks(images, captions, np.arange(3))
    assert [one.tolist() for one in found] == [[1, 1, 0], [1, 1, 0]]
    # A result is no rival of its own, also where all are far away.
    found = retrieval.ranks(np.eye(3), -np.eye(3), np.arange(3))
    assert [one.tolist() for one in found] == [[2, 2, 2], [2, 2, 2]]


def test_images_and_captions_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="captions of 2 images, but 3 images"):
        retrieval.ranks(np.eye(3), np.eye(3), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="class 1 has no prompt"):
        retrieval.ranks(np.eye(3), np.eye(3), np.array([0, 2, 2]))


def drawn(n: int, choices: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    images, captions = (normalised(draw.normal(size=(k, 6))) for k in (n, n * choices))
    return images, captions, np.repeat(np.arange(n), choices)


def alone(numbers: np.ndarray) -> Questions:
    n = int(numbers[-1]) + 1
    return Questions(numbers, np.full(n, -1), (), np.full(n, -1))


def test_credit_is_the_probability_of_the_right_draw() -> None:
    images, captions, numbers = drawn(200, 3)
    captions[1] = captions[0]  # two of three are equal
    captions[4] = captions[5] = captions[3]
    captions[6], captions[7] = -images[2], images[2]
    credit, tied = credits(images, captions, numbers)
    for number, image in enumerate(images):
        scores = captions[3 * number : 3 * number + 3] @ image
        equal = int(np.isclose(scores, scores[0], atol=1e-6).sum())
        best = bool(scores.max() <= scores[0] + 1e-6)
        assert credit[number] == pytest.approx(best / equal)
        assert tied[number] == (best and equal > 1)
    assert credit[1] == pytest.approx(1 / 3)
    assert credit[2] == 0


def test_chance_is_what_a_blind_model_scores() -> None:
    """Random embeddings are right by chance, as often as the rows say."""
    n = 20_000
    images, captions, numbers = drawn(n, 2)
    pairs = np.arange(n) // 2
    captions[2::4], captions[3::4] = captions[1::4], captions[0::4]
    questions = Questions(numbers, np.arange(n) % 2, ("one", "other"), pairs)
    _, rows = selections(images, captions, questions, np.arange(n))
    found = {row["metric"]: row for row in rows}
    for metric in ("selection_acc", "selection_macro", "text_score", "image_score", "group_score"):
        row = found[metric]
        assert row["value"] == pytest.approx(row["chance"], abs=4 * (0.25 / row["n"]) ** 0.5)
        assert row["low"] < row["value"] < row["high"]
    assert found["group_score"]["n"] == n / 2
    assert found["group_score"]["chance"] == pytest.approx(1 / 6)


def test_a_model_that_embeds_everything_alike_scores_chance() -> None:
    same = np.ones((6, 1))
    questions = Questions(
        np.repeat(np.arange(4), [2, 2, 3, 2]), np.full(4, -1), (), np.array([0, 0, -1, -1])
    )
    credit, rows = selections(same[:4], np.ones((9, 1)), questions, np.arange(4))
    assert credit == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 2])
    found = _values(rows)
    assert found["selection_ties"] == 1
    assert found["text_score"] == found["image_score"] == 0.25


def test_scores_of_two_images_against_their_definition() -> None:
    images, captions, numbers = drawn(40, 2, seed=3)
    captions[2::4], captions[3::4] = captions[1::4], captions[0::4]
    order = np.random.default_rng(1).permutation(40)  # examples need not be side by side
    pairs = np.empty(40, dtype=np.int64)
    pairs[order] = np.arange(40) // 2
    first, second = (np.array([np.flatnonzero(pairs == k)[i] for k in range(20)]) for i in (0, 1))
    for one, two in zip(first, second, strict=True):
        captions[2 * two], captions[2 * two + 1] = captions[2 * one + 1], captions[2 * one]
    questions = Questions(numbers, np.full(40, -1), (), pairs)
    found = pair_credits(images, captions, questions)
    for k, (one, two) in enumerate(zip(first, second, strict=True)):
        s = np.array([[images[i] @ captions[2 * c] for c in (one, two)] for i in (one, two)])
        text = s[0, 0] > s[0, 1] and s[1, 1] > s[1, 0]
        image = s[0, 0] > s[1, 0] and s[1, 1] > s[0, 1]
        got = tuple(found[name][k] for name in ("text_score", "image_score", "group_score"))
        assert got == (text, image, text and image)


def test_the_blind_control_sees_words_only() -> None:
    """Captions that are right by their words alone are right blind; the others by chance."""
    draw = np.random.default_rng(0)
    n = 3000
    images = np.concatenate([np.ones((n, 1)), draw.normal(size=(n, 3))], axis=1)
    by_image = np.concatenate([np.zeros((n, 1)), images[:, 1:]], axis=1)
    true, false = by_image.copy(), -by_image
    captions = np.stack([normalised(true), normalised(false)], axis=1).reshape(2 * n, 4)
    questions = alone(np.repeat(np.arange(n), 2))
    found = _values(selections(normalised(images), captions, questions, np.arange(n))[1])
    assert found["selection_acc"] == 1
    assert found["selection_blind"] == pytest.approx(0.5, abs=0.05)
    captions[::2, 0] += 1  # a word of all images in each true caption
    captions = normalised(captions)
    found = _values(selections(normalised(images), captions, questions, np.arange(n))[1])
    assert found["selection_blind"] > 0.85


def test_questions_about_one_picture_are_one_trial() -> None:
    images, captions, numbers = drawn(300, 2)
    questions = Questions(numbers, np.arange(300) % 3, ("a", "b", "c"), np.full(300, -1))
    pictures = np.arange(300) // 3
    _, rows = selections(images, captions, questions, pictures)
    found = {row["metric"]: row for row in rows if "classname" not in row}
    row = found["selection_acc"]
    low, high = wilson(100 * row["value"], 100)
    assert (row["low"], row["high"]) == pytest.approx((float(low), float(high)))
    # Each picture is in every category, so categories are no independent trials either.
    widths = [
        row["high"] - row["low"] for row in (found["selection_acc"], found["selection_macro"])
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.15)


def test_faults_of_arrays() -> None:
    images, captions, numbers = drawn(4, 2)
    with pytest.raises(ValueError, match="one caption only"):
        credits(images, captions[:7], numbers[:7])
    with pytest.raises(ValueError, match="captions of 4 images, but 3"):
        credits(images[:3], captions, numbers)
    questions = Questions(numbers, np.full(4, -1), (), np.array([0, 0, 0, 1]))
    with pytest.raises(ValueError, match="two images"):
        pair_credits(images, captions, questions)


def test_choices_are_those_of_clip_benchmark(tmp_path: Path) -> None:
    """Its function answers from pictures; no ties are in the set, which it would count as right."""
    folder = tmp_path / "scenes-compositional"
    made = ["--name", folder.name, "--questions", "96"]
    assert main(["make-evaluation-set", *made, "--evaluation-set", str(folder)]) == 0
    found = measured(folder, "captions", tmp_path)
    assert found["selection_ties"] == 0
    answers, _ = read_tensors(tmp_path / "answers.safetensors")
    (key,) = [key for key in answers if "|captions|" in key]
    assert answers[key].mean() == pytest.approx(found["selection_acc"])
    path = tmp_path / "features" / folder.name / "prompts~captions.safetensors"
    prompts, texts = read_tensors(path)
    assert len(prompts["prompt_classes"]) == 2 * 96
    assert len(set(prompts["categories"].tolist())) == 12
    assert (prompts["pairs"] == -1).all()
    assert "swap-colour" in texts["categories"]
    (folder / "dataset_type.txt").write_text("retrieval")  # its loader of pictures and captions
    model, tokenizer, _, batches = theirs(folder, "image_caption_selection")
    with leaving_shards_open():
        expected = image_caption_selection.evaluate(model, batches, tokenizer, "cpu", amp=False)
    assert found["selection_acc"] == pytest.approx(expected["text_acc"], abs=POINT)
    assert expected["image_acc"] == 1  # whatever the model, with one image
    assert 0.6 < found["selection_acc"] < 0.95


# Through the steps ------------------------------------------------------------------------------


def test_arms_are_compared_by_question(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    labels, pictures = np.arange(400) % 8, np.arange(300) // 2
    right = {"u": draw.random((1, 400)) < 0.9, "0": draw.random((3, 400)) < 0.9,
             "8": draw.random((3, 400)) < 0.7}  # fmt: skip
    credit = {"u": draw.choice([0, 0.5, 1], (1, 300)), "0": draw.choice([0.5, 1, 1], (3, 300)),
              "8": draw.choice([0, 0.5], (3, 300))}  # fmt: skip
    origins = {"u": {"start": "untouched"}} | {
        key: {"start": "pretrained", "scheme": "random", "rate": rate}
        for key, rate in (("0", "0.0"), ("8", "0.8"))
    }
    for key, answers in right.items():
        tensors = {f"toys|clip_benchmark|{seed}": np.where(one, labels, (labels + 1) % 8)
                   for seed, one in enumerate(answers)}  # fmt: skip
        tensors |= {f"pairs|captions|{seed}": one for seed, one in enumerate(credit[key])}
        tensors |= {"toys|labels": labels, "pairs|pictures": pictures}
        about = {
            "projection": origins[key], "sets": {"toys": "i", "pairs": "j"},
            "protocols": {"toys|clip_benchmark": "p", "pairs|captions": "q"},
        }  # fmt: skip
        write_tensors(tmp_path / key, tensors, {k: json.dumps(one) for k, one in about.items()})
    comparison = tmp_path / "comparison.json"
    files = [tmp_path / key for key in right]
    assert step("compare-arms", zeroshot_answers=files, comparison=comparison) == 0
    rows, _ = metrics.read_metrics(comparison)
    rows = [row for row in rows if (row["rate"], row["reference"]) == (0.8, "rate 0")]
    found = {(row["metric"], row.get("evaluation_set")): row for row in rows}
    fall = float(right["8"].mean() - right["0"].mean())
    fewer = float(credit["8"].mean() - credit["0"].mean())
    assert found["acc1_difference", "toys"]["value"] == pytest.approx(fall)
    assert found["selection_difference", "pairs"]["value"] == pytest.approx(fewer)
    assert found["acc1_difference_of_all_sets", None]["value"] == pytest.approx(fall)
    assert len(found) == 4
    # Two questions about a picture are one trial: as if there were half as many images.
    both = [credit[key].reshape(3, 150, 2).mean(axis=2) for key in ("8", "0")]
    alike = difference([both[0]], [both[1]])
    row = found["selection_difference", "pairs"]
    assert (row["error"], row["n"]) == pytest.approx((alike.error, 150), rel=1e-5)
