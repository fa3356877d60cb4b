"""Steps in a container, by a stand-in for apptainer that runs them on this machine."""

import os

APPTAINER = """#!/bin/sh
case "$1" in
    --version) echo "apptainer version 1.3.4"; exit ;;
    inspect) echo "{}"; exit ;;
esac
echo "$@" >> CALLS
while [ "$1" != IMAGE ]; do shift; done
shift
exec "$@"
"""


def test_every_step_runs_in_the_container(empty, tmp_path, monkeypatch) -> None:
    image, calls = tmp_path / "mispair.sif", tmp_path / "calls"
    image.touch()
    program = tmp_path / "apptainer"
    program.write_text(APPTAINER.replace("CALLS", str(calls)).replace("IMAGE", str(image)))
    program.chmod(0o755)
    (tmp_path / "singularity").symlink_to(program)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    monkeypatch.setenv("MISPAIR_CONTAINER", str(image))
    target = "results/scenes/evaluation/handwritten-digits/classnames.txt"
    empty.snakemake(target, "--sdm", "apptainer")
    assert (empty.folder / target).is_file()
    assert "mispair make-evaluation-set" in calls.read_text()
