"""Arms of several schemes of corruption in one report."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from scipy import stats

from mispair.image_text.report import claims_schemes, comparison, notes
from mispair.image_text.report import claims_shuffling as claims_image_text
from mispair.image_text.report.rows import swaps
from mispair.pairs.report.pairings import effective, pairings
from mispair.report import published, studies
from mispair.report.figures import compose, printed
from mispair.report.rows import arm, origins
from mispair.report.tables import Tables, tidy

RATES = (0.0, 0.1, 0.3, 0.8)
SLOPES = {"random": 0.08, "similar": 0.05}


def arms(slopes: dict[str, float], first: str, seeds: int = 3) -> list[dict[str, Any]]:
    """Return text and image |cos| of every arm; the one at 0 goes by the name of `first`."""
    return [
        {"start": "pretrained", "scheme": scheme, "rate": rate, "tower": tower, "seed": seed,
         "metric": "mean_abs_cosine", "value": 0.06 + 1e-4 * seed
         + (slope + (1e-5 + 1e-3 * slope) * (seed - 1)) * rate}
        for scheme, slope in slopes.items() for rate in RATES if rate or scheme == first
        for tower in ("text", "image") for seed in range(seeds)
    ]  # fmt: skip


def shares(changed: dict[str, float], first: str, **more: Any) -> list[dict[str, Any]]:
    return [
        row
        for scheme, share in changed.items() for rate in RATES if rate or scheme == first
        for row in swaps({"scheme": scheme, "nominal": repr(rate), "swapped_share": repr(rate),
                          "text_changed_share": repr(rate * share), **more}, 1000)
    ]  # fmt: skip


def tables(**rows: list[dict[str, Any]]) -> Tables:
    return Tables({name: tidy(name, found) for name, found in rows.items()})


@pytest.fixture
def both() -> Tables:
    accuracy = [
        {**row, "evaluation_set": "shapes", "metric": "acc1", "value": 0.9 - row["value"]}
        for row in arms(SLOPES, "similar")
        if row["tower"] == "text"
    ]
    return tables(
        purity=[
            *arms(SLOPES, "similar"),
            {"start": "untouched", "tower": "text", "metric": "mean_abs_cosine", "value": 0.05},
        ],
        zeroshot=accuracy,
        pairs=shares({"random": 1.0, "similar": 0.99}, "similar"),
    )


def judged(found: Tables) -> Any:
    verdict, _ = claims_schemes.judge(found, 0.95)
    assert verdict.claim.key == "similar-less"
    return verdict


def test_projections_name_their_scheme():
    about = {"projection": {"start": "pretrained", "scheme": "drop", "rate": "0.3"}}
    assert arm(about) == {"start": "pretrained", "scheme": "drop", "rate": 0.3}
    assert arm({"projection": {"start": "untouched"}})["scheme"] is None


def test_random_is_the_main_scheme_where_it_was_run(both):
    assert both.schemes == ["random", "similar"]
    assert tables(purity=arms({"similar": 1, "drop": 1}, "similar")).schemes == ["drop", "similar"]
    assert tables().schemes == []


def test_a_scheme_has_its_own_arms_the_one_at_zero_and_the_untouched_model(both):
    for scheme in SLOPES:
        own = both.of_scheme(scheme)
        tuned = own.purity[own.purity["start"] == "pretrained"]
        assert sorted(tuned["rate"].unique()) == list(RATES)
        assert set(tuned.loc[tuned["rate"] > 0, "scheme"]) == {scheme}
        assert len(tuned) == len(RATES) * 6
        assert (own.purity["start"] == "untouched").sum() == 1
        assert len(own.pairs) == len(RATES) * 2
    pd.testing.assert_frame_equal(both.of_scheme().purity, both.of_scheme("random").purity)


def test_claims_and_comparisons_are_on_the_main_scheme_alone(both):
    alone = both.of_scheme("random")
    assert claims_image_text.judge(both, 0.95) == claims_image_text.judge(alone, 0.95)
    assert comparison.image_text(both) == comparison.image_text(alone)
    found = {verdict.claim.key: verdict for verdict in claims_image_text.judge(both, 0.95)}
    assert "0.0601 → 0.1241 from C_m 0 to 0.8" in found["overlap-rises"].measured


@pytest.mark.parametrize("name", [f.name for f in studies.figures("image_text")])
def test_figures_are_of_the_main_scheme_unless_they_compare_schemes(both, name):
    figure = next(figure for figure in studies.figures() if figure.name == name)
    whole, alone = (
        compose(figure, found, 12, 10_000)[0] for found in (both, both.of_scheme("random"))
    )
    assert (whole != alone) == figure.every_scheme


def test_schemes_are_drawn_beside_the_published_ones(both):
    figure = next(f for f in studies.figures() if f.name == "purity_by_scheme")
    spec, data = compose(figure, both, 12, 10_000)
    sentence = spec["usermeta"]["mispair"]["sentence"]
    assert "random +0.0640 and similar +0.0400" in sentence
    for scheme in SLOPES:
        own = data[(data["scheme"] == scheme) & (data["layer"] == "mean")]
        assert sorted(own.loc[own["panel"] == "text", "rate"]) == list(RATES)
    theirs = data[data["panel"] == "published"].set_index(["scheme", "rate"])["value"]
    assert (theirs["random", 0.8], theirs["similar", 0.8]) == (0.127, 0.0999)
    assert (theirs["random", 0.1], theirs["similar", 0.1]) == (0.0762, 0.0693)
    assert len(theirs) == 10


def test_one_scheme_alone_has_nothing_to_be_compared_with():
    figure = next(f for f in studies.figures() if f.name == "purity_by_scheme")
    spec, _ = compose(figure, tables(purity=arms({"random": 1}, "random")), 12, 10_000)
    assert "schemes" in spec["usermeta"]["mispair"]["hole"]
    assert b"Not measured" in printed(spec, 18)["svg"]


def test_the_published_curve_of_the_main_scheme_is_the_random_one():
    assert published.purity()["mean_abs_cosine"].tolist() == [0.0562, 0.0762, 0.0875, 0.1013, 0.127]


@pytest.mark.parametrize(
    ("slopes", "expected"),
    [
        ({"random": 0.08, "similar": 0.02}, "supports"),
        ({"random": 0.02, "similar": 0.08}, "contradicts"),
        ({"random": 0.05, "similar": 0.05}, "no such effect"),
        ({"random": 0.05}, "not measured"),
        ({"similar": 0.05, "drop": 0.01}, "not measured"),
    ],
)
def test_similar_captions_are_judged_against_random_ones_at_each_rate(slopes, expected):
    rows = arms(slopes, next(iter(slopes)))
    for row in rows:  # at least the smallest effect of interest at the smallest rate, too
        row["value"] += (slopes[row["scheme"]] - 0.05) * (row["rate"] > 0)
        row["value"] += 1e-4 * (-1) ** row["seed"] * (row["scheme"] == "similar") * row["rate"]
    assert judged(tables(purity=rows)).outcome == expected


def test_a_crossing_is_stated_and_not_averaged_over():
    """The numbers of a run of the shipped model: above random at first, below it at the end."""
    apart = {0.1: 0.0061, 0.3: 0.0027, 0.8: -0.0105}
    rows = arms({"random": 0.03, "similar": 0.03}, "random")
    for row in rows:
        if row["scheme"] == "similar":
            row["value"] += apart[row["rate"]] + 1e-4 * (row["seed"] - 1)
    verdict = judged(tables(purity=rows))
    assert verdict.outcome == "cannot tell"
    assert "changes its sign between C_m 0.3 and 0.8" in verdict.reason
    assert [part.outcome for part in verdict.parts] == ["contradicts", "no such effect", "supports"]
    assert verdict.effect.p == pytest.approx(
        3 * min(stats.ttest_1samp([a - 1e-4, a, a + 1e-4], 0).pvalue for a in apart.values())
    )


def test_one_seed_decides_nothing_on_schemes():
    assert judged(tables(purity=arms(SLOPES, "random", seeds=1))).outcome == "cannot tell"


def test_the_verdict_on_schemes_shows_its_numbers(both):
    verdict = judged(both)
    assert verdict.measured == (
        "similar 0.0601 → 0.1001; random 0.0601 → 0.1241; similar − random −0.0030 at 0.1, "
        "−0.0090 at 0.3, −0.0240 at 0.8"
    )
    assert "3 seeds" in verdict.sample
    assert "similar 0.0562 → 0.0999, random 0.0562 → 0.1270" in verdict.published


def test_schemes_are_compared_at_equal_effective_rates():
    """Random at 0.24 is as wrong as similar at 0.8: there similar overlaps more, not less."""
    rates = {"random": 1.0, "similar": 0.3}
    rows = [
        {"scheme": scheme, "rate": rate, "metric": metric, "value": share * rate, "n": 100}
        for metric in claims_schemes.EFFECTIVE for scheme, share in rates.items() for rate in RATES
    ]  # fmt: skip
    found = tables(purity=arms(SLOPES, "random"), pairs=rows)
    effects = claims_schemes.equal_effective_rate(
        found, claims_schemes.overlap, "similar", "wrong_feature_share", 0.95
    )
    # Both curves are straight: 0.05 C_m against 0.08 × 0.3 C_m.
    assert {rate: effect.value for rate, effect in effects.items()} == pytest.approx(
        {rate: (0.05 - 0.08 * 0.3) * rate for rate in RATES[1:]}, abs=1e-4
    )
    controls = {control.name: control for control in judged(found).controls}
    for name in claims_schemes.EFFECTIVE.values():
        assert controls[name].finding == "limits"
    unknown = {control.name: control for control in judged(tables(purity=rows_of(SLOPES))).controls}
    assert unknown["Equal effective rate, by features"].finding == "not measured"


def rows_of(slopes):
    return arms(slopes, "random")


def test_accuracy_is_judged_at_each_rate_too(both):
    """Accuracy is 0.9 less the overlap: similar captions harm less at each C_m."""
    harm = claims_schemes.judge(both, 0.95)[1]
    assert harm.claim.key == "similar-harms-less"
    assert harm.measured.endswith("+0.003 at 0.1, +0.009 at 0.3, +0.024 at 0.8")
    worse = [
        {**row, "evaluation_set": "shapes", "metric": "acc1",
         "value": 0.9 - (row["scheme"] == "similar") * (0.05 + 0.001 * row["seed"])}
        for row in arms(SLOPES, "random") if row["tower"] == "text"
    ]  # fmt: skip
    found = tables(purity=arms(SLOPES, "random"), zeroshot=worse)
    assert claims_schemes.judge(found, 0.95)[1].outcome == "contradicts"


def test_mutual_swaps_are_a_control():
    slopes = {**SLOPES, "similar-swap": 0.09}
    controls = {c.name: c for c in judged(tables(purity=arms(slopes, "random"))).controls}
    assert controls["Each caption used as often as before"].finding == "limits"


def test_a_scheme_that_rewrites_captions_swaps_none():
    rows = [
        row
        for rate in (0.0, 0.3)
        for row in swaps({"scheme": "drop", "nominal": repr(rate), "swapped_share": "0.0",
                          "text_changed_share": repr(2 * rate)}, 100)
    ]  # fmt: skip
    figure = next(f for f in studies.figures() if f.name == "realised_swaps")
    spec, _ = compose(figure, tables(pairs=rows, purity=arms({"drop": 1}, "drop")), 12, 10_000)
    sentence = spec["usermeta"]["mispair"]["sentence"]
    assert sentence == "No caption was swapped; at most 60.00 % of the pairs have a rewritten one."


def test_pairings_show_every_share_and_their_notes():
    evil = "<b>10 % of the captions are the same</b>"
    about = {
        "scheme": "similar", "nominal": "0.3", "swapped_share": "0.3",
        "text_changed_share": "0.25", "identical_text_swaps": "1234", "mean_similarity": "0.71",
        "similarity_of": "tfidf", "words_changed_share": "0.125", "seed": "0", "note": evil,
    }  # fmt: skip
    plain = {"scheme": "random", "nominal": "0.0", "swapped_share": "0.0",
             "text_changed_share": "0.0", "mean_similarity": "nan"}  # fmt: skip
    found = tables(
        pairs=[*swaps(about, 20_000), *swaps(plain, 20_000)],
        provenance=[
            row
            for each in (about, plain)
            for row in origins("pairing", {**each, "rate": each["nominal"]})
        ],
    )
    table = pairings(found)
    assert table is not None
    assert table.rows == (
        ("random", "0", "20,000", "0.0000", "0.0000", "–", "–", "–"),
        ("similar", "0.3", "20,000", "0.3000", "0.2500", "1,234", "0.710",
         f"similarity of tfidf; words changed share 0.1250; {evil}"),
    )  # fmt: skip
    assert pairings(tables()) is None


def test_effective_rates_have_a_table_of_their_own():
    about = {
        "scheme": "similar", "nominal": "0.3", "swapped_share": "0.3", "text_changed_share": "0.25",
        "wrong_feature_share": "0.1036", "false_caption_share": "0.2053",
        "unnamed_feature_share": "0.11", "replaced_true_share": "0.297",
        "replaced_same_features_share": "nan", "replaced_right_feature_share": "0.646",
        "distinct_captions": "11622", "most_used_caption": "26",
    }  # fmt: skip
    found = tables(pairs=swaps(about, 20_000))
    (row,) = effective(found).rows
    assert row == ("similar", "0.3", "0.104", "0.205", "0.110", "0.297", "–", "0.646", "11,622",
                   "26")  # fmt: skip
    (plain,) = pairings(found).rows
    assert plain[-1] == "–"  # shares of the other table are not repeated as notes
    assert effective(tables()) is None


def test_a_missing_arm_is_named_with_its_scheme(both):
    assert notes.holes(both) == []
    purity = both.purity
    lost = purity[~((purity["scheme"] == "similar") & (purity["rate"] == 0.3))]
    found = notes.holes(Tables({"purity": lost, "pairs": both.pairs}))
    assert found == ["purity: no pretrained arm of similar at C_m 0.3."]
    lost = purity[purity["rate"] != 0]
    found = notes.holes(Tables({"purity": lost, "pairs": both.pairs}))
    assert found == ["purity: no pretrained arm at C_m 0."]
