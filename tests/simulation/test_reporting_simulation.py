"""Tables, figures and sentences of the simulation, on a made-up study of presets, bridge, grid."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from mispair.report import charts, texts
from mispair.report.figures import draw_of
from mispair.report.table import Number, Table, general
from mispair.report.tables import Tables, origins, tidy, where
from mispair.simulation.report import effects, pages
from mispair.simulation.report.pages import UNSTATED
from mispair.simulation.report.rows import simulated
from mispair.simulation.report.runs import of_preset, points, runs
from mispair.simulation.study import PRESETS

PROBABILITIES = (0.0, 0.1, 0.3, 0.5)
ARMS = ("replace-all", "generated-only", "random-decoder")
SWITCHES = ("encoder", "loss", "misalignment", "test")
MEASURES = {"purified_features": (50, 40), "purified_magnitude": (0.9, 0.6),
            "accuracy": (0.97, 0.9), "silhouette": (0.1, 0.14)}  # fmt: skip
"""Level at C_s = 0 of each measure, and its fall to C_s = 1 on raw captions."""


def trial_rows(
    arm: str, c: float, trial: int, rng: np.random.Generator, shift: float = 0.0
) -> list[dict[str, Any]]:
    """Return what one arm of one trial records."""
    loss = 1.0 if arm == "raw" else 0.5 if arm.startswith("filtered") else 0.7
    rows: list[dict[str, Any]] = [
        {"metric": metric, "definition": definition,
         "value": top * (1 + shift + 0.02 * rng.normal() - 0.1 * (definition == "as-run"))
         - loss * fall * c}
        for metric, (top, fall) in MEASURES.items() for definition in PRESETS
    ]  # fmt: skip
    for tower, noise in (("image", 9.0), ("text", 5.0)):
        rows.append({"metric": "noise_to_signal", "tower": tower, "value": noise})
        of_tower = {"metric": "cosine_histogram", "tower": tower}
        rows += [
            {**of_tower, "from": low / 50, "to": (low + 1) / 50, "value": rng.integers(1, 50)}
            for low in range(50)
        ]
        of_tower = {"metric": "neuron_alignment", "tower": tower}
        rows += [{**of_tower, "neuron": n, "x": 0.8, "y": rng.uniform(0, 0.8)} for n in range(80)]
    here = {"trained_on": arm, "trial": trial, "spurious_probability": c}
    return [{**row, **here} for row in rows]


def lost(arm: str, c: float, trial: int, metric: str, step: int) -> dict[str, Any]:
    return {"trained_on": arm, "trial": trial, "spurious_probability": c, "metric": metric,
            "value": step}  # fmt: skip


@cache
def study(trials: int = 4) -> Tables:
    """Return a whole study: as-written is the base, all arms are run at C_s = 0.3."""
    rows: list[dict[str, Any]] = []

    def add(condition: str, own: list[dict[str, Any]], preset: str = "as-written", **more: Any):
        settings = {**PRESETS[preset], "preset": preset, **more}
        rows.extend(simulated([{"condition": condition, **row} for row in own],
                              {"settings": settings}))  # fmt: skip

    def both(*seed: int, shift: float = 0.0) -> list[dict[str, Any]]:
        rng = np.random.default_rng(seed)
        raw = trial_rows("raw", 0.3, seed[-1], rng, shift)
        return raw + trial_rows("filtered", 0.3, seed[-1], rng, shift / 3)

    for preset, c, trial in itertools.product(PRESETS, PROBABILITIES, range(trials)):
        rng = np.random.default_rng([list(PRESETS).index(preset), round(10 * c), trial])
        more = {0.3: ARMS, 0.0: ("high-quality-only",)} if preset == "as-written" else {}
        if (preset, c, trial) == ("as-run", 0.5, 1):
            own = [*trial_rows("raw", c, trial, rng), lost("filtered", c, 1, "diverged_at_step", 7)]
        else:
            arms = ("raw", "filtered", *more.get(c, ()))
            own = [row for arm in arms for row in trial_rows(arm, c, trial, rng)]
        add(preset, own, preset)
    for (number, switch), trial in itertools.product(enumerate(SWITCHES), range(3)):
        other = {"figure1_definition": "as-run"} if switch == "test" else {}
        shift = -0.3 if switch == "encoder" else 0.0
        add(f"bridge~{switch}", both(7, number, trial, shift=shift), **other)
    cells = itertools.product((0.02, 0.005, 0.0004), ("groups", "partner"), ("practical", "zero"))
    for (number, (noise, model, bias)), trial in itertools.product(enumerate(cells), range(3)):
        own = both(8, number, trial)
        if (noise, model, bias) == (0.02, "partner", "practical"):
            own = [lost(arm, 0.3, trial, "silenced_at_step", 60) for arm in ("raw", "filtered")]
        add(f"grid~{noise:g}~{model}~{bias}", own, image_noise=noise, misalignment=model,
            bias_schedule=bias)  # fmt: skip
    is_point = [row["metric"] == "neuron_alignment" for row in rows]
    return Tables({
        "simulation": tidy("simulation", itertools.compress(rows, np.logical_not(is_point))),
        "simulation_points": tidy("simulation_points", itertools.compress(rows, is_point)),
    })  # fmt: skip


def of(condition: str, metric: str, arm: str, c: float) -> pd.Series:
    """Return a measure in its main definition by trial, straight from the table."""
    keys = {"condition": condition, "metric": metric, "trained_on": arm, "spurious_probability": c}
    own = where(study().simulation, **keys).query("definition == definition_main")
    return own.set_index("trial")["value"].sort_index()


def drawn(name: str, of_study: Tables | None = None) -> charts.Drawing:
    drawing = draw_of(name)(of_study or study())
    assert isinstance(drawing, charts.Drawing)
    return drawing


def test_conditions_are_told_apart() -> None:
    t = study().simulation
    assert set(t["kind"]) == {"preset", "bridge", "grid"}
    assert set(t.loc[t["kind"] == "bridge", "switch"]) == set(SWITCHES)
    assert t.loc[t["kind"] != "bridge", "switch"].isna().all()
    noise = t.groupby("condition")["image_noise_variance"].first()
    assert noise["as-run"] == 0
    assert noise["as-written"] == pytest.approx(0.02)
    assert noise["grid~0.005~groups~zero"] == pytest.approx(0.005)


@pytest.mark.parametrize(("unit", "expected"), [("std", 0.25), ("variance", 0.5)])
def test_noise_is_a_variance_per_coordinate_whatever_its_unit(unit: str, expected: float) -> None:
    settings = {"preset": "as-run", "image_noise": 0.5, "noise_unit": unit, "d1": 2.5}
    (row,) = simulated([{"metric": "accuracy", "value": 1}], {"settings": settings})
    assert row["image_noise_variance"] == pytest.approx(expected)
    assert (row["condition"], row["kind"]) == ("as-run", "preset")


# Selections and effects


def test_a_preset_is_measured_in_its_own_definition() -> None:
    for preset in PRESETS:
        own = runs(of_preset(study().simulation, preset), "accuracy")
        assert own.loc[(0.3, 2), "raw"] == of(preset, "accuracy", "raw", 0.3)[2]


def test_the_oracle_is_the_raw_arm_of_the_same_trial_at_c_s_0() -> None:
    own = runs(of_preset(study().simulation, "as-written"), "accuracy")
    clean = of("as-written", "accuracy", "raw", 0.0)
    assert own["oracle"].xs(0.5, level="spurious_probability").to_dict() == clean.to_dict()


@pytest.mark.parametrize(
    ("switch", "condition"), [("encoder", "bridge~encoder"), (effects.FAR_END, "as-run")]
)
def test_every_switch_of_the_bridge_is_compared_in_the_same_trials(switch, condition) -> None:
    found = effects.bridge_changes(study()).set_index(["switch", "trained_on", "metric"])
    assert set(found.index.get_level_values("switch")) == {*SWITCHES, effects.FAR_END}
    changes = {}
    for arm in ("raw", "filtered"):
        here = of(condition, "purified_features", arm, 0.3)
        there = of("as-written", "purified_features", arm, 0.3)
        # The far end has the C_s of the bridge, and three of its trials are those of the bridge.
        changes[arm] = (here - there).loc[[0, 1, 2]]
    changes["gain"] = changes["filtered"] - changes["raw"]
    for name, values in changes.items():
        row = found.loc[(switch, name, "purified_features")]
        low, high = stats.t.interval(0.95, 2, values.mean(), stats.sem(values))
        assert row[["value", "low", "high", "n"]].tolist() == pytest.approx(
            [values.mean(), low, high, 3]
        )


def test_the_switch_of_the_definition_is_measured_in_its_own() -> None:
    row = effects.bridge_changes(study()).set_index(["switch", "trained_on", "metric"])
    # The other definition is a tenth of the level at C_s = 0 lower.
    assert row.loc[("test", "raw", "silhouette"), "value"] == pytest.approx(-0.01, abs=0.005)
    assert effects.bridge_changes(Tables({})).empty


# Figures


def test_figure_1_shows_the_best_two_thirds_of_each_measure_and_arm() -> None:
    found = drawn("simulation_figure1_as_written").data.query("layer == 'best two thirds'")
    found = found.set_index(["metric", "trained_on", "spurious_probability"])["value"]
    assert len(found) == len(MEASURES) * len(PROBABILITIES) * 2
    for (metric, arm, c), value in found.items():
        values = sorted(of("as-written", metric, arm, c))
        assert value == pytest.approx(np.mean(values[-3:]))  # 2/3 of 4, rounded


def test_one_trial_makes_a_figure_without_empty_layers() -> None:
    drawing = drawn("simulation_figure1_as_written", study(1))
    assert set(drawing.data["layer"]) == {"run", "mean", "published"}
    assert "best two thirds" not in drawing.chart.to_json()


def test_other_figures_have_the_neurons_at_the_largest_c_s() -> None:
    cosines = drawn("simulation_cosines").data
    sums = cosines.groupby(["condition", "tower", "trained_on"])["value"].sum()
    assert sums.to_numpy() == pytest.approx(np.ones(8))
    assert set(cosines["spurious_probability"]) == {0.5}
    mixing = drawn("simulation_mixing").data
    assert len(mixing) == 2 * 2 * 2 * 80  # one trial of each preset
    assert (set(mixing["trial"]), set(mixing["spurious_probability"])) == ({0}, {0.5})


def test_a_preset_of_failed_runs_only_is_not_called_not_run() -> None:
    row = lost("raw", 0.3, 0, "silenced_at_step", 60)
    failed = simulated([row], {"settings": {"preset": "as-run"}})
    alone = Tables({"simulation": tidy("simulation", failed)})
    for preset, reason in (("as-run", "gave a result"), ("as-written", "compare_presets")):
        hole = draw_of(f"simulation_figure1_{preset.replace('-', '_')}")(alone)
        assert isinstance(hole, charts.Hole)
        assert reason in texts.text(hole.reason)
    assert len(pages.holes(alone)) == 1


# Tables and notes


def cells(table: Table, *keys: int) -> dict[Any, tuple[Any, ...]]:
    """Return the rows of a table by some of their cells."""
    return {tuple(row[key] for key in keys): row for row in table.rows}


def test_the_table_of_arms_pairs_by_trial() -> None:
    own = of_preset(study().simulation, "as-written")
    rows = cells(pages.arms(own, "as-written", 0.95), 0, 1)
    assert len(rows) == 4 + len(ARMS)  # raw, filtered, S_h alone and the oracle
    raw = of("as-written", "accuracy", "raw", 0.3)
    for label, arm, c in (("every caption replaced", "replace-all", 0.3),
                          ("S_h alone", "high-quality-only", 0.0),
                          ("right captions only", "raw", 0.0)):  # fmt: skip
        values = of("as-written", "accuracy", arm, c)
        cell = rows[general(0.3), label][4]
        assert (cell.value, cell.spread) == pytest.approx((values.mean(), values.std()))
        assert cell.beside.value == pytest.approx((values - raw).mean())
        significant = stats.ttest_rel(values, raw).pvalue < 0.05
        assert cell.beside.mark == ("*" if significant else "")


def test_the_grid_judges_every_cell_and_names_what_was_lost() -> None:
    rows = cells(pages.grid(study(), 0.95), 0, 1, 2)
    assert len(rows) == 12
    assert list(dict.fromkeys(noise.value for noise, *_ in rows)) == pytest.approx(
        [0.0004, 0.005, 0.02]
    )
    row = rows[Number(0.005, "g"), "groups", "practical"]
    name = "grid~0.005~groups~practical"
    gains = of(name, "accuracy", "filtered", 0.3) - of(name, "accuracy", "raw", 0.3)
    low, high = stats.t.interval(0.95, 2, gains.mean(), stats.sem(gains))
    assert (row[8].value, row[8].spread) == pytest.approx((gains.mean(), (high - low) / 2))
    assert row[9] == ("holds" if low > 0 else "open")
    silenced = rows[Number(0.02, "g"), "partner", "practical"]
    assert silenced[4:10] == (None,) * 6
    assert silenced[-1].count("3 runs silenced at step 60") == 2


def test_trainings_that_ended_early_are_named() -> None:
    found = {(note.values["condition"], note.values["arm"]): note for note in pages.holes(study())}
    note = found["grid~0.02~partner~practical", "raw"]
    assert (note.values["trials"], note.values["first"], note.values["last"]) == ([0, 1, 2], 60, 60)
    assert "silenced at C_s 0.3, trials 0, 1, 2 (step 60)" in texts.text(note)
    assert found["as-run", "filtered"].values["event"] == "diverged_at_step"


def test_points_that_are_missed_are_listed_with_their_differences() -> None:
    own = of_preset(study().simulation, "as-run")
    missed = [point for point in points(own) if not point.within(point.mean)]
    table = pages.not_reproduced(own, "as-run")
    assert len(table.rows) == len(missed) > 0
    assert [row[5].value for row in table.rows] == pytest.approx(
        [point.mean - point.published for point in missed]
    )


def test_what_was_run_has_noise_and_settings_of_both_presets() -> None:
    rows = cells(pages.setting(study().simulation), 0)
    noise, (image, text) = rows["as-written",][5:7]
    assert (noise.value, image.value, text.value) == pytest.approx((0.02, 9, 5))
    assert rows["as-run",][5].value == 0
    origin = [row for preset in PRESETS for row in
              origins("simulation", {"settings": PRESETS[preset]}, preset)]  # fmt: skip
    origin += origins("simulation", {"settings": {"bias_schedule": "zero"}}, "grid~1~groups~zero")
    (table,) = pages.settings(study().replace(provenance=tidy("provenance", origin)))
    assert table.heads == ("setting", "as-written", "as-run")
    of_setting = cells(table, 0)
    assert of_setting["loss",][1:] == ("spectral", "infonce")
    assert of_setting["bias_schedule",][1:] == ("practical", "practical")  # not the grid's


def test_every_choice_is_printed_with_what_the_text_says_and_this_run_took() -> None:
    provenance = {"settings": {**PRESETS["as-written"], "temperature": 40.0}}
    origin = tidy("provenance", origins("simulation", provenance, "as-written"))
    rows = cells(pages.unstated(study().replace(provenance=origin)), 0)
    assert {name for (name,) in rows} == set(UNSTATED)
    assert rows["temperature",][1:] == ("100.0", "40.0", UNSTATED["temperature"])
    for text in UNSTATED.values():
        assert text.split(":")[0] in ("open", "contradictory", "repaired")
    assert pages.unstated(Tables({})).rows == ()
