"""Towers that are joined from two pre-trained ones: an image trunk of timm's, and a bag of words.

Their folder looks like an open_clip folder, so that every step takes it. open_clip itself has no
text tower that averages token embeddings, so `mispair.towers.loading` loads such a folder with
`build`. ``text_cfg.bag_of_words`` in ``open_clip_config.json`` marks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mispair.core import files
from mispair.core.files import UserError
from mispair.towers.vocabularies import MARK, TOKENIZER_NAME

if TYPE_CHECKING:
    import tokenizers


PADDING = -1
"""Id of a place without a token: no vocabulary has it."""


class BagOfWords(nn.Module):
    """The mean of the embeddings of a text's tokens, and a projection of it.

    Parameters
    ----------
    vocabulary : int
        Number of tokens.
    width : int
        Width d_text of their embeddings.
    neurons : int
        Width e of the result.
    context_length : int
        Tokens of a text; later ones do not count.
    """

    def __init__(self, vocabulary: int, width: int, neurons: int, context_length: int) -> None:
        super().__init__()
        self.context_length = context_length
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.text_projection: nn.Parameter | None = nn.Parameter(torch.zeros(width, neurons))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return embeddings (n, e) of token ids (n, context_length); d_text without projection.

        A text without a token has the embedding zero.
        """
        is_token = (tokens != PADDING).unsqueeze(2)
        embeddings = self.token_embedding(tokens.clamp_min(0)) * is_token
        mean: torch.Tensor = embeddings.sum(1) / is_token.sum(1).clamp_min(1)
        return mean if self.text_projection is None else mean @ self.text_projection


class JoinedModel(nn.Module):
    """An image tower and a bag of words, with the parts that an open_clip model has.

    Parameters
    ----------
    trunk : nn.Module
        From pictures (n, 3, side, side) to features (n, d_image).
    d_image : int
        Number of features.
    text : BagOfWords
        The text tower.
    """

    def __init__(self, trunk: nn.Module, d_image: int, text: BagOfWords) -> None:
        super().__init__()
        head = nn.Sequential()
        assert text.text_projection is not None
        neurons = text.text_projection.shape[1]
        head.add_module("proj", nn.Linear(d_image, neurons, bias=False))
        self.visual = nn.Sequential()
        self.visual.add_module("trunk", trunk)
        self.visual.add_module("head", head)
        self.text = text
        self.logit_scale = nn.Parameter(torch.zeros(()))

    @property
    def image_projection(self) -> nn.Parameter:
        """Return the weight (e, d_image) of the last layer of the image tower."""
        weight = self.visual.get_submodule("head.proj").weight
        assert isinstance(weight, nn.Parameter)
        return weight


def configuration(
    trunk: str, image_size: int, preprocess: dict[str, Any], text: dict[str, int], neurons: int
) -> dict[str, Any]:
    """Return what ``open_clip_config.json`` of joined towers holds.

    Parameters
    ----------
    trunk : str
        timm's name of the image trunk.
    image_size : int
        Side of its pictures in pixels.
    preprocess : dict
        Mean, deviation and interpolation of pictures.
    text : dict
        ``vocab_size``, ``width`` and ``context_length`` of the bag of words.
    neurons : int
        Width e of the embeddings.
    """
    vision = {"timm_model_name": trunk, "image_size": image_size}
    model = {"embed_dim": neurons, "vision_cfg": vision, "text_cfg": {MARK: True, **text}}
    return {"model_cfg": model, "preprocess_cfg": {"size": [image_size] * 2, **preprocess}}


def build(config: dict[str, Any]) -> JoinedModel:
    """Return the model of a configuration, without trained weights.

    Raises
    ------
    KeyError, RuntimeError, TypeError
        If the configuration lacks a size, or timm has no such trunk.
    """
    import timm

    model = config["model_cfg"]
    text = model["text_cfg"]
    trunk: Any = timm.create_model(
        model["vision_cfg"]["timm_model_name"], pretrained=False, num_classes=0
    )
    bag = BagOfWords(text["vocab_size"], text["width"], model["embed_dim"], text["context_length"])
    return JoinedModel(trunk, int(trunk.num_features), bag)


def load(
    directory: Path, config: dict[str, Any], weights: Path, device: str
) -> tuple[JoinedModel, Callable[[Any], torch.Tensor], Callable[[], JoinedTokenizer]]:
    """Return model, preparation of pictures and maker of the tokenizer of a folder.

    Raises
    ------
    Exception
        Of any kind, if files of the folder are missing, damaged or do not fit each other.
    """
    from safetensors.torch import load_file

    from mispair.towers.light_open_clip import open_clip

    model = build(config)
    model.load_state_dict(load_file(weights), strict=True)
    settings = open_clip.transform.PreprocessCfg(**config["preprocess_cfg"])
    preprocess = open_clip.transform.image_transform_v2(settings, is_train=False)
    text = config["model_cfg"]["text_cfg"]
    read = read_tokenizer(directory / TOKENIZER_NAME, text["vocab_size"], text["context_length"])
    return model.to(device), preprocess, lambda: read


class JoinedTokenizer:
    """From texts to token ids (n, length), filled up with `PADDING`, and back; no special tokens.

    Attributes
    ----------
    context_length : int
        Places for tokens, unless a call names another number.
    """

    def __init__(self, reader: tokenizers.Tokenizer, context_length: int) -> None:
        self._reader = reader
        self.context_length = context_length

    def __call__(self, texts: str | Sequence[str], length: int | None = None) -> torch.Tensor:
        """Return the tokens of n texts; surplus tokens are left out."""
        texts = [texts] if isinstance(texts, str) else list(texts)
        length = self.context_length if length is None else length
        ids = torch.full((len(texts), length), PADDING, dtype=torch.long)
        for row, encoding in enumerate(self._reader.encode_batch(texts, add_special_tokens=False)):
            kept = encoding.ids[:length]
            ids[row, : len(kept)] = torch.tensor(kept, dtype=torch.long)
        return ids

    def spell(self, rows: list[list[int]]) -> list[str]:
        """Return the texts that rows of tokens spell."""
        return list(self._reader.decode_batch(rows))


def read_tokenizer(path: Path, vocabulary: int, context_length: int) -> JoinedTokenizer:
    """Read a tokenizer.

    Parameters
    ----------
    path : Path
        A ``tokenizer.json``. Special tokens are left out.
    vocabulary : int
        Number of tokens that have an embedding.
    context_length : int
        Tokens of a text, unless a call names another number.

    Raises
    ------
    UserError
        If the file cannot be read, or has more tokens than there are embeddings.
    """
    from tokenizers import Tokenizer as Reader

    try:
        reader = Reader.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise files.UserError(
            f"{path}: is no tokenizer that can be read ({error}). Write the towers again with "
            "`mispair join-towers`."
        ) from error
    reader.no_padding()
    reader.no_truncation()
    if reader.get_vocab_size() > vocabulary:
        raise files.UserError(
            f"{path}: has {reader.get_vocab_size()} tokens, but only {vocabulary} have an "
            "embedding. Take the tokenizer that belongs to the embeddings."
        )
    return JoinedTokenizer(reader, context_length)


# EfficientNet-lite: from the names of its published weights to timm's, exactly.

ARCHITECTURE = "tf_efficientnet_lite0"
"""timm's name; the weights are from TensorFlow, whose padding depends on the image side."""

PREPROCESSING: dict[str, Any] = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    "resize_mode": "shortest",
}
"""Preprocessing of the published weights, as in ``open_clip_config.json``."""

DEPTHS = (1, 2, 2, 3, 3, 4, 1)
"""Blocks of each stage of EfficientNet-lite0: timm numbers them within their stage."""

STEM = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
CLASSIFIER = "_fc"
FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
"""Layers of a block that does not widen its input: those of the first stage."""
OTHERS = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def renamed(name: str) -> str | None:
    """Return timm's name of a published weight; None for one of the classifier.

    Raises
    ------
    ValueError
        If EfficientNet-lite0 has no such weight.

    Examples
    --------
    >>> renamed("_blocks.1._expand_conv.weight"), renamed("_bn0.bias"), renamed("_fc.bias")
    ('blocks.1.0.conv_pw.weight', 'bn1.bias', None)
    """
    layer, _, rest = name.partition(".")
    if layer == CLASSIFIER:
        return None
    if layer in STEM:
        return f"{STEM[layer]}.{rest}"
    match = re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name)
    block = int(match[1]) if match else sum(DEPTHS)
    layers = OTHERS if block else FIRST
    if match is None or block >= sum(DEPTHS) or match[2] not in layers:
        raise ValueError(f"EfficientNet-lite0 has no weight {name}")
    stage = 0
    while block >= DEPTHS[stage]:
        block, stage = block - DEPTHS[stage], stage + 1
    return f"blocks.{stage}.{block}.{layers[match[2]]}.{match[3]}"


def load_trunk(trunk: nn.Module, state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Load published weights into timm's model without its classifier, strictly.

    Parameters
    ----------
    trunk : nn.Module
        timm's `ARCHITECTURE` with ``num_classes=0``; changed in place.
    state : mapping
        Weights by their published names.
    path : Path
        Their file, for the message.

    Raises
    ------
    UserError
        If a weight is missing, is surplus, or has another shape.
    """
    try:
        names = {name: renamed(name) for name in state}
        trunk.load_state_dict({new: state[old] for old, new in names.items() if new}, strict=True)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise UserError(f"{path}: does not fit EfficientNet-lite0 ({reason}).") from error
