# Check the configuration before any job, and find the code and settings of each step.
import os
import signal

# The package of this checkout, or else an installed one: these rules may come from an address.
# (`workflow.basedir` would be the folder of the workflow that uses this one as a module.)
WORKFLOW = os.path.dirname(str(workflow.current_basedir))
if os.path.isdir(os.path.join(WORKFLOW, "mispair")):
    sys.path.insert(0, WORKFLOW)

from snakemake.common.configfile import load_configfile
from snakemake.logging import logger

from mispair.towers.arms import REPAIR, STARTS, WEIGHTED
from mispair import forkserver
from mispair.config import locate
from mispair.dag import SHOWN_GROUPS, Dag
from mispair.evaluation.dag import making
from mispair.image_text import dag as of_image_text
from mispair.input_checks import damaged_words, refuse_unusable
from mispair.core.files import UserError, refuse_full_or_read_only
from mispair.core.paths import benchmarks_of_report, folder_of_output, resume_state
from mispair.core.paths import every, fill, joined, of_job
from mispair.core.stamps import MADE
from mispair.repair.captioners.functions import look_beside
from mispair.report import dag as of_report
from mispair.report.studies import NAMES as STUDIES
from mispair.run_checks import compare_with_record, date_results, names_gpus, refuse_dated_ahead
from mispair.run_checks import refuse_to_start, replaced_report, take_literally, use_this_python
from mispair.run_checks import warn_of_missing_gpu, warn_of_missing_programs

# The templates of all paths of results, by package.
from mispair.audit import paths as audit
from mispair.evaluation import paths as evaluation
from mispair.image_text import paths as image_text
from mispair.pairs import paths as pairs
from mispair.pairs.shards.stores import redacted
from mispair.pretraining import paths as pretraining
from mispair.repair import paths as repair
from mispair.report import paths as reports
from mispair.review import paths as review
from mispair.simulation import paths as simulation
from mispair.stepsize import paths as stepsize
from mispair.sufficiency import paths as sufficiency
from mispair.towers import paths as towers

use_this_python()

# Signals reach the step itself, which saves its state, and not a shell, which would end.
shell.prefix("set -euo pipefail; exec ")
if not workflow.is_main_process:
    # SLURM's warning reaches all processes of a job. Snakemake ignores it and waits for the step.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def stop(error):
    """Print the message of an error alone, without credentials, and end Snakemake."""
    logger.error(redacted(str(error)))
    sys.exit(1)


if set(WORKFLOW) & {"{", "}"}:
    # Snakemake formats the path of each rule's conda environment.
    stop(
        f"{WORKFLOW}: Snakemake takes braces in the path of mispair's own folder for wildcards."
        " Rename or move that folder; folders of data and of runs may have braces."
    )


clock = None
try:
    if workflow.is_main_process:
        clock = date_results(logger)
    given = {path: load_configfile(path) for path in workflow.config_settings.configfiles}
    look_beside(given)
    dag = Dag(
        config,
        locate(config, given, workflow.config_settings.config),
        names_gpus(workflow.resource_settings),
        in_a_job=not workflow.is_main_process,
    )
    dag.ends()  # raises here, and not in the middle of a rule, if settings do not fit
    # Jobs on a cluster read the Snakefile again; once is enough.
    if workflow.is_main_process:
        refuse_unusable(dag)
        dag.pairs.keep_listings()
        warn_of_missing_gpu(dag, workflow)
        notes = [compare_with_record(dag), replaced_report(dag), damaged_words(dag)]
        for warning in filter(None, [*notes, warn_of_missing_programs(sys.argv)]):
            logger.warning(warning)
        for line in filter(None, [dag.pairs.echo(), *dag.evaluation.echo()]):
            logger.info(line)
except UserError as error:
    stop(error)


as_named = take_literally()


def dated(files):
    """Stop at a file that is dated ahead of the clock; return the files."""
    if clock is not None:
        try:
            refuse_dated_ahead(files, clock)
        except UserError as error:
            stop(error)
    return [as_named(file) for file in files]


def alone(files):
    """Let a function of wildcards end Snakemake with the message of its error alone."""

    def of_job(wildcards):
        try:
            return files(wildcards)
        except UserError as error:
            stop(error)

    return of_job


def steady(files, copied=False):
    """Ignore the times of a user's own files: their stamps decide what reruns.

    Remote shards are no files of a job, which has them as a parameter, unless it needs copies.
    """
    if callable(files):
        return alone(lambda wildcards: steady(files(wildcards), copied))
    files = [files] if isinstance(files, str) else files
    if dag.pairs.streams and not copied:
        files = [file for file in files if file not in dag.pairs.remote]
    own = iter(dated([file for file in files if not file.startswith(MADE)]))
    return [file if file.startswith(MADE) else ancient(next(own)) for file in files]


onstart:
    # Snakemake's limit of 100 jobs a second, which no run reaches, makes it look at all waiting jobs
    # again each second, and once more a second, in a thread of its own, for each job that has ended.
    limiter = workflow.scheduler.job_rate_limiter
    if limiter and (limiter.max_jobs, limiter.timespan) == (100, 1):  # it was not asked for
        workflow.scheduler.job_rate_limiter = None
    try:
        refuse_full_or_read_only("results", "logs", "benchmarks", "reports")
        dag.pairs.begin()
        refuse_to_start(dag, workflow, recorder, logger)
    except UserError as error:
        stop(error)
    isolated = workflow.deployment_settings.deployment_method
    if workflow.executor_plugin.name == "local" and not isolated:
        forkserver.start()


# The image that --sdm apptainer runs every step in.
if image := os.environ.get("MISPAIR_CONTAINER"):

    container: image


wildcard_constraints:
    arm="[A-Za-z0-9-]+(_[a-z-]+~[0-9.e-]+)?",
    corpus="[^/]+",
    draw="[0-9]+",
    evaluation_set="[^/]+",
    group="[0-9]+",
    k="[0-9]+",
    model="[^/]+",
    ranking="text|image|both|none",
    rate="[0-9.e-]+",
    scheme="[a-z-]+",
    protocol="[^/]+",
    shard="[^/]+",
    split="test|train",
    start="|".join([*STARTS, WEIGHTED, f"{REPAIR}[a-z-]+"]),
    strategy="[a-z-]+",
    texts="captions-[0-9]+|recaptions|[a-z-]+~[0-9.e-]+",
    towers="[^/]+",
