"""What all rules have in common."""

import re
from pathlib import Path

from snakemake.iocontainers import Namedlist

from mispair.core.commands import call
from mispair.dag import Dag

RULES = Path(__file__).parents[2] / "workflow/rules"


def test_each_rule_is_one_command() -> None:
    """The shell makes way for it (exec), so that signals meet the step: nothing comes after."""
    assert "set -euo pipefail; exec " in (RULES / "common.smk").read_text()
    shells = [
        "".join(re.findall(r'"(.*)"', lines))
        for path in RULES.glob("*.smk")
        for lines in re.findall(r"^    shell:\n((?:        .*\n)+)", path.read_text(), re.M)
    ]
    assert len(shells) == 1, "one for all steps"
    for shell in shells:
        assert shell.startswith("python -m mispair "), shell
        assert not re.search(r"&&|\|\||;|\| ", shell), shell


def test_a_job_gives_a_step_what_it_has_under_the_names_of_its_options() -> None:
    job = {
        "wildcards": Namedlist(fromdict={"corpus": "a b", "group": "0003"}),
        "input": Namedlist(fromdict={"shards": ["1.tar", "2.tar"], "images": "i.parquet",
                                     "captions": ["c/parquet.sha256"], "unusable": "other"}),
        "output": Namedlist(fromdict={"unusable": "u.parquet", "index": "x.parquet"}),
        "threads": 3, "resources": Namedlist(fromdict={"stall_seconds": "9"}),
    }  # fmt: skip
    given = {
        "sources": [],
        "rejected": lambda wildcards, output: f"{output.index}.{wildcards.group}",
    }
    made = call(["index_shards", "list_files"], given)(**job)
    assert made == (
        "index-shards --shards 1.tar 2.tar --sources --images i.parquet --unusable u.parquet"
        " --captions @c/parquet.sha256 --workers 3 --index x.parquet --rejected x.parquet.0003"
        " + list-files"
    )
    optional = {"projection": "p", "covariance": [], "purity": "'"}
    assert call(["measure_purity"], optional)(**job) == (
        "measure-purity --projection p --purity ''\"'\"''"
    )
    settings = {"measure_purity": "--rotations 5"}
    assert call(["measure_purity", "list_files"], optional, settings)(**job) == (
        "measure-purity --projection p --purity ''\"'\"'' --rotations 5 + list-files"
    )


def test_settings_of_each_step_of_a_job_are_parameters() -> None:
    """Snakemake reruns the job for these, and not for its call."""
    dag = Dag({"measure_purity": {"rotations": 7}}, "config.yaml")
    for names in (["measure_purity", "evaluate_zeroshot"], ["evaluate_zeroshot", "measure_purity"]):
        params = dag.step(*names)
        given = [value({}) for name, value in params.items() if name.startswith("flags")]
        assert sum("--rotations 7" in text for text in given) == 1


def test_no_result_is_an_ancient_input() -> None:
    """Snakemake does not compare the parameters of a job behind a rerun job and such an input."""
    texts = [path.read_text() for path in RULES.glob("*.smk")]
    assert [line.strip() for text in texts for line in text.splitlines() if "ancient(" in line] == [
        "return [file if file.startswith(MADE) else ancient(next(own)) for file in files]"
    ]


def test_times_of_every_file_of_a_user_are_looked_at() -> None:
    """Each input that is not a result is `steady` or `dated`: refused if dated ahead, else old."""
    own = (
        "user_file|caption_tables|tables_of_pairs|tower_files|main_towers|training_record|cifar|"
        "models.(?:checkpoint|start)|training.(?:shards|definition)|shards_to_compare|downloads_of|"
        "images_of|texts_of|protocol_files|captioner_files|shards_of|pairs.shards|kept|truth"
    )
    found = []
    for path in RULES.glob("*.smk"):
        inputs = re.findall(r"^ +input:\n((?: {8}.*\n)+)", path.read_text(), re.MULTILINE)
        found += [line for text in inputs for line in text.splitlines()
                  if re.search(rf"\b(?:{own})\b", line)]  # fmt: skip
    assert len(found) > 40
    texts = ("dag.repair.texts", "of_report.texts_of")  # results, and files of mispair's own
    assert [
        line for line in found if "steady(" not in line and not any(map(line.count, texts))
    ] == []
