"""A plan as a table for people."""

from __future__ import annotations

from mispair.core.words import count
from mispair.planning.plan import FAR, LIKE_HERE, NONE, Plan, RuleTotals

COLUMNS = (
    "rule",
    "jobs",
    "threads",
    "GPUs",
    "core time",
    "GPU time",
    "memory of a job",
    "disk",
    "from",
)


def text_of(plan: Plan) -> str:
    """Return the table, the totals and what is to be said of them."""
    rows = [COLUMNS, *map(_row, plan.rules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, len(COLUMNS) - 1) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", *_totals(plan), *_remarks(plan)])


def _row(rule: RuleTotals) -> tuple[str, ...]:
    has_record = rule.sources != [NONE]
    marks = "".join(mark for mark, holds in ((" <", rule.is_bound), (" far", rule.is_far)) if holds)
    return (
        rule.rule,
        f"{rule.jobs:,}",
        str(rule.threads),
        str(rule.gpus or ""),
        duration(rule.core_hours) if has_record else "?",
        (duration(rule.gpu_hours) if has_record else "?") if rule.gpus else "",
        size(rule.megabytes) if has_record else "?",
        size(rule.disk_megabytes) if has_record else "?",
        ", ".join(rule.sources) + marks,
    )


def _totals(plan: Plan) -> list[str]:
    totals, machine = plan.totals, plan.machine
    where = f"on {machine['cores']} cores"
    if machine["jobs"] is not None:
        where = f"with {machine['jobs']} jobs at a time by {machine['executor']}"
    if machine["gpus"] is not None and any(rule.gpus for rule in plan.rules):
        where += f" and {machine['gpus']} GPUs"
    lines = [
        f"{totals.jobs:,} jobs: {duration(totals.core_hours)} of cores, "
        f"{duration(totals.gpu_hours)} of GPUs; {duration(totals.wall_hours)} {where}",
        f"memory: {size(totals.largest_job_megabytes)} for the largest job"
        + ("" if machine["jobs"] else f", {size(totals.side_by_side_megabytes)} side by side")
        + f"; disk: {size(totals.disk_megabytes)} of new files",
    ]
    if machine["jobs"] is not None:
        lines.append(
            f"{totals.submissions:,} submissions; the longest chain of them that wait for one "
            f"another has {totals.levels}. Waiting in the queue is not in the time."
        )
    return lines


def _remarks(plan: Plan) -> list[str]:
    devices = [f"{one['device']} ({one['processor']}, {one['cores']} cores)" for one in plan.rates]
    lines = [f"reference: measured on {'; '.join(devices) or 'nothing yet'}"]
    if any(LIKE_HERE in rule.sources for rule in plan.rules):
        lines.append(f"{LIKE_HERE}: as jobs of the rule that have run in this folder")
    if unknown := plan.totals.jobs_without_record:
        jobs = count(unknown, "job")
        lines.append(f"{NONE}: {jobs} that no total counts, as nothing like that was ever recorded")
    if any(rule.is_bound for rule in plan.rules):
        lines.append("<: an upper bound, as it asks for a GPU and was only measured on a CPU")
    if any(rule.is_far for rule in plan.rules):
        lines.append(
            f"far: more than {FAR} times the largest work that was measured, or of a kind that "
            "never was: a guess, which may be far too high or too low"
        )
    return [*lines, *plan.notes]


def duration(hours: float) -> str:
    """Return a time in the unit that suits it.

    Examples
    --------
    >>> duration(0.001), duration(0.1), duration(30.0), duration(3000.0)
    ('3.6 s', '6.0 min', '30.0 h', '125 days')
    """
    if hours < 1.5 / 60:
        return f"{hours * 3600:.1f} s"
    if hours < 1.5:
        return f"{hours * 60:.1f} min"
    return f"{hours:.1f} h" if hours < 240 else f"{hours / 24:,.0f} days"


def size(megabytes: float) -> str:
    """Return bytes in the unit that suits them.

    Examples
    --------
    >>> size(0.25), size(720.4), size(4600)
    ('0.2 MB', '720 MB', '4.6 GB')
    """
    if megabytes >= 1000:
        return f"{megabytes / 1000:.1f} GB"
    return f"{megabytes:.0f} MB" if megabytes >= 10 else f"{megabytes:.1f} MB"
