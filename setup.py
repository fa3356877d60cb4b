"""Put the workflow into the package when it is built; pyproject.toml has everything else.

In a checkout the workflow is around the package: the Snakefile, rules, configurations and profiles.
Here they become ``mispair/workflow_files``, with the same paths from one another.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FILES = (
    "Snakefile", "config.yaml", "config/*", "profiles/*/*", "envs/environment.yaml",
    "workflow/Snakefile", "workflow/rules/*", "workflow/report/*.rst", "workflow/schemas/*",
)  # fmt: skip
"""Files of the workflow outside the package, as patterns."""


def workflow_files():
    """Return the files of the workflow, relative to the folder of this file."""
    found = sorted(path.as_posix() for pattern in FILES for path in Path().glob(pattern))
    return [path for path in found if Path(path).is_file()]


class BuildWithWorkflow(build_py):
    """Copies the files of the workflow into the package."""

    def _copies(self):
        folder = Path(self.build_lib, "mispair", "workflow_files")
        return {path: str(folder / path) for path in workflow_files()}

    def run(self):
        """Copy modules, data and, unless the installation is editable, the workflow."""
        super().run()
        if not self.editable_mode:
            for source, target in self._copies().items():
                self.mkpath(str(Path(target).parent))
                self.copy_file(source, target)

    def get_outputs(self, include_bytecode=True):
        """Return the paths of all files that are built."""
        copied = [] if self.editable_mode else list(self._copies().values())
        return [*super().get_outputs(include_bytecode), *copied]

    def get_source_files(self):
        """Return the sources of all files that are built, which a source distribution has."""
        return [*super().get_source_files(), *workflow_files()]


setup(cmdclass={"build_py": BuildWithWorkflow})
