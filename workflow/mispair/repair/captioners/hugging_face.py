"""The captioner `transformers`: BLIP, BLIP-2, GIT, Florence-2 and others from a local folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from mispair.core import seeds
from mispair.core.devices import in_portions
from mispair.core.files import UserError, snapshot
from mispair.repair.captioners.decoder import room_for
from mispair.repair.captioners.faults import Draft
from mispair.towers.preparation import autocast

if TYPE_CHECKING:
    from PIL import Image

    from mispair.repair.captioners.recaption_settings import Settings


@dataclass(frozen=True)
class HuggingFaceCaptioner:
    """A model of transformers with its processor.

    Attributes
    ----------
    model : transformers.PreTrainedModel
        From images, and a prompt for some, to text; on its device, in evaluation mode.
    processor : transformers.ProcessorMixin
        Prepares pictures and prompts, and turns tokens into text.
    settings : Settings
        Settings of the step.
    device : str
        Where the model is.
    """

    model: Any
    processor: Any
    settings: Settings
    device: str

    def caption(self, images: Sequence[Image.Image], seeds: Sequence[int]) -> list[list[Draft]]:
        """Return one draft for each picture.

        Draws depend on the seeds of all pictures that are captioned at once: transformers has one
        generator for a batch.
        """

        def of_rows(rows: Sequence[int]) -> list[Draft]:
            return self._portion([images[row] for row in rows], [seeds[row] for row in rows])

        size = self.settings.batch_size
        portions = in_portions(range(len(images)), size, "pictures", of_rows)
        return [[draft] for portion in portions for draft in portion]

    @torch.inference_mode()
    def _portion(self, images: list[Image.Image], seeds_of: list[int]) -> list[Draft]:
        settings, room = self.settings, room_for(self.settings.max_words)
        texts = {"text": [settings.prompt] * len(images)} if settings.prompt else {}
        inputs = self.processor(images=images, return_tensors="pt", padding=True, **texts)
        inputs.pop("token_type_ids", None)  # of BERT's tokenizer; no captioner reads them
        if settings.prompt and self.model.config.model_type == "git":
            # GIT continues the prompt; the others remove the mark at its end themselves.
            for name in ("input_ids", "attention_mask"):
                inputs[name] = inputs[name][:, :-1]
        inputs = inputs.to(self.device)
        how: dict[str, Any] = {"do_sample": False}
        if settings.decoding == "nucleus":
            # top_k: the default of transformers is 50, which would cut the nucleus.
            how = {"do_sample": True, "top_p": settings.top_p, "top_k": 0,
                   "temperature": settings.temperature}  # fmt: skip
        devices = [torch.cuda.current_device()] if self.device == "cuda" else []
        with torch.random.fork_rng(devices=devices), autocast(settings.precision, self.device):
            torch.manual_seed(seeds.integer(*seeds_of))
            tokens = self.model.generate(
                **inputs, max_new_tokens=room, num_beams=1, use_cache=True, **how
            ).cpu()
        decoded = self.processor.batch_decode(tokens, skip_special_tokens=True)
        return [
            Draft(self._without_prompt(text), self._is_cut(row, room))
            for text, row in zip(decoded, tokens, strict=True)
        ]

    def _is_cut(self, tokens: torch.Tensor, room: int) -> bool:
        """Return whether no mark ends the tokens; a caption may begin with the same mark."""
        ends = self.model.generation_config.eos_token_id
        marks = {*(ends if isinstance(ends, list) else [ends])} | self._special()
        return len(tokens) >= room and int(tokens[-1]) not in marks

    def _special(self) -> set[int]:
        tokenizer = self.processor.tokenizer
        named = (tokenizer.eos_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id)
        return {number for number in named if number is not None}

    def _without_prompt(self, text: str) -> str:
        text, prompt = text.strip(), self.settings.prompt
        begins = prompt and text.casefold().startswith(prompt.casefold())
        return text[len(prompt) :].strip() if begins else text


def load_hugging_face(settings: Settings, device: str) -> HuggingFaceCaptioner:
    """Load a captioner of transformers from a folder; nothing is downloaded, no code of it runs.

    `settings.model` is a folder that ``save_pretrained`` of a model and of its processor wrote.

    Raises
    ------
    UserError
        If the folder is missing, or transformers cannot load it.
    """
    folder = str(snapshot(Path(str(settings.model))))
    if not Path(folder).is_dir():
        raise UserError(
            f"recaption_pairs: model: there is no folder {Path(folder).absolute()}. Captioner "
            "transformers reads a folder with a model and its processor."
        )
    try:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        processor = AutoProcessor.from_pretrained(folder, local_files_only=True)
        model: Any = AutoModelForImageTextToText.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # of any kind: a folder may hold anything
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise UserError(
            f"recaption_pairs: model: transformers cannot load {folder} ({reason}). "
            "`pip install 'mispair[captioners]'` has what some of its models need."
        ) from error
    model = model.to(device).eval().requires_grad_(False)
    return HuggingFaceCaptioner(model, processor, settings, device)
