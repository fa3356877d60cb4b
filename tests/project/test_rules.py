"""What all rules have in common."""

from __future__ import annotations

import re
from pathlib import Path

RULES = Path(__file__).parents[2] / "workflow/rules"


def test_each_rule_is_one_command() -> None:
    """The shell makes way for it (exec), so that signals meet the step: nothing comes after."""
    assert "set -euo pipefail; exec " in (RULES / "common.smk").read_text()
    shells = [
        "".join(re.findall(r'"(.*)"', lines))
        for path in RULES.glob("*.smk")
        for lines in re.findall(r"^    shell:\n((?:        .*\n)+)", path.read_text(), re.M)
    ]
    assert len(shells) > 25
    for shell in shells:
        assert shell.startswith("python -m mispair "), shell
        assert not re.search(r"&&|\|\||;|\| ", shell), shell


def test_no_result_is_an_ancient_input() -> None:
    """Snakemake does not compare the parameters of a job behind a rerun job and such an input."""
    texts = [path.read_text() for path in RULES.glob("*.smk")]
    assert [line.strip() for text in texts for line in text.splitlines() if "ancient(" in line] == [
        "return [file if file.startswith(MADE) else ancient(next(own)) for file in files]"
    ]
