"""Trials of the audit with known wrong captions: estimates, other methods, and trainings."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from mispair.audit import probability as probabilities
from mispair.audit.pairs import PairEmbeddings, project
from mispair.audit.rate import Rate, trusted_rates, untrusted_rates
from mispair.audit.score import Ranks, deal, rank
from mispair.audit.similar import audited_similar_rate, draw_similar, similar_ranks
from mispair.core import seeds
from mispair.core.metrics import Row
from mispair.pairs.corruption.corruption import shuffle_captions
from mispair.pairs.corruption.scheme import MAIN, audited, can_exchange
from mispair.pairs.neighbours.similarity import nearest_rows
from mispair.towers.features import PairedFeatures
from mispair.towers.finetuning import projection as projections
from mispair.towers.finetuning.finetuning_settings import FineTuning, resolve

# Scores of pairs by published methods, for comparison: larger is more suspicious.

NEIGHBOURS = 30
TAU_DISTANCE, TAU_PAIR, WEIGHT = 0.1, 5.0, 5.0
"""Hyperparameters that LEMoN states for data without labelled mismatches."""


def two_gaussians(similarity: np.ndarray, seed: int) -> np.ndarray:
    """Return the posterior of the component with the larger loss, (n,); loss is 1 − similarity.

    A mixture of two normal distributions on losses scaled to [0, 1], as NCR separates clean pairs
    from noisy ones (Huang et al., "Learning with noisy correspondence", NeurIPS 2021).
    """
    from sklearn.mixture import GaussianMixture

    loss = 1 - similarity.astype(np.float64)
    scaled = ((loss - loss.min()) / max(float(np.ptp(loss)), 1e-12))[:, None]
    mixture = GaussianMixture(2, max_iter=10, tol=1e-2, reg_covar=5e-4, random_state=seed)
    mixture.fit(scaled)
    posterior: np.ndarray = mixture.predict_proba(scaled)[:, int(mixture.means_.argmax())]
    return posterior


def neighbour_disagreement(images: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Return LEMoN's score, (n,): the pair's distance, and how its neighbours disagree.

    For the nearest pictures: the distance of their captions to this one, with less weight for far
    pictures and for pairs that do not fit. The same for the nearest captions (Zhang et al.,
    "LEMoN: label error detection using multimodal neighbors", ICML 2025, equations 2 to 4).

    Parameters
    ----------
    images, texts : (n, e) float32 arrays
        Embeddings of length 1.
    """
    distance = 1 - np.einsum("ne,ne->n", images, texts)
    k = min(NEIGHBOURS, len(images) - 1)
    score = distance.astype(np.float64)
    for near, opposite in ((images, texts), (texts, images)):
        start = 0
        for neighbours, cosines in nearest_rows(near, k):
            rows = slice(start, start + len(neighbours))
            apart = 1 - np.einsum("me,mke->mk", opposite[rows], opposite[neighbours])
            weight = np.exp(-TAU_DISTANCE * (1 - cosines) - TAU_PAIR * distance[neighbours])
            score[rows] += WEIGHT * (apart * weight).mean(axis=1)
            start += len(neighbours)
    return score


STOCK = 10
"""Captions that are boilerplate in a trial."""


@dataclass(frozen=True)
class Injection:
    """Captions of n pairs, some of them known to be wrong.

    Attributes
    ----------
    scheme : str
        A scheme of corruption (`audited`), ``boilerplate`` (one of a few captions that fit many
        pictures) or ``filtered`` (captions permuted, then the pairs with low cosines left out).
    rate : float
        Requested share.
    source : (n,) int array
        The pair whose caption each pair has.
    wrong : (n,) bool array
        Whether the words of a pair's caption changed.
    """

    scheme: str
    rate: float
    source: np.ndarray
    wrong: np.ndarray


def inject(
    scheme: str, rate: float, texts: np.ndarray, nearest: np.ndarray, seed: int
) -> Injection:
    """Make the captions of a share of pairs wrong.

    Parameters
    ----------
    scheme : str
        How: one of `audited`, whose captions are permuted, or one of the most similar ones.
    rate : float
        Share of pairs.
    texts : (n,) int array
        Captions with the same words have the same number.
    nearest : (n, k) int array
        Pairs with the captions most similar to each; -1 is none. Not read to permute.
    seed : int
        Of the draw.
    """
    n = len(texts)
    generator = seeds.generator(seed, "audit", scheme, repr(rate))
    source = np.arange(n)
    if audited()[scheme] == "random":
        source = shuffle_captions(np.arange(n), rate, generator, texts)
    elif rate > 0:
        chosen = generator.permutation(n)[: round(rate * n)]
        source[chosen] = draw_similar(chosen, texts, nearest, generator)
    return Injection(scheme, rate, source, texts[source] != texts)


def injections(
    rates: Sequence[float], texts: np.ndarray, nearest: np.ndarray, seed: int
) -> list[Injection]:
    """Return `inject` of each scheme and rate that is possible; at 0 all schemes are the same."""
    return [
        inject(scheme, rate, texts, nearest, seed)
        for scheme in audited()
        for rate in rates
        if can_exchange(rate, len(texts)) and (rate > 0 or scheme == MAIN)
    ]


@dataclass(frozen=True)
class AuditTrial:
    """Pairs of a corpus on which the audit is tried.

    Attributes
    ----------
    embeddings : PairEmbeddings
        Of all pairs, by the untouched model.
    sample : (m,) int array
        The pairs that are judged.
    same : two (n,) int arrays
        Pictures and texts of all pairs by number.
    nearest : (n, k) int array
        Pairs with the captions most similar to each; -1 is none.
    seed : int
        Of all draws.
    device : {"cpu", "cuda"}
        Where to compute.
    empty : (n,) bool array, optional
        Pairs whose own text describes nothing.
    """

    embeddings: PairEmbeddings
    sample: np.ndarray
    same: tuple[np.ndarray, np.ndarray]
    nearest: np.ndarray
    seed: int
    device: str
    empty: np.ndarray | None = None

    def ranks(self, injection: Injection, scored: bool = False) -> Ranks:
        """Return ranks of the sample under an injection, by the untouched model."""
        captions = injection.source[self.sample]
        images, texts = self.embeddings.images_of(self.sample), self.embeddings.texts_of(captions)
        empty = None if self.empty is None else self.empty[captions]
        same = self.same[1][captions]
        return _ranks(images, texts, same, self.seed, self.device, scored, empty)


def _ranks(
    images: np.ndarray, captions: np.ndarray, texts: np.ndarray, seed: int, device: str,
    scored: bool = False, empty: np.ndarray | None = None,
) -> Ranks:  # fmt: skip
    n = len(images)
    blocks = ((block, images[block], captions[block]) for block in deal(n, seed))
    return rank(blocks, (np.arange(n), texts), seed, device, scored=scored, empty=empty)


def boilerplate(trial: AuditTrial, rate: float) -> Injection:
    """Give a share of the judged pairs stock captions, each the one that fits its picture best.

    Stock captions are the `STOCK` captions of the corpus that fit its pictures best on average.
    They are words of other pairs, and rank better than a caption drawn at random.
    """
    pictures = trial.embeddings.images_of(trial.sample)
    fit = trial.embeddings.texts_of(trial.sample) @ pictures.mean(axis=0)
    stock = trial.sample[np.argsort(-fit, kind="stable")[:STOCK]]
    generator = seeds.generator(trial.seed, "audit", "boilerplate")
    chosen = generator.permutation(len(trial.sample))[: round(rate * len(trial.sample))]
    best = np.argmax(pictures[chosen] @ trial.embeddings.texts_of(stock).T, axis=1)
    texts, source = trial.same[1], np.arange(len(trial.same[1]))
    source[trial.sample[chosen]] = stock[best]
    return Injection("boilerplate", rate, source, texts[source] != texts)


def filtered(trial: AuditTrial, rate: float) -> tuple[AuditTrial, Injection]:
    """Permute captions, and leave out pairs as a filter by cosines does.

    Pairs with less than the median cosine of wrong ones are left out, so about a share `rate` of
    those that remain is wrong.
    """
    before = 2 * rate / (1 + rate)
    injection = inject(MAIN, before, trial.same[1], trial.nearest, trial.seed)
    images = trial.embeddings.images_of(trial.sample)
    texts = trial.embeddings.texts_of(injection.source[trial.sample])
    cosines = np.einsum("ne,ne->n", images, texts)
    wrong = cosines[injection.wrong[trial.sample]]
    kept = cosines >= (np.median(wrong) if len(wrong) else -np.inf)
    remaining = replace(trial, sample=trial.sample[kept])
    return remaining, replace(injection, scheme="filtered", rate=rate)


def untouched_rows(
    trial: AuditTrial, injection: Injection, trusted: int, ranked: Ranks | None = None
) -> list[Row]:
    """Return rates that the untouched model estimates, with and without trusted pairs.

    `ranked` are the ranks under the injection, if they are known. ``mixture`` is the estimate
    without trusted pairs: it has an upper limit, and `low` is NaN.
    """
    wrong = injection.wrong[trial.sample]
    ranked = trial.ranks(injection) if ranked is None else ranked
    storey, reported = untrusted_rates(ranked.histograms)
    generator = seeds.generator(trial.seed, "audit", "trusted", injection.scheme, injection.rate)
    is_trusted = np.zeros(len(wrong), bool)
    order = generator.permutation(np.flatnonzero(~wrong))
    is_trusted[order[: min(trusted, len(wrong) // 10)]] = True
    rates = {"storey": storey, "mixture": reported}
    with suppress(ValueError):
        rates["trusted"] = trusted_rates(ranked.p_values, is_trusted)
    if audited().get(injection.scheme) == "similar" and "trusted" in rates:
        pairs = trial.sample, injection.source[trial.sample], trial.sample[is_trusted]
        near, swapped = similar_ranks(
            trial.embeddings, *pairs, trial.nearest, trial.same, trial.seed
        )
        with suppress(ValueError):
            rates["similar"] = audited_similar_rate(
                near, is_trusted, swapped, ranked.p_value, rates["trusted"],
                ranked.histograms.shape[3], storey.dispersion,
            )  # fmt: skip
    origin = {**_origin(injection, wrong, "untouched"), "trusted": int(is_trusted.sum())}
    return [_row(origin, name, rate) for name, rate in rates.items()]


def compared_rows(
    trial: AuditTrial, injection: Injection, ranked: Ranks | None = None
) -> list[Row]:
    """Return how well methods separate wrong pairs from right ones, and how reliable ours is.

    There is no row where no caption is wrong, or all are. `ranked` are the ranks under the
    injection, with scores, if they are known.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    wrong, embeddings = injection.wrong[trial.sample], trial.embeddings
    if wrong.all() or not wrong.any():
        return []
    ranked = trial.ranks(injection, scored=True) if ranked is None else ranked
    rate = untrusted_rates(ranked.histograms)[1].value
    chance = probabilities.probabilities_of(ranked, rate, trial.seed)
    scores = {
        "probability": chance,
        "cosine": -ranked.similarity.astype(np.float64),
        "two-gaussians": two_gaussians(ranked.similarity, trial.seed),
        "neighbour-disagreement": neighbour_disagreement(
            embeddings.images_of(trial.sample), embeddings.texts_of(injection.source[trial.sample])
        ),
    }
    origin = _origin(injection, wrong, "untouched")
    rows = [
        {**origin, "metric": metric, "method": method, "value": float(area(wrong, score))}
        for method, score in scores.items()
        for metric, area in (("auroc", roc_auc_score), ("auprc", average_precision_score))
    ]
    if injection.scheme == MAIN:
        for mean, share, n in probabilities.reliability(chance, wrong):
            rows.append({**origin, "metric": "reliability", "at": mean, "value": share, "n": n})
    return rows


def trained_rows(
    trial: AuditTrial,
    injections: Sequence[Injection],
    features: PairedFeatures,
    model: projections.Projections,
) -> list[Row]:
    """Return the rates by projections that were trained on these pairs.

    Projections are fitted on each half. Scoring the half that they were fitted on (``memorised``)
    judges a model on its training pairs; scoring the other half (``cross-fitted``) judges it
    on new ones. `features` are of the sample, with a draw for each injection; `model` is the start.
    """
    m, seed = len(trial.sample), trial.seed
    training = resolve(FineTuning())
    if m // 2 < training.batch_size:
        return []
    order = seeds.generator(seed, "audit", "halves").permutation(m)
    halves = [np.sort(order[start : start + m // 2]) for start in (0, m // 2)]
    runs = [(number, half) for number in range(len(injections)) for half in (0, 1)]
    every = replace(
        features,
        text_rows=np.stack([features.text_rows[number][halves[half]] for number, half in runs]),
        image_rows=np.stack([halves[half] for _, half in runs]),
        keeps_caption=np.stack(
            [~injections[number].wrong[trial.sample][halves[half]] for number, half in runs]
        ),
    )
    names = [seeds.integer(seed, "audit", "training", *run) for run in runs]
    initial = projections.starting_point(model, names)
    tuned = projections.finetune_in_portions(every, initial, training, names, trial.device)
    histograms: dict[tuple[int, str], np.ndarray] = {}
    for run, (number, fitted) in enumerate(runs):
        weights = tuned.projections.image[run], tuned.projections.text[run]
        images = project(features.image_features, weights[0], features.crops)
        texts = project(features.text_features, weights[1])
        numbers = trial.same[1][injections[number].source[trial.sample]]
        for scorer, judged in (("memorised", fitted), ("cross-fitted", 1 - fitted)):
            half = halves[judged]
            captions = texts[features.text_rows[number][half]]
            ranked = _ranks(images[half], captions, numbers[half], seed, trial.device)
            so_far = histograms.get((number, scorer), 0)
            histograms[number, scorer] = so_far + ranked.histograms
    rows = []
    for (number, scorer), counts in histograms.items():
        origin = _origin(injections[number], injections[number].wrong[trial.sample], scorer)
        storey, reported = untrusted_rates(counts)
        rows += [_row(origin, "storey", storey), _row(origin, "mixture", reported)]
    return rows


def _origin(injection: Injection, wrong: np.ndarray, scorer: str) -> Row:
    return {
        "scheme": injection.scheme, "injected": injection.rate, "made": float(wrong.mean()),
        "scorer": scorer, "n": len(wrong),
    }  # fmt: skip


def _row(origin: Row, method: str, rate: Rate) -> Row:
    limits = {"value": rate.value, "low": rate.low, "high": rate.high}
    return {**origin, "metric": "rate", "method": method, **limits}
