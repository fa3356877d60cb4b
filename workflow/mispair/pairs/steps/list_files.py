"""List the files of many jobs with their digests, for the jobs that read them all.

Once all jobs are done, the parts of results that no result has any more are removed.
"""

from pathlib import Path

from mispair.core import settings


class Settings(settings.Settings):
    """There is nothing to set."""


def run(settings: Settings, *, files: list[Path], listings: list[Path]) -> None:
    """Write the listings, each of the files of one ending.

    ``parquet.sha256`` lists the files ``NAME.parquet``, ``rejected.parquet.sha256`` those called
    ``NAME.rejected.parquet``. No NAME has a dot.
    """
    from mispair.core.reuse import tidy
    from mispair.core.stamps import of_ending, write_listing

    for listing in listings:
        write_listing(listing, of_ending(files, listing))
    for folder in {path.parent for path in files}:
        tidy(folder)
