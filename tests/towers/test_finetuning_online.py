"""Fine-tuning on cached features against open_clip's own model, transform, tokenizer and loss.

The twin decodes, preprocesses and tokenises its batch in every step, runs the whole model with all
but the last projections locked, and steps by torch's AdamW. Batches are those of the cached run.
"""

import io
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from mispair.pairs.scenes.scenes import make_pair
from mispair.pairs.shards.images import decode_image
from mispair.towers.encoding import encode_images, encode_texts
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning import projection
from mispair.towers.finetuning.batches import batch_order
from mispair.towers.finetuning.finetuning_settings import FinetuningLength
from mispair.towers.loading import load_towers
from tests.towers.made_up import NATIVE, SHIPPED, build

PAIRS, SEED = 72, 5
TRAINING = {"epochs": 3, "batch_size": 32, "lr": 5e-3}


@pytest.fixture(scope="module")
def pairs() -> tuple[list[bytes], list[str]]:
    how = {"seed": 0, "size": 48, "quality": 90, "high_quality_share": 1.0, "spurious": 0.0}
    made = [make_pair(f"{number:04d}", **how) for number in range(PAIRS)]
    return [pair["jpg"] for pair in made], [pair["caption"] for pair in made]


def _locked(folder: Path) -> tuple:
    """Return open_clip's model with its last projections free, its transform and tokenizer."""
    name = f"local-dir:{folder}"
    model, _, transform = open_clip.create_model_and_transforms(name)
    # Statistics stay as they are by `eval`: with `freeze_bn_stats` open_clip would take the
    # activations out of timm's layers that normalise and activate in one.
    model.lock_image_tower()
    model.lock_text_tower()
    model.logit_scale.requires_grad_(False)
    visual = model.visual
    image = visual.head.proj.weight if hasattr(visual, "head") else visual.proj
    for projected in (image, model.text_projection):
        projected.requires_grad_(True)
    free = [name for name, values in model.named_parameters() if values.requires_grad]
    assert len(free) == 2
    return model.eval(), transform, open_clip.get_tokenizer(name), image


def _train(
    folder: Path, images: list[bytes], captions: list[str], training: FinetuningLength
) -> tuple[np.ndarray, np.ndarray, float, list[float]]:
    model, transform, tokenizer, image = _locked(folder)
    shares = [1.0]  # of the learning rate
    groups = [{"params": [image, model.text_projection], "weight_decay": training.weight_decay}]
    if training.logit_scale == "free":
        model.logit_scale.requires_grad_(True)
        groups.append({"params": [model.logit_scale], "weight_decay": 0.0})
        shares.append(training.logit_scale_lr / training.lr)
    optimiser = torch.optim.AdamW(groups, betas=(0.9, 0.98))
    loss_of, losses = open_clip.loss.ClipLoss(), []
    per_epoch = len(images) // training.batch_size
    rates = iter(projection.learning_rates(training, per_epoch))
    for epoch in range(training.epochs):
        for batch in batch_order(len(images), per_epoch, training.batch_size, [SEED], epoch):
            rate = float(next(rates))
            for group, share in zip(optimiser.param_groups, shares, strict=True):
                group["lr"] = share * rate
            pictures = [Image.open(io.BytesIO(images[row])).convert("RGB") for row in batch]
            pixels = torch.stack([transform(picture) for picture in pictures])
            loss = loss_of(*model(pixels, tokenizer([captions[row] for row in batch])))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                model.logit_scale.clamp_(0, np.log(100))
            losses.append(loss.item())
    image = image.T if hasattr(model.visual, "head") else image
    return (
        image.detach().numpy(),
        model.text_projection.detach().numpy(),
        model.logit_scale.item(),
        losses,
    )


@pytest.mark.parametrize("name", ["native ViT", "shipped"])
@pytest.mark.parametrize("logit_scale", ["frozen", "free"])
def test_cached_training_equals_online_training_by_open_clip(name, logit_scale, pairs, tmp_path):
    folder = SHIPPED if name == "shipped" else build(tmp_path / "vit", NATIVE)
    images, captions = pairs
    order = np.random.default_rng(1).permutation(PAIRS)  # mismatched, as the study's captions are
    training = FinetuningLength(**TRAINING, logit_scale=logit_scale)

    towers = load_towers(folder)
    features = PairedFeatures(
        encode_images(towers, (decode_image(image) for image in images), 16),
        encode_texts(towers, captions, 16),
        order[None],
    )
    start = projection.Projections(
        towers.image_projection.detach().numpy()[None].copy(),
        towers.text_projection.detach().numpy()[None].copy(),
        np.array([towers.logit_scale], np.float32),
    )
    tuned, losses, *_ = projection.finetune(features, start, training, [SEED])

    image, text, scale, expected = _train(
        folder, images, [captions[row] for row in order], training
    )
    np.testing.assert_allclose(losses[0], expected, rtol=1e-4)
    for before, after, theirs in (
        (start.image[0], tuned.image[0], image),
        (start.text[0], tuned.text[0], text),
    ):
        moved = np.abs(theirs - before).max()
        assert moved > 0.01
        np.testing.assert_allclose(after, theirs, rtol=0, atol=1e-4 * np.abs(theirs).max())
    assert tuned.logit_scale[0] == pytest.approx(scale, rel=1e-5)
    assert (scale != pytest.approx(start.logit_scale[0], abs=1e-3)) == (logit_scale == "free")
    assert np.ptp(expected) > 0.05
