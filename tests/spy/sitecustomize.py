"""Tells a test what the steps of a run do; Python imports it where this folder is in PYTHONPATH.

Each line of the file ``SPY`` is an event: seconds, process, kind and details. ``SPY_SAVE_SECONDS``
is how often states are saved. Jobs of the steps in the file ``SPY_HELD`` wait to be killed.
"""

import os
import sys
import time

if "SPY" in os.environ and sys.orig_argv[1:3] == ["-m", "mispair"]:
    from mispair import cli
    from mispair.core import files
    from mispair.core import resume as checkpoints

    def tell(*event):
        line = "\t".join(map(str, [time.time(), os.getpid(), *event])) + "\n"
        with open(os.environ["SPY"], "a") as told:
            told.write(line)

    def progress(state):
        """How far a state is: features, steps or products that are done."""
        for name in ("features", "losses"):
            if name in state and "step" not in state:
                return len(state[name])
        return int(state["step" if "step" in state else "done"])

    def hold():
        """Wait to be killed, or for a run that kills something else meanwhile."""
        path = os.environ["SPY_HELD"]
        signalled = path.removesuffix("txt") + str(os.getpid())  # a job may end by itself then
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and not os.path.exists(signalled):
            with open(path) as held:
                if sys.orig_argv[3] not in held.read().splitlines():
                    return
            time.sleep(0.02)

    def syncing(path):
        """A file is written, and not yet renamed into place."""
        sync(path)
        if "--checkpoint" not in command and os.path.isfile(path):
            tell("held")
            hold()

    def run_one(*words):
        """Note which of the commands of this process runs."""
        command[:] = words
        return run_command(*words)

    def main(arguments=None, began=None):
        tell("began", *sys.orig_argv[3:])
        code = run(arguments)
        tell("returned", code)
        return code

    def saving(self, state):
        try:
            save(self, state)
        finally:
            if self.load():
                tell("saved", self.path, progress(state))
        time.sleep(0.02)  # a moment in which a kill meets a state
        hold()

    def removing(self):
        """A job removes its states: it says which of the files it was asked for are not there."""
        kept = command[command.index("--checkpoint") + 1] if "--checkpoint" in command else None
        files = [word for word in command if word.startswith("results/") and word != kept]
        tell("cleared", *(path for path in files if not os.path.exists(path)))
        remove(self)

    command = []
    run, cli.main = cli.main, main
    run_command, cli._run_one = cli._run_one, run_one
    sync, files.synced = files.synced, syncing
    save, checkpoints.ArrayKeeper.save = checkpoints.ArrayKeeper.save, saving
    remove, checkpoints.Checkpoints.remove = checkpoints.Checkpoints.remove, removing
    checkpoints.SAVE_SECONDS = float(os.environ["SPY_SAVE_SECONDS"])
