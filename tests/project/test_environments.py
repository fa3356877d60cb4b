"""pyproject.toml, the lock, the conda environment, the container and the citation say the same."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import mispair

ROOT = Path(__file__).resolve().parents[2]
DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, BUILD = DECLARED["project"], DECLARED["build-system"]["requires"]
EXTRAS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in PROJECT["dependencies"]]
ALL_DIRECT = DIRECT + [Requirement(line) for extra in EXTRAS.values() for line in extra]
LOCK_TEXT = (ROOT / "envs" / "requirements.lock").read_text()
LOCK_LINES = [line for line in LOCK_TEXT.splitlines() if line and not line.startswith("#")]
LINUX = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}


def pins(lines: list[str]) -> dict[str, Version]:
    """Return the version that each `name==version` line pins, by canonical name."""
    pinned = {}
    for requirement in map(Requirement, lines):
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"not a pin: {requirement}"
        pinned[canonicalize_name(requirement.name)] = Version(specifier.version)
    return pinned


LOCK = pins(LOCK_LINES)


def needed(requirements: list[Requirement]) -> Iterator[tuple[str, Requirement]]:
    """Yield every requirement on Linux, direct or not, with who asks for it.

    What a package needs in turn is read from the metadata of the installed packages.
    """
    waiting = [("pyproject.toml", requirement) for requirement in requirements]
    seen = set()
    while waiting:
        parent, requirement = waiting.pop()
        yield parent, requirement
        name = canonicalize_name(requirement.name)
        for extra in {"", *requirement.extras}:
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for line in metadata.requires(name) or []:
                child = Requirement(line)
                if child.marker is None or child.marker.evaluate({**LINUX, "extra": extra}):
                    waiting.append((name, child))


def test_the_lock_holds_plain_pins_only_once_each_and_names_no_host() -> None:
    assert [
        line for line in LOCK_LINES if not re.fullmatch(r"[\w.-]+==[\w.+!]+( ; .+)?", line)
    ] == []
    assert all(Requirement(line) for line in LOCK_LINES)
    assert len(LOCK) == len(LOCK_LINES)
    assert "://" not in LOCK_TEXT


@pytest.mark.parametrize("requirement", ALL_DIRECT, ids=str)
def test_the_lock_pins_every_direct_dependency_within_its_range(requirement: Requirement) -> None:
    pinned = LOCK.get(canonicalize_name(requirement.name))
    assert pinned is not None, f"envs/requirements.lock lacks {requirement}: run `make lock`"
    assert requirement.specifier.contains(pinned), f"{pinned} is outside {requirement}"


def test_the_lock_pins_exactly_what_is_needed_in_turn() -> None:
    reached = set()
    for parent, requirement in needed(ALL_DIRECT):
        name = canonicalize_name(requirement.name)
        reached.add(name)
        assert name in LOCK, f"{parent} needs {requirement}, which no line of the lock pins"
        assert requirement.specifier.contains(LOCK[name], prereleases=True), (
            f"{parent} needs {requirement}, the lock pins {LOCK[name]}"
        )
    assert set(LOCK) - reached == set(), "nobody needs these pins"


def test_the_lock_to_run_is_exactly_what_the_dependencies_need_of_the_whole_lock() -> None:
    text = (ROOT / "envs" / "run.lock").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert set(lines) <= set(LOCK_LINES)
    assert len(set(lines)) == len(lines)
    build = [Requirement(line) for line in BUILD]
    reached = {canonicalize_name(one.name) for _, one in needed([*DIRECT, *build])}
    assert pins(lines).keys() == reached


def test_cuda_libraries_are_for_linux_only() -> None:
    for requirement in map(Requirement, LOCK_LINES):
        is_cuda = requirement.name.startswith(("nvidia-", "cuda-")) or requirement.name == "triton"
        assert (str(requirement.marker) == 'sys_platform == "linux"') == is_cuda, str(requirement)


def test_every_pin_suits_every_python_that_the_project_names() -> None:
    pythons = [
        match[1]
        for line in PROJECT["classifiers"]
        if (match := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    assert pythons[0] == "3.11"
    markers = {canonicalize_name(line.name): line.marker for line in map(Requirement, LOCK_LINES)}
    for name, marker in markers.items():
        wanted = SpecifierSet(metadata.metadata(name).get("Requires-Python") or "")
        # Some exclude an early patch release; a later one of the same minor version is meant.
        unsuited = [
            python
            for python in pythons
            if not wanted.contains(f"{python}.9")
            and (marker is None or marker.evaluate({"python_version": python}))
        ]
        assert not unsuited, f"{name} needs Python {wanted}"


def test_the_conda_environment_lists_the_direct_dependencies_as_the_lock_pins_them() -> None:
    environment = yaml.safe_load((ROOT / "envs" / "environment.yaml").read_text())
    *_, by_pip = environment["dependencies"]
    direct = {canonicalize_name(requirement.name) for requirement in DIRECT}
    assert pins(by_pip["pip"]) == {name: LOCK[name] for name in direct}
    assert "pip" in environment["dependencies"], "conda warns where pip is used but not listed"


def test_the_container_installs_the_lock() -> None:
    containerfile = (ROOT / "envs" / "Containerfile").read_text()
    copied = re.search(r"^COPY envs/requirements\.lock (\S+)$", containerfile, re.MULTILINE)
    assert copied is not None
    assert re.search(rf"^RUN pip install .*-r {re.escape(copied[1])}$", containerfile, re.MULTILINE)


def test_lock_conda_and_container_have_one_python_and_it_is_the_oldest_that_is_allowed() -> None:
    environment = yaml.safe_load((ROOT / "envs" / "environment.yaml").read_text())
    containerfile = (ROOT / "envs" / "Containerfile").read_text()
    oldest = PROJECT["requires-python"].removeprefix(">=")
    assert f"python={oldest}" in environment["dependencies"]
    assert re.search(rf"^FROM python:{re.escape(oldest)}-slim$", containerfile, re.MULTILINE)
    assert f"CPython {oldest}." in LOCK_TEXT


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == mispair.__version__
    assert citation["license"] == PROJECT["license"]


def test_the_changelog_has_a_heading_for_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(mispair.__version__)}\]", changelog, re.MULTILINE)


LOADING = """
import sys
from pathlib import Path
# To import one of these raises, as where it is not installed.
sys.modules.update(dict.fromkeys(sys.argv[2:]))
from mispair.towers.loading import load_towers
towers = load_towers(Path(sys.argv[1]))
assert towers.tokenizer(["a red circle"]).any()
print(*sorted({name.split(".")[0] for name, module in sys.modules.items() if module}))
"""


def test_the_shipped_towers_load_with_nothing_but_the_direct_dependencies_and_theirs() -> None:
    """The conda environment and the container have no package of the tests, and the lock has."""
    shipped = Path(mispair.__file__).parent / "towers" / "shipped" / "scenes-small"
    reached = {canonicalize_name(requirement.name) for _, requirement in needed(DIRECT)}
    packages = {
        name: {canonicalize_name(package) for package in packages}
        for name, packages in metadata.packages_distributions().items()
        if name != "mispair"
    }
    missing = [name for name, providers in packages.items() if not providers & reached]
    command = [sys.executable, "-c", LOADING, str(shipped), *missing]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    loaded = set().union(*(packages.get(name, set()) for name in modules))
    assert {"torch", "open-clip-torch", "tokenizers"} <= loaded
    assert "pytest" in missing
