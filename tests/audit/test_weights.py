"""Weights of the pairs that a fine-tuning learns from."""

import numpy as np
import pandas as pd
import pytest

from mispair import cli
from mispair.audit.probability import pair_weights
from mispair.core import files
from mispair.pairs.index.index import caption_id
from mispair.towers.features import PairedFeatures
from tests.audit.made_up import Files, embeddings, swapped

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
        weights = pair_weights(features, draw, IDENTITY, seed=0)
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
