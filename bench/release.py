"""A release: the version in all places, and the notes under it; git stays with the maintainer.

Run as ``python bench/release.py VERSION`` by ``make release VERSION=1.2.3``, in the root of a
checkout. Needs no network.
"""

import datetime
import re
import sys
from pathlib import Path

from mispair.core import files

PLACES = {
    "workflow/mispair/__init__.py": r'(?m)^(__version__ = ")([^"]+)(")$',
    "CITATION.cff": r"(?m)^(version: )(\S+)()$",
}
"""The files with the version; ``pyproject.toml`` and the archive take it from these and the tag."""
OPEN = "## [Unreleased]\n"
WAITING = "not yet released"


def release(root: Path, version: str, day: str) -> None:
    """Write a version into all its places, and move the open notes of CHANGELOG.md under it.

    Raises
    ------
    UserError
        If the version has another form, is older than the present one, or is released.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise files.UserError(f"VERSION: {version!r} is no version such as 1.2.3.")
    notes = root / "CHANGELOG.md"
    text = notes.read_text(encoding="utf-8").replace(f"## [{version}] - {WAITING}\n\n", "")
    if f"## [{version}]" in text or OPEN not in text:
        raise files.UserError(f"{notes}: {version} is released, or there is no {OPEN.strip()}.")
    changed = {notes: text.replace(OPEN, f"{OPEN}\n## [{version}] - {day}\n", 1)}
    for name, pattern in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        (found,) = re.finditer(pattern, text)
        if [*map(int, version.split("."))] < [*map(int, found[2].split("."))]:
            raise files.UserError(f"VERSION: {version} is older than {found[2]} of {name}.")
        changed[root / name] = re.sub(pattern, rf"\g<1>{version}\g<3>", text)
    for path, text in changed.items():
        files.write_text(path, text)


def steps(version: str) -> str:
    """Return the commands that follow, for a person who has read the changes."""
    return f"""Read `git diff`, then:

  git commit --all --message "Version {version}"
  git tag --annotate v{version} --message "Version {version}"
  git push --follow-tags
"""


if __name__ == "__main__":
    try:
        release(Path(), sys.argv[1], datetime.date.today().isoformat())
    except files.UserError as error:
        sys.exit(f"error: {error}")
    print(steps(sys.argv[1]))
