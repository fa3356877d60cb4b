"""What the report says of the audit: its first sentence, verdicts, and numbers in figures."""

import pytest

from mispair.audit.report import claims, figures, words
from mispair.report import verdicts
from mispair.report.tables import Tables, tidy


def rates(scheme="random", scorer="untouched", method="mixture", error=0.0, width=0.01):
    return [
        {"scheme": scheme, "injected": share, "true": share, "scorer": scorer, "method": method,
         "metric": "rate", "value": share + error, "low": share + error - width,
         "high": share + error + width, "n": 1000}
        for share in (0.1, 0.3, 0.8)
    ]  # fmt: skip


def judged(*parts, refused="", right=True):
    made = [row for part in parts for row in part]
    origin = [
        {"artefact": "audit", "key": "refused", "text": refused},
        {"artefact": "calibration", "key": "right", "text": str(right)},
    ]
    tables = Tables(
        {"audit_calibration": tidy("audit_calibration", made),
         "provenance": tidy("provenance", origin)}
    )  # fmt: skip
    return {one.claim.key: one.outcome for one in claims.judge(tables, 0.95)}


def test_nothing_measured_is_no_verdict():
    assert set(judged().values()) == {verdicts.UNMEASURED}


@pytest.mark.parametrize(
    ("error", "width", "outcome"),
    [
        (0.01, 0.02, verdicts.SUPPORTS),
        (0.03, 0.02, verdicts.UNDECIDED),
        (-0.05, 0.02, verdicts.CONTRADICTS),
    ],
)
def test_an_estimate_is_as_good_as_its_largest_error(error, width, outcome):
    assert judged(rates(error=error, width=width))["audit-estimates"] == outcome


def test_a_corpus_with_wrong_captions_of_its_own_is_no_evidence_against_the_estimate():
    own, width = 0.25, 0.01
    made = [
        {**row, "injected": share, "true": share, "value": found, "low": found - width,
         "high": found + width}
        for share, row in zip((0.0, 0.2, 0.6), rates(), strict=True)
        for found in [own + share * (1 - own)]
    ]  # fmt: skip
    assert judged(made)["audit-estimates"] == verdicts.CONTRADICTS
    assert judged(made, right=False)["audit-estimates"] == verdicts.SUPPORTS
    off = [{**row, **{name: row[name] + 0.1 for name in ("value", "low", "high")}}
           if row["injected"] else row for row in made]  # fmt: skip
    assert judged(off, right=False)["audit-estimates"] == verdicts.CONTRADICTS
    similar = [*rates("similar", method="similar"), *rates("similar")]
    found = judged(made, [{**row, "injected": 0.1} for row in similar], right=False)
    assert found["audit-similar"] == verdicts.UNDECIDED


def test_a_model_that_cannot_tell_is_no_evidence_against_the_estimate():
    found = judged(rates(error=0.5), refused="The model cannot tell.")
    assert found["audit-estimates"] == verdicts.UNDECIDED


@pytest.mark.parametrize(
    ("memorised", "fitted", "outcome"),
    [
        (-0.05, 0.0, verdicts.SUPPORTS),
        (-0.05, 0.1, verdicts.UNDECIDED),
        (0.0, 0.0, verdicts.CONTRADICTS),
    ],
)
def test_what_was_memorised_looks_cleaner(memorised, fitted, outcome):
    found = judged(rates(scorer="memorised", error=memorised),
                   rates(scorer="cross-fitted", error=fitted))  # fmt: skip
    assert found["audit-memorised"] == outcome


def test_similar_captions_are_seen_with_trusted_pairs_alone():
    seen = rates("similar", method="similar", error=0.02)
    blind = [{**row, "value": 0.0, "low": 0.0, "high": 0.01} for row in rates("similar")]
    assert judged(seen, blind)["audit-similar"] == verdicts.SUPPORTS
    assert judged(seen, rates("similar"))["audit-similar"] == verdicts.UNDECIDED


def corpus(**metrics):
    rows = [
        {"metric": name, "value": value, "low": low, "high": high}
        for name, (value, low, high) in metrics.items()
    ]
    return Tables({"audit": tidy("audit", rows), "provenance": tidy("provenance", [])})


def test_the_first_sentence_has_the_interval():
    text = words.headline(corpus(wrong_captions=(0.13, 0.12, 0.15)))
    assert "12 %" in text
    assert "15 %" in text
    assert "At most 0.04 %" in words.headline(corpus(wrong_captions=(0.0, 0.0, 0.0004)))
    assert words.headline(corpus()) == ""


def test_what_was_not_measured_is_said():
    alone = " ".join(words.details(corpus(wrong_captions=(0.13, 0.12, 0.15))))
    assert "Captions of similar pictures are not in this rate" in alone
    with_trusted = " ".join(
        words.details(corpus(wrong_captions=(0.13, 0.12, 0.15), trusted=(0.13, 0.12, 0.15),
                             similar_captions=(0.2, 0.18, 0.22)))
    )  # fmt: skip
    assert "18 %" in with_trusted
    assert "known to be right" in with_trusted


def test_figures_hold_the_numbers_of_the_tables():
    tables = Tables({"audit_calibration": tidy("audit_calibration", rates(error=0.01))})
    drawing = figures.audit_calibration(tables)
    assert drawing.data["value"].tolist() == [0.11, 0.31, 0.81]
    assert "0.010" in drawing.sentence
    assert isinstance(figures.audit_p_values(Tables({"audit": tidy("audit", [])})), figures.Hole)
