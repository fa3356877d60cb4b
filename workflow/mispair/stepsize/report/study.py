"""The stepsize study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.stepsize.paths import MULTILAYER, TWO_LAYER

OF_ALL = ("Bounds", "Runs that fail")
PARTS: dict[str, tuple[str, ...]] = {
    "sweep": ("Phases", "Speed", "Test accuracy", *OF_ALL),
    "acceleration": ("Speed", *OF_ALL),
    **dict.fromkeys(("onset", "activations", "widths", "bounds"), OF_ALL),
    "multilayer": ("Test accuracy", "Runs that fail"),
}
"""Sections that print a part of the study."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    if rule not in ("train_two_layer", "train_multilayer"):
        return ()
    return PARTS[wildcards.get("part", "multilayer")]


STUDY = ReportedStudy(
    key="stepsize",
    title="Large stepsizes: two phases of gradient descent",
    about="Two-layer networks with fixed output signs learn small data sets under the logistic "
    "loss by full-batch gradient descent with a constant stepsize m η, where m is the width. "
    "Where η is large the risk first oscillates; below a threshold that falls as 1/η it "
    "can only fall, and the margin grows. All runs are in float64, with first weights, "
    "data and stepsizes of our own: the published text names them for hardly any "
    "experiment, so shapes can be compared and curves cannot.",
    sections=("Phases", "Speed", "Bounds", "Test accuracy", "Runs that fail"),
    tables={
        "stepsize_runs": columns(
            "part* data_set* activation* width stepsize seed | step_on_weights steps points "
            "rises transition settled diverged peak lowest_rise transition_risk final_risk "
            "stable_threshold settled_threshold stable_step settled_step conservatism "
            "margin_transition margin_stable margin_settled margin_final smoothed_final "
            "auxiliary_final log_modified_settled log_modified_final norm_falls auxiliary_falls "
            "modified_falls margin_falls margin_drawdown order_breaks rate_lower rate_upper_log "
            "separation bounded average_ratio potential_ratio transition_bound stable_ratio "
            "accuracy"
        ),
        "stepsize_curves": columns(
            "part* data_set* activation* width stepsize seed t | risk potential margin norm "
            "accuracy average_risk risk_bound average_potential potential_bound",
            compared=False,
        ),
        "stepsize_speedups": columns(
            "part* data_set* activation* width stepsize seed level | steps_to_level "
            "monotone_stepsize speedup"
        ),
        "stepsize_acceleration": columns(
            "part* data_set* activation* width stepsize seed schedule* budget | risk"
        ),
    },
    results={TWO_LAYER: "stepsize", MULTILAYER: "stepsize"},
    measures=("stepsize_runs",),
    sections_of=sections_of,
    figures=(
        Figure(
            "stepsize_risk",
            "Risk against steps, each stepsize",
            "First seed of each stepsize. Circle: the last rise of the risk is just over. Dashed: "
            "the threshold below which the theory forbids a rise.",
            "figure 2(a)",
            "Phases",
        ),
        Figure(
            "stepsize_speedup",
            "How much sooner a stepsize reaches a risk",
            "Steps of the largest monotone stepsize over those of this one, first seed. No bar: "
            "one of the two never gets there. A bar below 1 is slower.",
            "",
            "Speed",
        ),
        Figure(
            "stepsize_acceleration",
            "Risk after T steps: stepsize fixed, and in proportion to T",
            "First seed. Two points: their gradients conflict, and weights begin at zero. The "
            "growing stepsize is the one of the list nearest T/100: that of the theorem needs T of "
            "10⁷.",
            "corollary 4.2, theorem 4.3",
            "Speed",
        ),
        Figure(
            "stepsize_bounds",
            "Averages over all steps, and their bounds in theory",
            "Solid: average risk and average gradient potential of the first t steps. Dashed: the "
            "bounds.",
            "theorem 3.2, lemma C.3",
            "Bounds",
        ),
        Figure(
            "stepsize_accuracy",
            "Test accuracy against stepsize",
            "Last step of every seed (split) of the digits’ parity, and of the perceptron of four "
            "layers where it was trained.",
            "figures 1(c) and 3",
            "Test accuracy",
        ),
    ),
    small=(Figure("small_stepsize", "Risk against steps, each stepsize"),),
)
