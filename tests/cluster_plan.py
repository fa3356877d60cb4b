"""How many jobs a cluster is sent, and how many it has to run one after another, from a dry run.

    python tests/cluster_plan.py DOT PROFILE

takes what `snakemake --dag dot` prints and a profile with its `groups` and `group-components`.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml


@dataclass(frozen=True)
class Plan:
    """The jobs of a run as a graph.

    Attributes
    ----------
    rules : dict of int to str
        The rule of each job.
    edges : list of (int, int)
        A job, and one that reads what it writes.
    """

    rules: dict[int, str]
    edges: list[tuple[int, int]]

    @classmethod
    def read(cls, dot: str) -> Plan:
        """Read what ``snakemake --dag dot`` prints."""
        labels = re.findall(r'^\s*(\d+)\[label = "(\w+)', dot, re.MULTILINE)
        edges = re.findall(r"^\s*(\d+) -> (\d+)", dot, re.MULTILINE)
        return cls(
            {int(number): rule for number, rule in labels},
            [(int(first), int(then)) for first, then in edges],
        )

    def submissions(
        self,
        local: Collection[str] = (),
        groups: Mapping[str, str] | None = None,
        components: Mapping[str, int] | None = None,
    ) -> dict[int, int]:
        """Return the submission of each job that is not local, named by its first job.

        Jobs of a group are sent together where one reads what the other writes, and so many of
        such components at a time as `components` says: as Snakemake does it.
        """
        groups, components = groups or {}, components or {}
        group_of = {job: groups[rule] for job, rule in self.rules.items() if rule in groups}
        together = {job: job for job in self.rules}

        def first(job: int) -> int:
            while together[job] != job:
                job = together[job]
            return job

        for a, b in self.edges:
            if a in group_of and group_of[a] == group_of.get(b):
                a, b = sorted((first(a), first(b)))
                together[b] = a
        parts = defaultdict(list)
        for job, name in sorted(group_of.items()):
            if first(job) == job:
                parts[name].append(job)
        for name, heads in parts.items():
            for place, head in enumerate(heads):
                together[head] = heads[place - place % components.get(name, 1)]
        return {job: first(job) for job, rule in self.rules.items() if rule not in local}

    def longest_chain(self, submissions: Mapping[int, int]) -> list[str]:
        """Return the rules of the longest chain of submissions that wait for each other.

        A submission is named by the rules that it runs.
        """
        before: dict[int, set[int]] = defaultdict(set)
        for first, then in self.edges:
            if first in submissions and then in submissions:
                before[submissions[then]].add(submissions[first])
        ran: dict[int, set[str]] = defaultdict(set)
        for job, submission in submissions.items():
            ran[submission].add(self.rules[job])

        @cache
        def chain(submission: int) -> tuple[str, ...]:
            chains = [chain(other) for other in before[submission] - {submission}]
            return (*max(chains, key=len, default=()), "+".join(sorted(ran[submission])))

        return list(max(map(chain, set(submissions.values())), key=len, default=()))


def main() -> None:
    """Print the submissions by rule, their number, and the longest chain."""
    plan = Plan.read(Path(sys.argv[1]).read_text(encoding="utf-8"))
    profile = yaml.safe_load(Path(sys.argv[2]).read_text(encoding="utf-8")) if sys.argv[2:] else {}
    sent = plan.submissions(
        {"default"}, profile.get("groups", {}), profile.get("group-components", {})
    )
    ran = defaultdict(set)
    for job, submission in sent.items():
        ran[submission].add(plan.rules[job])
    for rules, number in Counter("+".join(sorted(names)) for names in ran.values()).most_common():
        print(f"{number:6d} {rules}")
    print(f"{len(set(sent.values())):6d} submissions")
    chain = plan.longest_chain(sent)
    print(f"{len(chain):6d} one after another: {', '.join(chain)}")


if __name__ == "__main__":
    main()
