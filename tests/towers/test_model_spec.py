"""Tests of how models are named: four forms, and nothing left to be guessed."""

import subprocess
import sys

import open_clip
import pytest
from pydantic import ValidationError

from mispair.towers.checkpoints.model_spec import LAION_MODELS, ModelSpec, open_clip_names

FILE = {"model": "ViT-B-32", "checkpoint": "a.pt", "quick_gelu": True, "preprocess": "openai"}
CC = {"recipe": "laclip-cc", "checkpoint": "a.pt"}
LAION = {"recipe": "laclip-laion", "checkpoint": "a.pt"}
TAG = {"model": "ViT-B-32-quickgelu", "pretrained": "openai"}


@pytest.mark.parametrize(("entry", "kind"), [
    ({"folder": "/models/mine"}, "folder"),
    (CC, "recipe"),
    (LAION, "recipe"),
    (LAION | {"model": "ViT-L-14-quickgelu"}, "recipe"),
    (TAG, "tag"),
    (FILE, "file"),
    (FILE | {"quick_gelu": False, "preprocess": "imagenet"}, "file"),
])  # fmt: skip
def test_each_form_is_told_from_the_others(entry: dict, kind: str) -> None:
    spec = ModelSpec(name="mine", pretraining="CC12M", method="LaCLIP", **entry)
    assert spec.kind == kind
    assert ModelSpec.model_validate_json(spec.model_dump_json()) == spec


@pytest.mark.parametrize(("entry", "message"), [
    ({}, "does not say what it is.*folder.*recipe.*pretrained.*quick_gelu, preprocess"),
    ({"quick_gelu": True}, "add model, checkpoint, preprocess"),
    ({"checkpoint": "a.pt"}, "file does not say .* add model, quick_gelu, preprocess"),
    ({"model": "ViT-B-32"}, "add checkpoint, quick_gelu, preprocess"),
    ({"model": "ViT-B-32", "checkpoint": "a"}, "activation .* add quick_gelu, preprocess"),
    ({k: v for k, v in FILE.items() if k != "quick_gelu"}, r"add quick_gelu\."),
    ({k: v for k, v in FILE.items() if k != "preprocess"}, r"add preprocess\."),
    ({"recipe": "laclip-cc"}, r"add checkpoint\."),
    (CC | {"quick_gelu": True}, r"the recipe has .* take out quick_gelu\."),
    (CC | {"preprocess": "openai"}, r"take out preprocess\."),
    (CC | {"pretrained": "openai"}, r"take out pretrained\."),
    (CC | {"folder": "a"}, r"take out checkpoint, recipe\."),
    (CC | {"model": "ViT-B-16"}, "laclip-cc has one architecture; take out model"),
    (TAG | {"checkpoint": "a.pt"}, r"take out checkpoint\."),
    (TAG | {"quick_gelu": True}, r"table of tags has .* take out quick_gelu\."),
    ({"pretrained": "openai"}, r"add model\."),
    # The public L/14 files were trained with QuickGELU, the smaller ones without.
    (LAION | {"model": "ViT-L-14"}, "no model 'ViT-L-14'. Did you mean ViT-L-14-quickgelu"),
    (LAION | {"model": "ViT-B-32-quickgelu"}, r"Did you mean ViT-B-32\?"),
    (LAION | {"model": "ViT-L-14-quickgelu", "quick_gelu": False}, r"take out quick_gelu\."),
    (FILE | {"model": "ViT-B-32-quickgelu", "quick_gelu": False}, "true, or name ViT-B-32"),
    (TAG | {"model": "hf-hub:org/clip"}, "local folder here.*hf download org/clip"),
    (TAG | {"model": "https://a.example/org/clip/tree/main"}, "hf download org/clip"),
    (TAG | {"model": "local-dir:/a/clip"}, "/a/clip"),
    (TAG | {"model": "org/clip"}, "hf download org/clip"),
    (TAG | {"pretrained": "https://a.example/w.pt"}, "Fetch it first"),
    (FILE | {"model": "ViT-B/32"}, "open_clip has no model 'ViT-B/32'. .* ViT-B-32"),
    (FILE | {"recipe": "laclip"}, "recipe"),
    (FILE | {"checkpoints": "a"}, "checkpoints"),
    (FILE | {"name": "../x"}, "name"),
])  # fmt: skip
def test_what_leaves_something_to_be_guessed_is_refused(entry: dict, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ModelSpec(**{"name": "mine", **entry})


def test_names_are_those_of_open_clip() -> None:
    assert set(open_clip_names()) == set(open_clip.list_models())
    assert set(LAION_MODELS) <= set(open_clip_names())


def test_a_specification_is_checked_without_heavy_imports() -> None:
    code = (
        "import sys; from mispair.towers.checkpoints.model_spec import ModelSpec;"
        "ModelSpec(name='a', model='ViT-B-32-quickgelu', pretrained='openai');"
        "print(sorted({'torch', 'open_clip', 'timm', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
