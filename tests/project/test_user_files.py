"""The user's own files as inputs of rules."""

import os
import re
from contextlib import chdir
from pathlib import Path

import pytest
from snakemake import io

from mispair.core.files import UserError
from mispair.run_checks import refuse_dated_ahead, take_literally, time_of_new_files


@pytest.mark.parametrize("link", [False, True])
def test_a_file_dated_ahead_is_refused_with_the_difference(tmp_path: Path, link: bool) -> None:
    present, ahead = tmp_path / "a", tmp_path / "b"
    now = time_of_new_files(tmp_path)
    present.touch()
    ahead.symlink_to(present) if link else ahead.touch()
    os.utime(ahead, (now + 7384, now + 7384), follow_symlinks=False)
    refuse_dated_ahead([str(present), str(tmp_path / "missing")], now)
    with pytest.raises(UserError, match=r"b: is dated 2:03:04 .*ahead"):
        refuse_dated_ahead([str(present), str(ahead)], now)
    with chdir(tmp_path), pytest.raises(UserError, match=f"^{re.escape(str(ahead))}: "):
        refuse_dated_ahead(["b"], now)


def test_braces_of_a_marked_input_are_no_wildcards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io, "apply_wildcards", io.apply_wildcards)
    as_named = take_literally()
    wildcards = {"corpus": "x"}
    for path in ("a{v2}/{corpus}.tar", "plain.tar"):
        marked = io.IOFile(io.ancient(as_named(path)))
        assert marked.apply_wildcards(wildcards) == path
    assert io.IOFile("{corpus}.tar").apply_wildcards(wildcards) == "x.tar"
