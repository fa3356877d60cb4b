"""Made-up measurements of towers trained from scratch."""

from typing import Any

from mispair.pretraining.settings import BASES, CLEAN, TOWERS

MIXING = {CLEAN: 0.0, "random": 0.001, "spurious": 0.1, "missing": -0.002}
NOISE = (-0.002, 0.0, 0.003, -0.001)


def rows(
    mixing: dict[str, float] = MIXING, seeds: int = 4, accuracy: float = 0.8,
    of_basis: dict[str, float] | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return measurements; linked values look alike by seed, in clean towers as in others."""
    made: list[dict[str, Any]] = []
    for scheme, score in mixing.items():
        for seed in range(seeds):
            here = {"scheme": scheme, "rate": 0.0 if scheme == CLEAN else 0.4, "seed": seed}
            alike = 0.05 * seed + NOISE[seed] * (1 if scheme == "random" else -1)
            for tower in TOWERS:
                for basis in BASES if tower == "image" else BASES[:-1]:
                    value = score * (of_basis or {}).get(basis, 1) + alike
                    made.append({**here, "tower": tower, "basis": basis, "metric": "mixing",
                                 "value": value, "n": 36})  # fmt: skip
                for basis in ("identified", "linear"):
                    made.append({**here, "tower": tower, "basis": basis, "metric": "recovery",
                                 "value": 0.5, "n": 48})  # fmt: skip
                made.append({**here, "tower": tower, "metric": "mean_abs_cosine", "value": 0.08,
                             "n": 64})  # fmt: skip
            for name, chance in (("scenes-shape", 0.125), ("scenes-digit", 0.1)):
                made.append({**here, "evaluation_set": name, "metric": "acc1", "chance": chance,
                             "value": accuracy - seed / 100, "n": 1000})  # fmt: skip
    return made
