"""Files of a captioner that a job depends on."""

from __future__ import annotations

from pathlib import Path

from mispair.core.files import UserError


def model_files(captioner: str, model: str | None) -> list[str]:
    """Return the files of a captioner that a job depends on; none of a tag or a function.

    Raises
    ------
    UserError
        If a model is needed and not named, or there is no such file or folder.
    """
    if captioner not in ("coca", "transformers", "given"):
        return []
    if model is None:
        kind = "table of captions" if captioner == "given" else "folder of the model"
        raise UserError(
            f"recaption_pairs: captioner {captioner} needs a model: set model to the {kind}."
        )
    path = Path(model)
    if path.is_dir() and captioner != "given":
        return sorted(str(file) for file in path.rglob("*") if file.is_file())
    if path.is_file() and captioner == "given":
        return [model]
    if captioner == "coca" and "@" in model:
        return []
    raise UserError(f"recaption_pairs: model: there is no {path.absolute()}.")
