"""Folders that mispair ships and writes, loaded by open_clip alone and from elsewhere."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mispair.cli import main
from mispair.core.files import read_json
from mispair.towers import loading
from mispair.towers.checkpoints import architectures
from mispair.towers.dag import SHIPPED
from tests.towers.test_model_recipes import SMALL, cc_shapes, random_weights
from tests.towers.test_step_convert_checkpoint import CC, convert, trainer_file

TEXTS = ["A red circle!", "don't stop: 12 squares &amp; a caf\u00e9", "an orange ring " * 20, ""]
BY_OPEN_CLIP = """
import sys, numpy, open_clip, torch
assert "mispair" not in sys.modules
texts = open("texts").read().split("|")
for number, folder in enumerate(sys.argv[1:]):
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokens = open_clip.get_tokenizer(f"local-dir:{folder}")(texts)
    pictures = torch.randn(2, 3, *model.visual.image_size, generator=torch.manual_seed(0))
    with torch.no_grad():
        image, text = model.eval().encode_image(pictures), model.encode_text(tokens)
    numpy.savez(f"{number}.npz", tokens=tokens, image=image, text=text, pictures=pictures)
"""


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Convert a LaCLIP checkpoint of small towers, into a folder named by a relative path."""
    monkeypatch.setattr(architectures, "of_recipe", lambda *_: [architectures.cc(SMALL)])
    checkpoint = trainer_file(tmp_path / "cc3m_laclip.pt", random_weights(cc_shapes()))
    monkeypatch.chdir(tmp_path)
    return convert(CC, [checkpoint], Path("converted"))


def test_open_clip_alone_loads_them_from_another_working_directory(converted, tmp_path):
    folders = [SHIPPED["shipped"], converted.resolve()]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "texts").write_text("|".join(TEXTS), encoding="utf-8")
    # Another model there, which a search below the working directory would take.
    (elsewhere / loading.TRUNK_NAME).write_text('{"architecture": "test_vit"}')
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-c", BY_OPEN_CLIP, *map(str, folders)],
        **{"cwd": elsewhere, "check": True, "env": environment | {"HF_HUB_OFFLINE": "1"}},
    )
    for number, folder in enumerate(folders):
        towers = loading.load_towers(folder)
        plain = np.load(elsewhere / f"{number}.npz")
        tokens = towers.tokenizer(TEXTS)
        np.testing.assert_array_equal(plain["tokens"], tokens)
        image = towers.image_features(torch.tensor(plain["pictures"])) @ towers.image_projection
        text = towers.text_features(tokens) @ towers.text_projection
        np.testing.assert_allclose(plain["image"], image, rtol=0, atol=1e-5)
        np.testing.assert_allclose(plain["text"], text, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("converted")
def test_a_folder_that_names_itself_comes_out_again(tmp_path: Path) -> None:
    spec = json.dumps(CC | {"checkpoint": "cc3m_laclip.pt"})
    job = ["--spec", spec, "--checkpoint", "cc3m_laclip.pt", "--towers", "again"]
    assert main(["convert-checkpoint", *job]) == 0
    configuration = read_json(tmp_path / "again" / loading.CONFIG_NAME)
    name = configuration["model_cfg"]["vision_cfg"]["timm_model_name"]
    assert name == f"local-dir:{tmp_path / 'again'}"
    (record,) = tmp_path.rglob("*.run.json")
    assert main(["rerun", str(record.relative_to(tmp_path))]) == 0


def test_a_moved_folder_is_the_same_towers(converted: Path, tmp_path: Path) -> None:
    before = loading.load_towers(converted)
    shutil.move(converted, tmp_path / "moved")
    converted.mkdir()
    (converted / loading.TRUNK_NAME).write_text('{"architecture": "test_vit"}')
    after = loading.load_towers(tmp_path / "moved")
    assert after.fingerprint == before.fingerprint
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert torch.equal(after.image_features(images), before.image_features(images))
