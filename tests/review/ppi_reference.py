"""Intervals of ppi-python, the package of the authors of PPI++, on samples of `bench.review`.

It brings numba and gdown, so it is no dependency. ``python -m tests.review.ppi_reference`` prints
the table anew in an environment that has ``ppi-python``.
"""

import numpy as np

from bench import review as bench

SHARE, SEEDS, AUROCS = 0.2, range(6), (0.99, 0.9, 0.75)

INTERVALS: dict[float, tuple[tuple[float, float], ...]] = {
    0.99: ((0.176800, 0.228478), (0.169027, 0.218331), (0.172430, 0.224055),
          (0.130986, 0.185955), (0.192990, 0.213752), (0.175602, 0.217716)),
    0.9: ((0.161628, 0.243443), (0.156518, 0.241560), (0.151960, 0.237903),
          (0.095303, 0.174487), (0.170588, 0.234567), (0.150381, 0.228893)),
    0.75: ((0.148558, 0.246622), (0.157093, 0.261724), (0.149713, 0.254170),
          (0.080201, 0.168926), (0.159267, 0.252935), (0.141288, 0.240686)),
}  # fmt: skip
"""Limits by ppi-python 0.2.3 for each AUROC of the model and each of `SEEDS`."""


def sample(auroc: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return labels and probabilities of a uniform sample, and those of all other pairs."""
    generator = np.random.default_rng([seed, 7])
    wrong, probability = bench.population("random", SHARE, auroc, generator)
    chosen = np.zeros(len(wrong), bool)
    chosen[generator.permutation(len(wrong))[: bench.SIZE]] = True
    return wrong[chosen].astype(float), probability[chosen], probability[~chosen]


def main() -> None:
    """Print the table."""
    from ppi_py import ppi_mean_ci

    for auroc in AUROCS:
        limits = [ppi_mean_ci(*sample(auroc, seed), alpha=0.05) for seed in SEEDS]
        rows = [f"({low.item():.6f}, {high.item():.6f})," for low, high in limits]
        print(f"    {auroc:g}: (", *rows, "    ),", sep="\n        ")


if __name__ == "__main__":
    main()
