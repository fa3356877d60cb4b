"""CLIP against LaCLIP: from files with the public keys to numbers beside the published ones."""

import argparse
import io
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from PIL import Image

from mispair.towers.checkpoints import architectures
from tests.towers.test_model_recipes import cc_shapes, random_weights
from tests.workflow.conftest import Checkout

SHALLOW = architectures.RecipeSizes(layers=1, text_layers=1)
"""Those of the public files but for the blocks of the towers; all shapes of these are tested with
the recipes."""
CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


def write_checkpoint(path: Path, seed: int) -> None:
    """Write random weights as LaCLIP's trainer saves them."""
    weights = random_weights(cc_shapes(SHALLOW), seed)
    torch.save(
        {
            "epoch": 35,
            "state_dict": {f"module.{name}": value.half() for name, value in weights.items()},
            "optimizer": {"state": {}, "param_groups": [{"lr": 1e-5}]},
            "scaler": {"scale": 65536.0},
            "best_acc1": 21.5,
            "args": argparse.Namespace(model="CLIP_VITB16", batch_size=256),
        },
        path,
    )


def write_set(folder: Path, images: int) -> None:
    """Write a set of noise in CLIP_benchmark's layout, with the classes of STL-10."""
    (folder / "test").mkdir(parents=True)
    (folder / "classnames.txt").write_text("\n".join(CLASSES) + "\n")
    (folder / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\n")
    (folder / "test/nshards.txt").write_text("1")
    draw = np.random.default_rng(0)
    with tarfile.open(folder / "test/0.tar", "w") as tar:
        for number in range(images):
            buffer = io.BytesIO()
            pixels = draw.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(buffer, "PNG")
            label = str(number % len(CLASSES)).encode()
            for ending, content in (("png", buffer.getvalue()), ("cls", label)):
                member = tarfile.TarInfo(f"s{number:05d}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def compared(empty: Checkout) -> Checkout:
    module = empty.folder / "workflow/mispair/towers/checkpoints/architectures.py"
    public, shallow = "PUBLIC = RecipeSizes()", f"PUBLIC = {SHALLOW}"
    text = module.read_text()
    assert public in text
    module.write_text(text.replace(public, shallow))
    content = yaml.safe_load((empty.folder / "config/laclip.yaml").read_text())
    models = [model for model in content["models"] if model["pretraining"] == "CC12M"]
    for seed, model in enumerate(models):
        model["checkpoint"] = Path(model["checkpoint"]).name
        write_checkpoint(empty.folder / model["checkpoint"], seed)
    write_set(empty.folder / "wds_stl10", 20)
    content |= {"models": models, "evaluation_sets": ["wds_stl10"]}
    (empty.folder / "mine.yaml").write_text(yaml.safe_dump(content))
    return empty


def test_files_of_the_public_layout_stand_beside_the_published_numbers(compared: Checkout) -> None:
    """What a run writes, with the configuration that users start from."""
    compared.snakemake("--configfile", "mine.yaml")
    measured = pd.read_csv(compared.folder / "reports/tables/checkpoints.csv")
    own = measured[(measured["metric"] == "acc1") & (measured["towers"] == "cc12m-laclip")]
    assert set(own["protocol"]) == {"laclip", "clip_benchmark", "single-prompt"}
    assert set(own["method"]) == {"LaCLIP"}
    assert set(own["pretraining"]) == {"CC12M"}
    assert (own["n"] == 20).all()
    figure = pd.read_csv(compared.folder / "reports/figures/laclip/checkpoints.csv")
    assert set(figure["what"]) == {"measured", "published"}
    page = "".join(path.read_text() for path in (compared.folder / "reports/pages").glob("*.html"))
    value = own.loc[own["protocol"] == "laclip", "value"].item()
    for number in (f"{100 * value:.1f}", "95.1", "91.0"):  # 95.1: the paper's LaCLIP on STL-10
        assert number in page
    assert "quick_gelu" in (compared.folder / "reports/tables/provenance.csv").read_text()

    # Overlap of the neurons in the files' own projections, against the cosines of their columns.
    overlap = measured[measured["metric"] == "mean_abs_cosine"].set_index(["towers", "tower"])
    for seed, name in enumerate(("cc12m-clip", "cc12m-laclip")):
        weights = random_weights(cc_shapes(SHALLOW), seed)
        for tower in ("image", "text"):
            columns = weights[f"{tower}_projection"].half().double().numpy()
            columns /= np.linalg.norm(columns, axis=0)
            cosines = np.abs(columns.T @ columns)[~np.eye(columns.shape[1], dtype=bool)]
            assert overlap.loc[(name, tower), "value"] == pytest.approx(cosines.mean(), rel=1e-5)
    assert "Overlap of neurons in the checkpoints" in page

    # Another label in the report computes nothing again.
    content = yaml.safe_load((compared.folder / "mine.yaml").read_text())
    content["models"][0]["pretraining"] = "CC3M"
    (compared.folder / "mine.yaml").write_text(yaml.safe_dump(content))
    planned = compared.planned("--configfile", "mine.yaml")
    report = ("gather_metrics", "record_run", "draw_figures", "write_report")
    assert planned == dict.fromkeys(report, 1)
