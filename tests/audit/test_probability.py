"""Probabilities of single pairs: calibrated, ordered as similarities, and peers."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import average_precision_score, roc_auc_score

from mispair import cli
from mispair.audit.probability import (
    least_known,
    pair_weights,
    probabilities,
    reliability,
    what_is_known,
)
from mispair.audit.trials import neighbour_disagreement, two_gaussians
from mispair.core import files
from mispair.pairs.index.index import caption_id
from mispair.repair.evidence import RuleFiles
from mispair.towers.features import PairedFeatures
from tests.audit.made_up import Files, embeddings, swapped


def sample(n, rate, seed):
    """Similarities of two normal distributions, of which the densities are known."""
    generator = np.random.default_rng(seed)
    wrong = generator.random(n) < rate
    similarity = np.where(wrong, generator.normal(0, 1, n), generator.normal(2, 1, n))
    return similarity, wrong, generator.normal(0, 1, (n, 5)), generator.integers(0, 2, n)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.8])
def test_probabilities_are_those_of_the_densities(rate):
    similarity, wrong, reference, folds = sample(20_000, rate, 0)
    found = probabilities(similarity, reference, rate, folds)
    exact = rate * norm.pdf(similarity) / (
        rate * norm.pdf(similarity) + (1 - rate) * norm.pdf(similarity - 2)
    )  # fmt: skip
    assert np.abs(found - exact).mean() < 0.02
    for mean, share, n in reliability(found, wrong):
        assert abs(mean - share) < 0.03 + 2 / np.sqrt(n)


def test_they_fall_strictly_with_the_similarity():
    similarity, wrong, reference, folds = sample(3000, 0.3, 1)
    found = probabilities(similarity, reference, 0.3, folds)
    order = np.argsort(similarity)
    assert (np.diff(found[order]) < 0).all()
    assert ((found >= 0) & (found <= 1)).all()
    assert roc_auc_score(wrong, found) == roc_auc_score(wrong, -similarity)
    assert average_precision_score(wrong, found) == pytest.approx(
        average_precision_score(wrong, -similarity)
    )


@pytest.mark.parametrize(
    ("rows", "refused", "identified"),
    [({}, "", "limit"), ({}, "why", "nothing"), ({"trusted": 0.2, "trusted_excess": 0.0}, "",
     "interval"), ({"trusted": 0.2, "trusted_excess": 0.1}, "", "limit"),
     ({"trusted": 0.2, "trusted_excess": 0.1}, "why", "nothing")],
)  # fmt: skip
def test_what_is_known_has_a_condition_and_the_share_of_probabilities(rows, refused, identified):
    every = rows | ({} if refused else {"wrong_captions": 0.3})
    known = what_is_known([{"metric": m, "value": v} for m, v in every.items()], refused)
    assert known["identified"] == identified
    assert bool(known["condition"]) == (known.get("share") == 0.3) == (not refused)
    others = [{"identified": "interval", "trusted_excess": 0.0}, known]
    if not refused:
        assert least_known(others)["identified"] == least_known(others[::-1])["identified"]
        assert least_known(others)["identified"] == identified


def test_without_wrong_captions_none_is_likely():
    similarity, _, reference, folds = sample(1000, 0.0, 2)
    assert probabilities(similarity, reference, 0.0, folds).max() < 1e-5


def test_peers_find_wrong_pairs():
    images, texts = embeddings(1500, noise=0.7)
    source, wrong = swapped(1500, 0.3)
    own = texts[source]
    similarity = np.einsum("ne,ne->n", images, own)
    assert roc_auc_score(wrong, two_gaussians(similarity, 0)) > 0.95
    assert roc_auc_score(wrong, neighbour_disagreement(images, own)) > 0.8


def test_disagreement_is_that_of_a_plain_loop():
    images, texts = embeddings(40, noise=1)
    found = neighbour_disagreement(images, texts)
    distance = 1 - np.sum(images * texts, axis=1)
    for i in (0, 20, 39):
        score = distance[i]
        for near, other in ((images, texts), (texts, images)):
            order = [j for j in np.argsort(-(near @ near[i])) if j != i][:30]
            terms = [
                (1 - other[i] @ other[j])
                * np.exp(-0.1 * (1 - near[i] @ near[j]))
                * np.exp(-5 * distance[j])
                for j in order
            ]
            score += 5 * np.mean(terms)
        assert found[i] == pytest.approx(score, rel=1e-4)


# Weights of the pairs that a fine-tuning learns from.


IDENTITY = (np.eye(32, dtype=np.float32),) * 2


def paired(n, rate, draws=1, crops=1):
    images, texts = embeddings(n, noise=0.6)
    sources, wrong = zip(*(swapped(n, rate, seed) for seed in range(draws)), strict=True)
    held = np.repeat(images, crops, axis=0)
    return PairedFeatures(held, texts, np.stack(sources), crops), np.stack(wrong)


@pytest.mark.parametrize(("crops", "draws"), [(1, 2), (3, 1)])
def test_wrong_pairs_weigh_little_and_the_mean_weight_is_the_share_of_right_ones(crops, draws):
    features, wrong = paired(3000, 0.4, draws, crops)
    for draw in range(draws):
        found = pair_weights(features, draw, IDENTITY, seed=0)
        weights = found.weights
        assert found.known["identified"] == "limit"
        assert weights.mean() == pytest.approx(1 - found.known["share"], abs=0.02)
        assert weights.dtype == np.float32
        assert weights.mean() == pytest.approx(0.6, abs=0.02)
        assert weights[~wrong[draw]].mean() > 0.9 > 0.1 > weights[wrong[draw]].mean()


def test_the_step_weighs_the_pairs_of_each_seed(tmp_path, capsys):
    images, texts = embeddings(1200, noise=0.6)
    made = Files(tmp_path, images, texts)
    made.write()
    pairing = pd.DataFrame(
        {"key": made.keys, "group": [str(row % 2) for row in range(1200)],
         "row": np.arange(1200) // 2}
    )  # fmt: skip
    wrong = []
    for draw, ending in enumerate(("", "_1")):
        source, swaps = swapped(1200, 0.3, seed=draw)
        wrong.append(swaps)
        pairing[f"caption_id{ending}"] = [caption_id(made.captions[row]) for row in source]
        pairing[f"text_changed{ending}"] = swaps
    files.write_parquet(tmp_path / "pairing.parquet", pairing, {"scheme": "random"})
    command = made.command("weigh-pairs", untouched=str(tmp_path / "projection.safetensors"))
    start, end = command.index("--corpus"), command.index("--features")
    command[start:end] = ["--pairing", str(tmp_path / "pairing.parquet")]
    start = command.index("--projection")
    command[start : start + 2] = []
    key = "filter_captions.rules: posterior"
    command += ["--trusted", "--key", key, "--seeds", "2", "--seed", "0", "--pairs", "800"]
    command += ["--weights"]
    assert cli.main([*command, str(tmp_path / "a")]) == 0
    assert cli.main([*command, str(tmp_path / "b")]) == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    tensors, metadata = files.read_tensors(tmp_path / "a")
    assert metadata["scheme"] == "random"
    assert tensors["rows"].shape == tensors["weights"].shape == (2, 800)
    for rows, weights, swaps in zip(tensors["rows"], tensors["weights"], wrong, strict=True):
        assert weights[~swaps[rows]].mean() > 0.85 > 0.15 > weights[swaps[rows]].mean()
    # Right captions may be wrong in a limit, which is the state of all seeds if it is of one.
    assert metadata["identified"] == "limit"
    assert json.loads(metadata["share"]) == pytest.approx([0.3, 0.3], abs=0.05)
    assert RuleFiles([], [], [tmp_path / "a"]).known_share()["identified"] == "limit"
    right = np.array(made.keys)[~(wrong[0] | wrong[1])]
    (tmp_path / "right.txt").write_text("\n".join(right[::2].tolist()))
    place = command.index("--trusted") + 1
    command.insert(place, str(tmp_path / "right.txt"))
    assert cli.main([*command, str(tmp_path / "c")]) == 0
    assert files.read_tensors(tmp_path / "c")[1]["identified"] == "interval"
    del command[place]
    (tmp_path / "c").unlink()
    # Trusted pairs that beat random ones no more often than chance refuse all weights.
    trusted = tmp_path / "trusted.txt"
    trusted.write_text("\n".join(np.array(made.keys)[wrong[0] & wrong[1]].tolist()))
    place = command.index("--trusted") + 1
    unusable = [*command[:place], str(trusted), *command[place:]]
    pairing["text_changed"] = pairing["text_changed_1"] = False
    files.write_parquet(tmp_path / "pairing.parquet", pairing, {"scheme": "random"})
    assert cli.main([*unusable, str(tmp_path / "c")]) == 2
    message = capsys.readouterr().err
    assert all(word in message for word in (key, "pairing.parquet"))
    assert not (tmp_path / "c").exists()
    made.write(towers="other")
    assert cli.main([*command, str(tmp_path / "c")]) == 2
    assert "comes from other towers" in capsys.readouterr().err
