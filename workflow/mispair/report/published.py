"""Published numbers, to compare with measured ones."""

import functools
import io
from importlib.resources import files

import pandas as pd

NEURONS = 512
"""Width of the embedding of the published CC3M model: neurons of each projection."""


@functools.cache
def _read(name: str) -> pd.DataFrame:
    path = files("mispair.report") / "published" / f"{name}.csv"
    return pd.read_csv(io.StringIO(path.read_text(encoding="utf-8")))


def _table(name: str) -> pd.DataFrame:
    """Return a copy of a table, which the caller may change; the file is read once."""
    return _read(name).copy()


def figure1() -> pd.DataFrame:
    """Figure 1: spurious_probability, trained_on and its four measures."""
    return _table("figure1_simulation")


def figure1_curve(metric: str, arm: str) -> pd.Series:
    """One curve of figure 1: a measure of an arm by spurious_probability."""
    table = figure1()
    curve: pd.Series = table[table["trained_on"] == arm].set_index("spurious_probability")[metric]
    return curve


def purity() -> pd.DataFrame:
    """Mean |cos| of the CC3M model's text neurons by shuffle_probability, random shuffling."""
    table = purity_by_scheme()
    return table[table["scheme"] == "random"].reset_index(drop=True)


def purity_by_scheme() -> pd.DataFrame:
    """Mean |cos| of the same model by scheme, ``random`` or ``similar``, and shuffle_probability.

    The authors' similarity shuffling draws one of the ten most similar captions.
    """
    table = _table("purity_by_shuffling")
    return table.assign(scheme=table["scheme"].replace("similarity", "similar"))


def table4() -> pd.DataFrame:
    """Table 4: dataset, shuffle_probability, accuracy (a share, not per cent) and silhouette."""
    table = _table("table4_caption_shuffling")
    table["accuracy"] = table.pop("accuracy_percent") / 100
    return table


def pruning() -> pd.DataFrame:
    """Figure 2, CIFAR-10: strategy, neurons_kept of 512 and accuracy."""
    return _table("figure2_cifar10_pruning")


def checkpoints() -> pd.DataFrame:
    """Tables 2 and 3: dataset, pretraining, method, accuracy and top5 (shares), silhouette."""
    table2 = _table("table2_clip_vs_laclip")
    table3 = _table("table3_imagenet").rename(columns={"top1_percent": "accuracy_percent"})
    table = pd.concat([table2, table3], ignore_index=True)
    table["accuracy"] = table.pop("accuracy_percent") / 100
    table["top5"] = table.pop("top5_percent") / 100
    return table


def sufficiency_risks() -> pd.DataFrame:
    """Figure 2 of the companion paper: flip, task, model and risk."""
    return _table("sufficiency_risks")


def sufficiency_prompts() -> pd.DataFrame:
    """Figures 5 and 6 of the companion paper, at p = 0.2: per_class, model and risk."""
    return _table("sufficiency_prompts")


def laclip_imagenet() -> pd.DataFrame:
    """ImageNet by LaCLIP's authors: pretraining, architecture, method, templates, accuracy."""
    table = _table("laclip_imagenet")
    table["accuracy"] = table.pop("accuracy_percent") / 100
    return table
