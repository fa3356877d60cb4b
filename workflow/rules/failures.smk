# The end of a run: the report's address; of failed jobs a summary, and with --keep-going a report.
from mispair.planning import failed_run

# Jobs on a cluster read the Snakefile again; the run is watched once.
if workflow.is_main_process:
    recorder = failed_run.watch(logger)
    failed_run.show_report_at_exit(workflow, recorder)


onerror:
    failed_run.tell(workflow, recorder, logger)


onsuccess:
    failed_run.forget()
