"""Settings of the rules of the repair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from mispair.core import settings
from mispair.repair.rules import RULES

if TYPE_CHECKING:
    RuleName = str
else:
    RuleName = Literal[tuple(RULES)]


class Settings(settings.Settings):
    """Settings of `filter_captions`."""

    rules: list[RuleName] = settings.sweep(
        ["raw", "factor", "drop", "all", "oracle"],
        min_length=1,
        description="Arms of the study. "
        + " ".join(f"{name}: {rule.effect}." for name, rule in RULES.items()),
    )
    rates: list[float] | None = settings.sweep(
        None,
        description="Rates of the first scheme at which the study runs; null takes the largest. 0 "
        "is the corpus as it is, and measures what repair costs right pairs.",
    )
    measures: list[Literal["semantics", "probe"]] = settings.sweep(
        [],
        description="Measures of each arm besides overlap, zero-shot accuracy, retrieval and "
        "silhouette: semantic purity (semantics, where features are known) and linear probes.",
    )
    trains: list[Literal["projections", "towers"]] = settings.sweep(
        ["projections"],
        min_length=1,
        description="What is trained on the captions of each rule. projections: those of frozen "
        "towers (finetune_projection). towers: small towers from scratch (train_small_towers, "
        "whose seeds are the draws), where captioner and scorer come from towers trained from "
        "scratch on the raw captions; needs the generated corpus; the rules posterior, "
        "second-round and factor-untouched are left out.",
    )
    scorer: Annotated[str, settings.Located("raw|untouched|shipped|shipped-1")] = Field(
        "raw",
        description="Model of the cosines: the projections fine-tuned on the raw captions, each "
        "seed on its own draw (raw), the untouched model (untouched), or other towers: shipped, "
        "shipped-1, or a folder with a local open_clip model, which then encode the corpus too.",
    )
    factor: float = Field(
        1.2,
        gt=0,
        description="Factor of factor and of the rules based on it. It compares positive cosines: "
        "a new caption with a cosine of 0 or less replaces none, and one with a positive cosine "
        "replaces any whose cosine is 0 or less.",
    )
    trusted_quantile: float = Field(
        0.05, ge=0, le=1,
        description="The cut of the rule pooled: this quantile of the cosines of trusted pairs.",
    )  # fmt: skip
    kept_share: float = Field(
        0.3, gt=0, lt=1, description="Share of pairs that keep their captions by the rule share."
    )
    posterior: float = Field(
        0.5, gt=0, le=1,
        description="The rule posterior replaces a caption that is wrong with at least this "
        "probability.",
    )  # fmt: skip
    seed: int = Field(0, ge=0, description="Seed of the rules that draw pairs at random.")
