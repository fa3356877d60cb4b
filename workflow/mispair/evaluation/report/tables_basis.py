"""Tables of the identified basis: recovery, agreement, monosemanticity, names, autoencoders."""

from __future__ import annotations

import math

import pandas as pd

from mispair.core.words import interval, listing, number
from mispair.evaluation.bases.autoencoders import KINDS
from mispair.evaluation.report import arm_words
from mispair.evaluation.report.protocols import base_arm
from mispair.evaluation.report.series import TOWERS
from mispair.evaluation.report.tables_semantics import SECTION
from mispair.report import style
from mispair.report.table import Table, or_dash
from mispair.report.tables import Tables, records

BASES = {
    "original": ("own basis", style.BLUE),
    "rotated": ("rotated bases", style.GREY),
    "varimax": ("varimax", style.ORANGE),
    "ica": ("ICA", style.GREEN),
    "linear ceiling": ("linear ceiling", style.INK),
}
"""Bases in the order of tables, with their names and colours."""


SEARCHES = ("varimax", "ica")


AUTOENCODERS = {
    "l0": 3, "explained_variance": 3, "dead_share": 3, "seed_agreement": 3, "mean_recovery": 3,
    "features_recovered": 1, "mean_monosemanticity": 4,
}  # fmt: skip
"""Metrics of sparse autoencoders, and their digits."""


LISTED = 8
"""Named neurons of each basis and tower in the table of names."""


def of_projections(tables: Tables) -> pd.DataFrame:
    """Return the rows of whole bases, not of single neurons or features, with the arm in words."""
    whole = tables.of_scheme().bases
    return _in_words(whole[~whole["basis"].isin(KINDS)])


def _in_words(whole: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of whole bases, with the arm in words."""
    whole = whole[whole["neuron"].isna() & whole["feature"].isna()]
    arms = [" ".join(arm_of(row)) for row in records(whole[["start", "scheme", "rate"]])]
    return whole.assign(arm=pd.Series(arms, index=whole.index, dtype="str"))


def arm_of(arm: dict[str, object]) -> tuple[str, ...]:
    """Return the start by its name in the configuration, and C_m."""
    rate = arm_words.cells(arm)[2]
    return (str(arm["start"]),) if rate == "–" else (str(arm["start"]), rate)


def cost(tables: Tables, tower: str, basis: str) -> float:
    """Return the fall of mean recovery from the lowest to the highest C_m; NaN if unmeasured."""
    rows = of_projections(tables)
    rows = arm_words.where(
        rows, start="pretrained", tower=tower, basis=basis, metric="mean_recovery"
    )
    if rows["rate"].nunique() < 2:
        return math.nan
    means = rows.groupby("rate")["value"].mean()
    return float(means.iloc[0] - means.iloc[-1])


def cost_sentence(tables: Tables) -> str:
    """State the loss of mean recovery by the largest share of wrong captions in each basis."""
    costs = {basis: [cost(tables, tower, basis) for tower in TOWERS] for basis in BASES}
    texts = [
        f"{BASES[basis][0]} {' and '.join(number(value, 3, sign=True) for value in values)}"
        for basis, values in costs.items()
        if all(math.isfinite(value) for value in values)
    ]
    if not texts:
        agreement = of_projections(tables)
        agreement = agreement[agreement["metric"] == "split_half_agreement"]
        shares = agreement.loc[agreement["basis"].isin(SEARCHES), "value"]
        null = agreement.loc[agreement["basis"] == "whitened", "high"]
        return (
            f"Components of two halves agree by {number(shares.min(), 2)} to "
            f"{number(shares.max(), 2)}; "
            f"random rotations by at most {number(null.max(), 2)} in 95 % of cases."
        )
    return (
        "Loss of mean recovery at the highest C_m, from pre-trained projections "
        f"({' and '.join(TOWERS)} tower): {listing(texts)}."
    )


def bases(tables: Tables) -> list[Table]:
    """Return recovery, agreement, monosemanticity and names by basis."""
    whole = of_projections(tables)
    return [_recovery(whole, tables), _agreement(whole), _scores(whole), _names(tables),
            _autoencoders(tables)]  # fmt: skip


def _value(rows: pd.DataFrame, metric: str, basis: str, column: str = "value") -> float:
    chosen = arm_words.where(rows, metric=metric, basis=basis)[column].dropna()
    return float(chosen.mean()) if len(chosen) else math.nan


def _each(whole: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    arms = [" ".join(arm_of(arm)) for arm in arm_words.arms(whole)]
    grouped = dict(iter(whole.groupby(["arm", "tower"])))
    return [
        (arm, tower, grouped[arm, tower])
        for arm in dict.fromkeys(arms)
        for tower in TOWERS
        if (arm, tower) in grouped
    ]


def _recovery(whole: pd.DataFrame, tables: Tables) -> Table:
    rows = []
    for arm, tower, each in _each(whole[whole["metric"].isin(["mean_recovery",
                                                              "features_recovered"])]):  # fmt: skip
        cells = []
        for basis in BASES:
            value, above = (
                _value(each, metric, basis) for metric in ("mean_recovery", "features_recovered")
            )
            cells.append(f"{number(value)} ({above:.3g})" if math.isfinite(value) else "–")
        low, high = (_value(each, "mean_recovery", "rotated", limit) for limit in ("low", "high"))
        rows.append((arm, tower, *cells, interval(low, high) if math.isfinite(low) else "–"))
    return Table(
        "Recovery of known features: the neurons, and bases that need no labels",
        ("projections, C_m", "tower", *(name for name, _ in BASES.values()), "rotated bases, 95 %"),
        tuple(rows),
        f"Mean over features of the best |correlation|; in brackets the number above 0.5. "
        f"{cost_sentence(tables)} Fitted on one half of the inputs, measured on the other, mean of "
        "both directions; first seed of one model.",
        section=SECTION,
    )


def _agreement(whole: pd.DataFrame) -> Table:
    rows = []
    for arm, tower, each in _each(whole[whole["metric"].isin(["split_half_agreement",
                                                              "converged"])]):  # fmt: skip
        metric = "split_half_agreement"
        low, high = (_value(each, metric, "whitened", limit) for limit in ("low", "high"))
        converged = [BASES[basis][0] for basis in SEARCHES if _value(each, "converged", basis) != 1]
        rows.append((
            arm, tower, *(or_dash(_value(each, metric, basis), 3) for basis in SEARCHES),
            interval(low, high) if math.isfinite(low) else "–",
            f"not {listing(converged)}" if converged else "yes",
        ))  # fmt: skip
    return Table(
        "Is the basis identified? Agreement of components fitted on two halves",
        ("projections, C_m", "tower", "varimax", "ICA", "random rotations, 95 %", "converged"),
        tuple(rows),
        "Mean |correlation| of components matched one to one. Agreement above the random rotations "
        "needs no ground truth: the embedding’s own distribution singles out the basis.",
        section=SECTION,
        folded=True,
    )


def _scores(whole: pd.DataFrame) -> Table:
    rows = []
    metric = "mean_monosemanticity"
    of_metric = whole[whole["metric"].str.startswith(metric)]
    for reference, of_encoder in of_metric.groupby("reference"):
        for arm, tower, each in _each(of_encoder):
            shown = [or_dash(_value(each, metric, basis), 4)
                     for basis in ("original", "rotated", *SEARCHES)]  # fmt: skip
            shuffled = _value(each, f"{metric}_shuffled", "original")
            rows.append((arm, tower, str(reference), *shown, or_dash(shuffled, 4)))
    return Table(
        "Monosemanticity score",
        ("projections, C_m", "tower", "similarity by", "own basis", "rotated bases", "varimax",
         "ICA", "shuffled inputs"),
        tuple(rows),
        "Mean similarity of pairs of inputs, weighted by a neuron’s activations scaled to [0, 1] "
        "(Pach et al. 2025, in closed form), mean over neurons. Similarity by the tower’s "
        "pre-projection features, and by the known features. Scaling makes every neuron of a dense "
        "basis active for nearly all inputs, so the score stays near that of shuffled inputs.",
        section=SECTION,
        folded=True,
    )  # fmt: skip


def _names(tables: Tables) -> Table:
    arm = base_arm(tables.bases)
    rows = []
    for tower in TOWERS:
        of_tower = arm[arm["tower"] == tower]
        for basis in ("original", "rotated", *SEARCHES):
            named = of_tower[(of_tower["metric"] == "name_auc") & (of_tower["basis"] == basis)]
            best = named.sort_values(["value", "neuron"], ascending=[False, True])[:LISTED]
            labels = [f"{row['feature']} ({row['value']:.2f})" for row in records(best)]
            mean = _value(of_tower, "mean_name_auc", basis)
            if math.isfinite(mean):
                shuffled = _value(of_tower, "mean_name_auc_shuffled", basis)
                rows.append((
                    tower, BASES[basis][0], number(mean), or_dash(shuffled, 3),
                    ", ".join(labels) or "–",
                ))  # fmt: skip
    return Table(
        "Names of neurons: the word of captions that predicts each best",
        ("tower", "basis", "mean AUC", "captions shuffled", "best names (AUC)"),
        tuple(rows),
        "AUC: probability that an input whose caption has the word activates the neuron more than "
        "one whose caption does not; 0.5 is chance. “not” marks words that go with low activation. "
        "Chosen on one half of the inputs, measured on the other.",
        section=SECTION,
        folded=True,
    )


def _autoencoders(tables: Tables) -> Table:
    whole = tables.of_scheme().bases
    whole = whole[
        whole["basis"].isin(KINDS) & (whole["reference"].fillna("features") == "features")
    ]
    rows = []
    for arm, tower, each in _each(_in_words(whole)):
        for basis in KINDS:
            numbers = [_value(each, metric, basis) for metric in AUTOENCODERS]
            cells = [
                or_dash(value, digits)
                for value, digits in zip(numbers, AUTOENCODERS.values(), strict=True)
            ]
            rows.append((arm, tower, basis, *cells))
    return Table(
        "Sparse autoencoders",
        ("projections, C_m", "tower", "autoencoder", "active latents", "explained variance",
         "dead latents", "agreement of seeds", "recovery", "features above 0.5",
         "monosemanticity score"),
        tuple(rows),
        "TopK autoencoders of the embeddings (Gao et al. 2024), trained on one half of the inputs "
        "and measured on the other, mean of two seeds. Agreement: mean cosine of the two seeds’ "
        "directions, without dead latents, matched one to one. The Gaussian autoencoder learns "
        "normal draws of the same covariance, which have no features: its values are no sign of "
        "features. Recovery: mean over known features of the best |correlation| with a latent. The "
        "best of many latents is high by chance; the untrained autoencoder shows how high. Score: "
        "as above, similarity by the pre-projection features.",
        section=SECTION,
        folded=True,
    )  # fmt: skip
