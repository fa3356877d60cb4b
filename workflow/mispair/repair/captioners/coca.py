"""The captioner `coca`: any CoCa of open_clip, with mispair's decoding loop.

``CoCa.generate`` of open_clip 3.3 needs classes that transformers 5 no longer has, and runs the
whole text again for each token. Here keys and values of read tokens are kept, those of the
picture are computed once, and captions that ended leave the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mispair.core.files import UserError
from mispair.repair.captioners.decoding import Marks, choice, decode, drafts_in_portions, room_for
from mispair.repair.captioners.faults import Draft
from mispair.repair.captioners.vocabulary import speller, tidy
from mispair.towers.preparation import autocast

if TYPE_CHECKING:
    from PIL import Image

    from mispair.repair.captioners.recaption_settings import Settings


class CachedAttention:
    """Attention of one block: to the tokens that were read, which it keeps, or to a picture.

    Parameters
    ----------
    attention : nn.MultiheadAttention
        Of the block.
    room : int
        Most tokens; 0 for attention to a picture.
    """

    def __init__(self, attention: nn.MultiheadAttention, room: int) -> None:
        self.attention, self.room = attention, room
        self.heads, self.width = attention.num_heads, attention.embed_dim
        self.keys = self.values = torch.empty(0)

    def see(self, tokens: Tensor) -> None:
        """Set keys and values of a picture's tokens (b, k, width)."""
        weight, bias = self._projection()
        read = F.linear(tokens, weight[self.width :], None if bias is None else bias[self.width :])
        self.keys, self.values = map(self._split, read.chunk(2, dim=-1))

    def query(self, tokens: Tensor) -> Tensor:
        """Return what tokens (b, width) read from the picture."""
        weight, bias = self._projection()
        projected = F.linear(
            tokens, weight[: self.width], None if bias is None else bias[: self.width]
        )
        return self._attend(self._split(projected[:, None]), self.keys, self.values)

    def read(self, tokens: Tensor, position: int) -> Tensor:
        """Keep the tokens (b, width) of a position; return what they read from all up to it."""
        query, key, value = map(
            self._split, F.linear(tokens, *self._projection())[:, None].chunk(3, dim=-1)
        )
        if position == 0:
            shape = (len(tokens), self.heads, self.room, self.width // self.heads)
            self.keys, self.values = key.new_zeros(shape), key.new_zeros(shape)
        self.keys[:, :, position : position + 1] = key
        self.values[:, :, position : position + 1] = value
        end = position + 1
        return self._attend(query, self.keys[:, :, :end], self.values[:, :, :end])

    def keep(self, rows: Tensor) -> None:
        """Continue with some of the captions only."""
        self.keys, self.values = self.keys[rows], self.values[rows]

    def _projection(self) -> tuple[Tensor, Tensor | None]:
        return self.attention.in_proj_weight, self.attention.in_proj_bias

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        attended = F.scaled_dot_product_attention(query, keys, values)
        output: Tensor = self.attention.out_proj(attended.transpose(1, 2).flatten(2)[:, 0])
        return output


class CocaReading:
    """The text tower and the decoder of a CoCa, while they write captions of a batch.

    Parameters
    ----------
    model : open_clip.CoCa
        In evaluation mode; `room_of` refuses models that are not supported.
    picture : Tensor (b, k, width)
        Tokens of the pictures, the second result of ``model._encode_image``.
    room : int
        Most tokens that are read.
    """

    def __init__(self, model: Any, picture: Tensor, room: int) -> None:
        self.text, self.decoder = model.text, model.text_decoder
        self.of_text = [CachedAttention(b.attn, room) for b in self.text.transformer.resblocks]
        self.of_caption = [CachedAttention(b.attn, room) for b in self.decoder.resblocks]
        self.of_picture = [CachedAttention(b.attn, 0) for b in self.decoder.cross_attn]
        for block, attention in zip(self.decoder.cross_attn, self.of_picture, strict=True):
            attention.see(block.ln_1_kv(picture))

    def step(self, tokens: Tensor, position: int) -> Tensor:
        """Read one token (b,) of each caption; return logits (b, v) of the next one."""
        text, decoder = self.text, self.decoder
        x = text.token_embedding(tokens) + text.positional_embedding[position]
        for block, attention in zip(text.transformer.resblocks, self.of_text, strict=True):
            x = x + block.ls_1(attention.read(block.ln_1(x), position))
            x = x + block.ls_2(block.mlp(block.ln_2(x)))
        if text.cls_emb is None:
            x = text.ln_final(x)
        blocks = zip(decoder.resblocks, self.of_caption, decoder.cross_attn, self.of_picture,
                     strict=True)  # fmt: skip
        for block, caption, cross, picture in blocks:
            x = x + block.ls_1(caption.read(block.ln_1(x), position))
            x = x + block.ls_2(block.mlp(block.ln_2(x)))
            x = x + cross.ls_1(picture.query(cross.ln_1(x)))
            x = x + cross.ls_2(cross.mlp(cross.ln_2(x)))
        logits: Tensor = decoder.ln_final(x) @ decoder.text_projection
        return logits

    def keep(self, rows: Tensor) -> None:
        """Continue with some of the captions only."""
        for attention in [*self.of_text, *self.of_caption, *self.of_picture]:
            attention.keep(rows)


def room_of(model: Any, name: str) -> int:
    """Return how many tokens a CoCa reads.

    Raises
    ------
    UserError
        If the model is no CoCa, or one with blocks of another kind.
    """
    from open_clip.coca_model import CoCa
    from open_clip.transformer import ResidualAttentionBlock, TextTransformer

    if not isinstance(model, CoCa):
        raise UserError(
            f"recaption_pairs: model {name} is {type(model).__name__} of open_clip, not CoCa. "
            "Captioner coca needs one with multimodal_cfg, such as coca_ViT-L-14."
        )
    text: Any = model.text
    decoder: Any = model.text_decoder
    blocks = [*decoder.resblocks, *decoder.cross_attn]
    if isinstance(text, TextTransformer):
        blocks += [*text.transformer.resblocks]
    if not isinstance(text, TextTransformer) or not all(
        isinstance(block, ResidualAttentionBlock) for block in blocks
    ):
        raise UserError(
            f"recaption_pairs: model {name} has text blocks that captioner coca does not have. "
            "Take a CoCa with open_clip's own text tower."
        )
    return min(text.context_length, decoder.context_length)


@dataclass(frozen=True)
class CocaCaptioner:
    """A CoCa with its tokenizer.

    Attributes
    ----------
    model : open_clip.CoCa
        On its device, in evaluation mode.
    preprocess : callable
        From a picture to a tensor (3, side, side).
    marks : Marks
        Of its tokenizer.
    spell : callable
        From lists of tokens to texts.
    settings : Settings
        Settings of the step.
    room : int
        Most tokens of a caption.
    device : str
        Where the model is.
    """

    model: Any
    preprocess: Callable[[Any], Tensor]
    marks: Marks
    spell: Callable[[list[list[int]]], list[str]]
    settings: Settings
    room: int
    device: str

    def caption(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> list[list[Draft]]:
        """Return one draft for each picture; each has a seed of its own."""
        pixels = [self.preprocess(image) for image in images]
        return drafts_in_portions(self._portion, pixels, seeds, self.settings.batch_size)

    @torch.inference_mode()
    def _portion(self, pixels: list[Tensor], seeds: list[int]) -> list[Draft]:
        with autocast(self.settings.precision, self.device):
            _, picture = self.model._encode_image(torch.stack(pixels).to(self.device))
            reading = CocaReading(self.model, picture, self.room)
            choose = choice(self.settings, seeds)
            tokens, lengths = decode(
                reading, len(pixels), self.marks, self.room, choose, self.device
            )
        ends = [length if length >= 0 else self.room for length in lengths]
        texts = self.spell([row[:end].tolist() for row, end in zip(tokens, ends, strict=True)])
        return [
            Draft(tidy(text), bool(length < 0)) for text, length in zip(texts, lengths, strict=True)
        ]


def load_coca(settings: Settings, device: str) -> CocaCaptioner:
    """Load the CoCa that `settings.model` names.

    That is a folder with ``open_clip_config.json`` and weights, or ``ARCHITECTURE@TAG``, whose
    weights open_clip downloads unless it has them.

    Raises
    ------
    UserError
        If open_clip cannot load it, or it is no CoCa.
    """
    import open_clip

    model = str(settings.model)
    name, _, tag = model.partition("@")
    named = f"local-dir:{Path(model).resolve()}" if Path(model).is_dir() else name
    if named == name and not tag:
        raise UserError(
            f"recaption_pairs: model: there is no folder {model}. Give a folder of open_clip, or "
            "ARCHITECTURE@TAG, such as coca_ViT-L-14@mscoco_finetuned_laion2b_s13b_b90k."
        )
    try:
        loaded, _, preprocess = open_clip.create_model_and_transforms(
            named, pretrained=tag or None, device=device, precision="fp32", require_pretrained=True
        )
        tokenizer: Any = open_clip.get_tokenizer(named)
    except Exception as error:  # of any kind: open_clip checks little of what a folder holds
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(
            f"recaption_pairs: model: open_clip cannot load {model} ({reason})."
        ) from error
    room = min(room_of(loaded, model), room_for(settings.max_words))
    loaded.eval().requires_grad_(False)
    marks = marks_of(tokenizer, int(loaded.pad_id))
    return CocaCaptioner(loaded, preprocess, marks, speller(tokenizer), settings, room, device)


def marks_of(tokenizer: Any, filler: int) -> Marks:
    """Return the marks of one of open_clip's tokenizers; the filler ends a caption, too."""
    if hasattr(tokenizer, "sot_token_id"):
        start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
    else:
        inner = tokenizer.tokenizer
        start = inner.bos_token_id if inner.bos_token_id is not None else inner.cls_token_id
        end = inner.eos_token_id if inner.eos_token_id is not None else inner.sep_token_id
    return Marks(int(start), tuple(dict.fromkeys((int(end), filler))), (int(start),))
