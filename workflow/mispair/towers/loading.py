"""Loading of towers with linear final projections, from a local open_clip folder.

The study changes the final projections only. So the output of a tower before its projection is
computed once and serves every projection. `taking_apart` lists the towers that are supported.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mispair.core import files
from mispair.towers.vocabularies import TOKENIZER_NAME, is_joined

if TYPE_CHECKING:
    import torch
    from torch import nn

    Tokenizer = Callable[..., torch.Tensor]
    Loaded = tuple[Any, Callable[[Any], torch.Tensor], Callable[[], Tokenizer]]

CONFIG_NAME = "open_clip_config.json"
WEIGHTS_NAME = "open_clip_model.safetensors"
TRUNK_NAME = "config.json"
"""File of the trunk of the image tower, which timm reads for the name ``local-dir:.``."""
HUGGING_FACE_VOCABULARIES = (
    "merges.txt",
    "spiece.model",
    "tokenizer.json",
    "vocab.json",
    "vocab.txt",
)
"""Files that hold the vocabulary of a Hugging Face tokenizer, by kind of tokenizer."""


CHARACTERS_OF_A_TOKEN = 32
"""No token of CLIP's vocabulary has more; most have less than ten."""


@dataclass(frozen=True)
class Towers:
    """A frozen image tower and text tower, taken apart before their final projections.

    Attributes
    ----------
    model : nn.Module
        The whole model, in evaluation mode, without gradients.
    image_tower, text_tower : nn.Module
        The towers without their final projections, on the weights of `model`: what
        `image_features` and `text_features` run.
    preprocess : callable
        From a PIL picture to a tensor (3, side, side).
    make_tokenizer : callable
        Returns the tokenizer; raises a UserError if its files cannot be read.
    context_length : int
        Tokens of a text; longer texts are cut.
    image_projection, text_projection : torch.Tensor
        The final projections, (d_image, e) and (d_text, e); columns are the neurons.
    logit_scale : float
        Logarithm of the factor of the similarities.
    fingerprint : str
        SHA-256 of configuration, vocabulary and weights.
    """

    model: nn.Module
    image_tower: nn.Module
    text_tower: nn.Module
    preprocess: Callable[[Any], torch.Tensor]
    make_tokenizer: Callable[[], Tokenizer]
    context_length: int
    image_projection: torch.Tensor
    text_projection: torch.Tensor
    logit_scale: float
    fingerprint: str

    @functools.cached_property
    def tokenizer(self) -> Tokenizer:
        """From a list of n texts to token ids (n, context_length).

        It is made when it is first used: that takes a second, and jobs of pictures need none.
        """
        return self.make_tokenizer()

    def image_features(self, images: torch.Tensor) -> torch.Tensor:
        """Return pre-projection features (n, d_image) of pictures (n, 3, side, side).

        ``image_features(x) @ image_projection`` equals ``model.encode_image(x, normalize=False)``.
        """
        import torch

        with torch.inference_mode():
            features: torch.Tensor = self.image_tower(images)
            return features

    def text_features(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return pre-projection features (n, d_text) of token ids (n, context_length).

        ``text_features(t) @ text_projection`` equals ``model.encode_text(t, normalize=False)``.
        """
        import torch

        with torch.inference_mode():
            features: torch.Tensor = self.text_tower(tokens)
            return features

    def truncated(self, texts: Sequence[str], tokens: torch.Tensor) -> np.ndarray:
        """Return which of n texts the tokenizer cut, (n,) bool; tokens are (n, context_length).

        A text is cut if its tokens change when there is room for one more. Only texts whose
        tokens reach the last two places of their row are tried, as some tokenizers blank the end
        token. The result is exact for open_clip's own tokenizer and for those of Hugging Face
        that fill up rows on the right. It is not exact if every row ends in the same token: with
        rows filled up on the left no text counts as cut; with ``"tokenizer_mode": "clips"`` a
        text that exactly fills its row does.
        """
        cut = np.zeros(len(texts), dtype=bool)
        empty = self.tokenizer([""])[0, -2:]
        (suspects,) = np.nonzero((tokens[:, -2:].cpu() != empty).any(1).numpy())
        if len(suspects):
            longer = self.tokenizer([texts[int(row)] for row in suspects], self.context_length + 1)
            changed = (longer[:, :-1] != tokens[suspects].cpu()).any(1)
            # A tokenizer without an end token only adds to a row with more room.
            cut[suspects] = (changed | (longer[:, -1] != empty[-1])).numpy()
        return cut


def load_towers(directory: Path, device: str = "cpu") -> Towers:
    """Load towers from a folder with an ``open_clip_config.json`` and weights, to a torch device.

    Weights are ``open_clip_model.safetensors``; a vocabulary named in the configuration
    (``tokenizer_kwargs.bpe_path``) is in the same folder.

    Raises
    ------
    UserError
        If something is missing or cannot be read, or a final projection is not a plain matrix.
    """
    from mispair.towers import joined
    from mispair.towers.taking_apart import take_apart

    directory = Path(directory).resolve()
    config = _read_config(directory)
    refuse_what_open_clip_would_fetch(config)
    weights = directory / WEIGHTS_NAME
    if not weights.is_file():
        raise files.UserError(f"{weights}: is missing. Towers need their weights as safetensors.")
    identity = fingerprint(directory)
    load, loader = (
        (joined.load, "mispair") if is_joined(config) else (_load_with_open_clip, "open_clip")
    )
    with _explained(directory, loader):
        model, preprocess, make_tokenizer = load(directory, config, weights, device)

    def tokenizer() -> Tokenizer:
        with _explained(directory, loader):
            return make_tokenizer()

    model.eval().requires_grad_(False)
    parts = take_apart(model)
    return Towers(
        model=model,
        image_tower=parts.image_tower,
        text_tower=parts.text_tower,
        preprocess=preprocess,
        make_tokenizer=tokenizer,
        context_length=parts.context_length,
        image_projection=parts.image_projection,
        text_projection=parts.text_projection,
        logit_scale=float(model.logit_scale),
        fingerprint=identity,
    )


STORED_PROJECTIONS = (
    ("visual.proj", "visual.head.proj.weight"),
    tuple(f"{text}text_projection{layer}" for text in ("", "text.") for layer in ("", ".weight")),
    ("logit_scale",),
)
"""Usual names, in files of weights, of the image and the text projection and the log scale."""


def projections(directory: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """Return both final projections, (d, e) in single precision, and the log of the logit scale.

    They are those of `load_towers`. Where the weights have them by the usual names, nothing else is
    read: no towers are built, which takes three seconds of imports.

    Raises
    ------
    UserError
        If the weights cannot be read, or the towers cannot be loaded.
    """
    stored = _stored_projections(directory / WEIGHTS_NAME)
    if stored is None:
        towers = load_towers(directory)
        matrices = (towers.image_projection, towers.text_projection)
        image, text = (matrix.detach().float().numpy() for matrix in matrices)
        return image, text, towers.logit_scale
    image, text, scale = (
        np.ascontiguousarray(array.T if name.endswith(".weight") else array)
        for name, array in stored.items()
    )
    return image, text, float(scale.item())


def _stored_projections(weights: Path) -> dict[str, np.ndarray] | None:
    """Return the arrays of `STORED_PROJECTIONS` by name; None if only `load_towers` finds them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(weights, framework="numpy") as stored:
            names = set(stored.keys())
            matching = [[name for name in usual if name in names] for usual in STORED_PROJECTIONS]
            if any(len(one) != 1 for one in matching):
                return None
            chosen = [name for (name,) in matching]
            biased = any(f"{name.removesuffix('.weight')}.bias" in names for name in chosen)
            kinds = {stored.get_slice(name).get_dtype() for name in chosen}
            if biased or not kinds <= {"F16", "F32"}:
                return None
            return {name: stored.get_tensor(name).astype(np.float32) for name in chosen}
    except (OSError, SafetensorError) as error:
        raise files.UserError(
            f"{weights}: cannot be read as safetensors ({error}). Fetch the file again."
        ) from error


@contextmanager
def _explained(directory: Path, loader: str) -> Iterator[None]:
    """Turn an error of any kind into a UserError: open_clip checks little of what a folder has."""
    try:
        yield
    except files.UserError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise files.UserError(
            f"{directory}: {loader} cannot load it ({reason}). Its open_clip_config.json must "
            "describe the weights, as open_clip's push to a hub writes both."
        ) from error


def _load_with_open_clip(
    directory: Path, config: dict[str, Any], weights: Path, device: str
) -> Loaded:
    """Return model, preparation of pictures and maker of the tokenizer of an open_clip folder."""
    from mispair.towers.light_open_clip import open_clip

    model, _, preprocess = open_clip.create_model_and_transforms(
        f"local-dir:{directory}",
        device=device,
        precision="fp32",
        vision_cfg=with_trunk_in(directory, config["model_cfg"]["vision_cfg"]),
    )
    return model, preprocess, lambda: _tokenizer(directory, config)


def _record(directory: Path) -> dict[str, Any]:
    """Return the record of a converted checkpoint; empty for other folders."""
    path = directory / TRUNK_NAME
    record: dict[str, Any] = (files.read_json(path) if path.is_file() else {}).get("mispair") or {}
    return record


def made_from_laion(directory: Path) -> bool:
    """Return whether a converted checkpoint was pre-trained on LAION-400M, by its record."""
    record = _record(directory)
    stated = [str(record.get(key)) for key in ("pretraining", "pretrained")]
    return record.get("recipe") == "laclip-laion" or any(
        name.lower().replace("-", "").startswith("laion400m") for name in stated
    )


def fingerprint(directory: Path) -> str:
    """Return the SHA-256 over configuration, vocabulary and weights in a folder of towers.

    The formatting of the JSON does not count. Other files in the folder, such as the record of a
    converted checkpoint, do not count either.
    """
    config = _read_config(directory)
    vision, text = (config["model_cfg"][part] for part in ("vision_cfg", "text_cfg"))
    vocabulary = _vocabulary(directory, config)
    trunk = _trunk(directory, vision)
    # The path of the folder does not count.
    if _trunk_folder(directory, vision) == directory.resolve():
        vision["timm_model_name"] = "local-dir:."
    merges = _merges(directory, config)
    if merges and merges.parent == directory:
        text["tokenizer_kwargs"]["bpe_path"] = merges.name
    total = hashlib.sha256(json.dumps(config, sort_keys=True).encode())
    if trunk is not None:
        total.update(json.dumps(trunk, sort_keys=True).encode())
    for path in vocabulary:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    with (directory / WEIGHTS_NAME).open("rb") as opened:
        total.update(hashlib.file_digest(opened, "sha256").digest())
    return total.hexdigest()


def write_configuration(folder: Path, content: dict[str, Any], final: Path) -> None:
    """Write ``open_clip_config.json``, so that open_clip finds its files from any directory.

    The files that timm and the tokenizer read exist in `folder` already, where relative paths of
    `content` start. Paths in the file are absolute and start with `final`, the folder after it is
    renamed.
    """
    content = json.loads(json.dumps(content))
    vision = content["model_cfg"]["vision_cfg"]
    tokenizer = content["model_cfg"]["text_cfg"].get("tokenizer_kwargs") or {}
    if trunk := _trunk_folder(folder, vision):
        target = final / os.path.relpath(trunk, folder.resolve())
        vision["timm_model_name"] = f"local-dir:{target.resolve()}"
    if merges := _merges(folder, content):
        target = final / os.path.relpath(merges, folder)
        tokenizer["bpe_path"] = str(target.resolve())
    files.write_json(folder / CONFIG_NAME, content)


def with_trunk_in(directory: Path, vision: dict[str, Any]) -> dict[str, Any]:
    """Return a ``vision_cfg`` that finds timm's ``local-dir:`` from any working directory.

    timm looks for a relative folder below the working directory, and an absolute one is wrong
    once the folder was moved. The result also turns off timm's own weights, which open_clip's
    configurations request.
    """
    folder = _trunk_folder(directory, vision)
    trunk = {"timm_model_name": f"local-dir:{folder}"} if folder else {}
    return {**vision, **trunk, "timm_model_pretrained": False}


def _trunk(directory: Path, vision: dict[str, Any]) -> dict[str, Any] | None:
    """Return the definition of an image tower that timm builds from a folder; None for others."""
    folder = _trunk_folder(directory, vision)
    if folder is None:
        return None
    content = files.read_json(folder / TRUNK_NAME)
    return {key: content.get(key) for key in ("architecture", "model_args")}


def _trunk_folder(directory: Path, vision: dict[str, Any]) -> Path | None:
    """Return the folder of timm's ``config.json``; `directory` itself if it holds a trunk."""
    scheme, _, folder = str(vision.get("timm_model_name")).partition(":")
    if scheme != "local-dir":
        return None
    trunk = directory / TRUNK_NAME
    holds_trunk = trunk.is_file() and "architecture" in files.read_json(trunk)
    return (directory / ("." if holds_trunk else folder)).resolve()


def _read_config(directory: Path) -> dict[str, Any]:
    path = directory / CONFIG_NAME
    if not path.is_file():
        raise files.UserError(
            f"{path}: is missing. Towers are a folder with {CONFIG_NAME} and {WEIGHTS_NAME}, as "
            "pretrain_towers and open_clip's push to a hub write them."
        )
    config = files.read_json(path)
    model = config.get("model_cfg") if isinstance(config, dict) else None
    if not isinstance(model, dict):
        raise files.UserError(f"{path}: has no model_cfg.")
    for part in ("vision_cfg", "text_cfg"):
        if not isinstance(model.get(part), dict):
            raise files.UserError(f"{path}: its model_cfg has no {part}.")
    return config


def refuse_what_open_clip_would_fetch(config: dict[str, Any]) -> None:
    """Refuse towers that are unsupported by their configuration alone, before a download."""
    from mispair.towers.taking_apart import refusal

    text, vision = config["model_cfg"]["text_cfg"], config["model_cfg"]["vision_cfg"]
    if str(vision.get("timm_model_name")).startswith("hf-hub:"):
        raise refusal("image", f"its trunk is {vision['timm_model_name']}, not a name of timm's")
    if text.get("hf_model_name"):
        raise refusal("text", f"{text['hf_model_name']} is a Hugging Face text tower")
    if (text.get("tokenizer_kwargs") or {}).get("reduction_mask"):
        raise files.UserError(
            "towers: their tokenizer drops words of long texts by chance (reduction_mask), so a "
            "text has no features of its own. Take reduction_mask out of open_clip_config.json."
        )


def _vocabulary(directory: Path, config: dict[str, Any]) -> list[Path]:
    """Return the files of the vocabulary in the folder."""
    text = config["model_cfg"]["text_cfg"]
    if is_joined(config):
        return [directory / TOKENIZER_NAME]
    if text.get("hf_tokenizer_name"):
        paths = [directory / name for name in HUGGING_FACE_VOCABULARIES]
        return [path for path in paths if path.is_file()]
    merges = _merges(directory, config)
    if merges and not merges.is_file():
        raise files.UserError(f"{merges}: is missing, the vocabulary of the towers.")
    return [merges] if merges else []


def _merges(directory: Path, config: dict[str, Any]) -> Path | None:
    """Return the vocabulary of open_clip's own tokenizer, in `directory` if it is there."""
    named = (config["model_cfg"]["text_cfg"].get("tokenizer_kwargs") or {}).get("bpe_path")
    if not named:
        return None
    inside = directory / Path(named).name
    return inside if inside.is_file() else directory / named


def _tokenizer(directory: Path, config: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer, with the vocabulary in the folder of the towers."""
    from mispair.towers import vocabularies
    from mispair.towers.light_open_clip import open_clip

    text = config["model_cfg"]["text_cfg"]
    if vocabularies.is_own(directory, text):
        return bounded(vocabularies.KeptTokenizer(directory, text["context_length"]))
    merges = _merges(directory, config)
    extra = {"bpe_path": str(merges)} if merges else {}
    tokenizer = open_clip.get_tokenizer(f"local-dir:{directory}", **extra)
    if _record(directory).get("recipe") == "laclip-cc":
        from mispair.towers.vocabularies import name_marks_as_laclip

        name_marks_as_laclip(tokenizer)
    return bounded(tokenizer)


def bounded(tokenizer: Any) -> Tokenizer:
    """Return a tokenizer of open_clip that gets no more of a text than it has room for.

    The time of byte-pair encoding grows with the square of a word's length: 36 s for 40,000
    letters, although only 77 tokens are used.
    """

    @functools.wraps(tokenizer)
    def tokenize(texts: str | Sequence[str], context_length: int | None = None) -> torch.Tensor:
        room = CHARACTERS_OF_A_TOKEN * ((context_length or tokenizer.context_length) + 2)
        short = [
            text if len(text) <= room else " ".join(text.split())[:room]
            for text in ([texts] if isinstance(texts, str) else texts)
        ]
        tokens: torch.Tensor = tokenizer(short, context_length)
        return tokens

    return tokenize
