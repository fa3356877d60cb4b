"""A plan as text for a terminal."""

from __future__ import annotations

from mispair.core.words import count, duration
from mispair.planning.estimates import FAR, LIKE_HERE, NONE
from mispair.planning.plan import Plan, RuleTotals
from mispair.report.table import aligned

COLUMNS = (
    "rule", "jobs", "threads", "GPUs", "core time", "GPU time", "memory of a job", "disk", "from",
)  # fmt: skip


def text_of(plan: Plan) -> str:
    """Return the table of rules, the totals and remarks."""
    table = aligned(COLUMNS, [*map(_row, plan.rules)], right=range(1, len(COLUMNS) - 1))
    return "\n".join([table, "", *_totals(plan), *_remarks(plan)])


def _row(rule: RuleTotals) -> tuple[str, ...]:
    marks = " <" * rule.is_bound + " far" * rule.is_far
    numbers = (_hours(rule.core_hours), _hours(rule.gpu_hours) if rule.gpus else "",
               size(rule.megabytes), size(rule.disk_megabytes))  # fmt: skip
    if rule.sources == [NONE]:
        numbers = ("?", "?" if rule.gpus else "", "?", "?")
    head = (rule.rule, f"{rule.jobs:,}", str(rule.threads), str(rule.gpus or ""))
    return (*head, *numbers, ", ".join(rule.sources) + marks)


def _totals(plan: Plan) -> list[str]:
    totals, machine = plan.totals, plan.machine
    where = f"on {machine['cores']} cores"
    if machine["jobs"] is not None:
        where = f"with {machine['jobs']} jobs at a time by {machine['executor']}"
    if machine["gpus"] is not None and any(rule.gpus for rule in plan.rules):
        where += f" and {machine['gpus']} GPUs"
    lines = [
        f"{totals.jobs:,} jobs: {_hours(totals.core_hours)} of cores, "
        f"{_hours(totals.gpu_hours)} of GPUs; {_hours(totals.wall_hours)} {where}",
        f"memory: {size(totals.largest_job_megabytes)} for the largest job"
        + ("" if machine["jobs"] else f", {size(totals.side_by_side_megabytes)} side by side")
        + f"; disk: {size(totals.disk_megabytes)} of new files",
    ]
    if machine["jobs"] is not None:
        lines.append(
            f"{totals.submissions:,} submissions; the longest chain of submissions that wait for "
            f"one another has {totals.levels}. The time does not include waiting in the queue."
        )
    return lines


def _remarks(plan: Plan) -> list[str]:
    devices = [f"{one['device']} ({one['processor']}, {one['cores']} cores)" for one in plan.rates]
    lines = [f"reference: measured on {'; '.join(devices) or 'nothing yet'}"]
    if any(LIKE_HERE in rule.sources for rule in plan.rules):
        lines.append(f"{LIKE_HERE}: from jobs of the rule that have run in this folder")
    if unknown := plan.totals.jobs_without_record:
        lines.append(f"{NONE}: {count(unknown, 'job')} without a record, not in any total")
    if any(rule.is_bound for rule in plan.rules):
        lines.append("<: an upper bound: the rule requests a GPU but was measured on a CPU only")
    if any(rule.is_far for rule in plan.rules):
        lines.append(
            f"far: more than {FAR} times the largest measured work, or work of an unmeasured kind: "
            "a guess, which may be far too high or too low"
        )
    return [*lines, *plan.notes]


def _hours(hours: float) -> str:
    return duration(3600 * hours)


def size(megabytes: float) -> str:
    """Format a size in MB or GB.

    Examples
    --------
    >>> size(0.25), size(720.4), size(4600)
    ('0.2 MB', '720 MB', '4.6 GB')
    """
    if megabytes >= 1000:
        return f"{megabytes / 1000:.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 10 else f"{megabytes:.1f} MB"
