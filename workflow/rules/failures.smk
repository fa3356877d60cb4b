# What becomes of a run that fails: a summary, and with --keep-going a report of all that there is.
from mispair.planning import failed_run

# Jobs on a cluster read the Snakefile again; the run is watched once.
if workflow.is_main_process:
    recorder = failed_run.watch(logger)


onerror:
    failed_run.tell(workflow, recorder, logger)


onsuccess:
    failed_run.forget()
