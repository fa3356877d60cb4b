"""The profile of five pairs of towers plans its trainings and arms in one run."""

from tests.workflow.conftest import Checkout


def test_one_run_trains_three_pairs_and_measures_every_arm_on_five(empty: Checkout) -> None:
    planned = empty.planned("--configfile", "config/five-towers.yaml")
    assert planned["make_scenes_of_towers"] == planned["make_scenes"] == 1
    assert planned["pretrain_towers_of_seed"] == 3
    assert "pretrain_towers" not in planned
    rates, towers = 5, 5
    assert planned["finetune_projection"] == rates * towers
    assert planned["measure_arm"] == (1 + rates) * towers
    assert planned["measure_semantics"] == 3 * towers
    assert planned["compare_towers"] == planned["measure_covariance"] / towers == 1
