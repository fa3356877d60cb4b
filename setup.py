"""Put the workflow into the package when it is built; pyproject.toml has everything else.

In a checkout the workflow is around the package: the Snakefile, rules, configurations and profiles.
Here they become ``mispair/workflow_files``, with the same paths from one another.
"""

import json
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

FILES = (
    "Snakefile", "config.yaml", "config/*", "profiles/*/*", "envs/environment.yaml",
    "workflow/Snakefile", "workflow/rules/*", "workflow/report/*.rst", "workflow/schemas/*",
)  # fmt: skip
"""Files of the workflow outside the package, as patterns."""


def workflow_files():
    """Return the files of the workflow, relative to the folder of this file."""
    found = sorted(path.as_posix() for pattern in FILES for path in Path().glob(pattern))
    return [path for path in found if Path(path).is_file()]


COMMIT = "commit.json"
"""File with the commit that was built, in a source distribution and with the workflow."""


def commit():
    """Return the commit of this checkout or source distribution as JSON, or None."""
    if not Path(".git").exists():
        return Path(COMMIT).read_text("utf-8") if Path(COMMIT).is_file() else None
    git = ["git", "status", "--porcelain=v2", "--branch", "--", "workflow/mispair"]
    try:
        lines = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    heads = [line.split()[2] for line in lines if line.startswith("# branch.oid ")]
    changed = any(not line.startswith("#") for line in lines)
    return json.dumps({"commit": heads[0], "changed": changed}) if heads[0].isalnum() else None


class SourceWithCommit(sdist):
    """Writes the commit into a source distribution."""

    def make_release_tree(self, base_dir, files):
        """Write the files of the distribution."""
        super().make_release_tree(base_dir, files)
        if (built := commit()) is not None:
            Path(base_dir, COMMIT).write_text(built, "utf-8")


class BuildWithWorkflow(build_py):
    """Copies the files of the workflow into the package."""

    @property
    def _folder(self):
        return Path(self.build_lib, "mispair", "workflow_files")

    def _copies(self):
        return {path: str(self._folder / path) for path in workflow_files()}

    def run(self):
        """Copy modules, data and, unless the installation is editable, the workflow."""
        super().run()
        if not self.editable_mode:
            for source, target in self._copies().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)
            if (built := commit()) is not None:
                Path(self._folder, COMMIT).write_text(built, "utf-8")

    def get_outputs(self, include_bytecode=True):
        """Return the paths of all files that are built."""
        copied = [] if self.editable_mode else list(self._copies().values())
        if copied and commit() is not None:
            copied.append(str(self._folder / COMMIT))
        return [*super().get_outputs(include_bytecode), *copied]

    def get_source_files(self):
        """Return the sources of all files that are built, which a source distribution has."""
        return [*super().get_source_files(), *workflow_files()]


setup(cmdclass={"build_py": BuildWithWorkflow, "sdist": SourceWithCommit})
