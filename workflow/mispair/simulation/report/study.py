"""The simulation study in the report: its sections, tables and figures."""

from collections.abc import Mapping, Sequence

from mispair.report.studies import Figure, ReportedStudy, columns
from mispair.simulation.paths import SIMULATION

CONDITIONS = {
    "bridge": "From one preset to the other",
    "grid": "Sensitivity",
    "scaling": "Scaling with d",
}
"""The one section that prints conditions of a kind; a preset is in every section."""


def sections_of(rule: str, wildcards: Mapping[str, str]) -> Sequence[str]:
    """Return the sections that print the numbers of a job."""
    if rule != "simulate":
        return ()
    kind = wildcards["condition"].partition("~")[0]
    return (CONDITIONS[kind],) if kind in CONDITIONS else STUDY.sections


def _figure1(preset: str, text: str) -> Figure:
    return Figure(
        f"simulation_figure1_{preset.replace('-', '_')}",
        f"Raw against filtered captions: {text}",
        "Every run is a faint point; the band is the mean ± 1 standard "
        "deviation of all runs. The best two thirds of the runs are chosen for each measure and "
        "arm, as the published points were: means of the best ten of fifteen runs.",
        "figure 1(a-d)",
        "Figure 1",
    )


STUDY = ReportedStudy(
    key="simulation",
    title="Simulation: sparse coding, raw against filtered captions",
    about="Images and captions share sparse latent features; with probability C_s what a "
    "caption says is wrong. Encoders are trained on raw pairs (S1), a decoder writes new "
    "captions (S2), captions that fit worse than the decoder's are replaced (S3), and "
    "encoders are trained again on the filtered pairs (S4). The paper's text (as-written: "
    "as written, repaired so that it trains) and its authors' public code (as-run) set "
    "nearly every number differently.",
    sections=(
        "Setting",
        "Figure 1",
        "What neurons learn",
        "Arms",
        "From one preset to the other",
        "Sensitivity",
        "Scaling with d",
    ),
    tables={
        "simulation": columns(
            "condition* kind* switch* preset* features misalignment* encoder* bias_schedule* "
            "image_noise_variance caption_features definition_main* spurious_probability "
            "trained_on* metric* definition* source* trial seed tower* prompts* margin bias* "
            "epoch bin_low bin_high | value"
        ),
        "simulation_points": columns(
            "condition* kind* spurious_probability trained_on* metric* trial tower* neuron | x y",
            compared=False,
        ),
    },
    results={SIMULATION: "simulation"},
    measures=("simulation",),
    sections_of=sections_of,
    figures=(
        _figure1("as-written", "as the paper's text says"),
        _figure1("as-run", "as the public code does"),
        Figure(
            "simulation_cosines",
            "Cosines of neurons with the true features",
            "Share of all neuron-feature pairs in each bin of |cos|, mean over trials and one "
            "standard deviation above and below it, at each preset's largest C_s.",
            "figures 3 and 4",
            "What neurons learn",
        ),
        Figure(
            "simulation_mixing",
            "One feature or two: largest and second cosine of every neuron",
            "A pure neuron is at the lower right. A neuron that mixes two features is above the "
            "line. It counts as mixed only if the second "
            "feature is a spurious partner of the first. Neurons of one trial at each preset's "
            "largest C_s.",
            "theorems 4.2 and 4.4",
            "What neurons learn",
        ),
        Figure(
            "simulation_bridge",
            "From one preset to the other, one switch at a time",
            "Each row throws one switch to the other preset's values and leaves the rest; the "
            "last throws all. Point and bar: mean change with its 95 % interval, paired by trial; "
            "gain is filtered − raw.",
            "",
            "From one preset to the other",
        ),
        Figure(
            "simulation_scaling",
            "How failure, residuals and wrong features change with d",
            "Mean ± 1 standard deviation over trials by the number of features d, on logarithmic "
            "axes: a power of d is a straight line. Where nothing was counted in any trial, the "
            "point is an upper bound.",
            "theorems 4.2 to 4.5",
            "Scaling with d",
        ),
    ),
    small=(
        Figure("small_purified", "Purified features on raw captions"),
        Figure("small_filtering", "Accuracy on raw and on filtered captions"),
        Figure("small_reproduction", "Measured against published points"),
    ),
)
