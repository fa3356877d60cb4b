"""``mispair rerun`` and ``mispair verify``: compare results with their records."""

import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin

from mispair.core import files, run_record
from mispair.core.devices import device_in_use
from mispair.core.provenance import code_version, versions

OTHER_BYTES = "other bytes are expected on another type of CPU or GPU"


def again(path: Path, module: ModuleType, parameters: dict[str, Any]) -> list[str]:
    """Run the step of a record again in a temporary folder, and return the differences.

    Parameters
    ----------
    path : Path
        The record, ``<result>.run.json``.
    module : module
        Module of the step.
    parameters : dict of str to type
        Parameters of the step's ``run``.

    Raises
    ------
    UserError
        If an input has changed, or the record has other settings than this version.
    """
    record = run_record.read(path)
    inputs: dict[str, run_record.Facts] = record["inputs"]
    if faults := [
        fault for name, of in inputs.items() if (fault := run_record.difference(name, of))
    ]:
        raise files.UserError(f"{path} cannot be run again:\n  " + "\n  ".join(faults))
    unknown = record["settings"].keys() - module.Settings.model_fields.keys()
    missing = parameters.keys() - record["job"].keys() - set(run_record.CHANGE_NO_RESULT)
    if unknown or missing:
        raise files.UserError(
            f"{path}: {', '.join(sorted(unknown | missing))} of {record['step']} is not in both "
            f"this version of mispair and that of the record, {record['versions']['mispair']}."
        )
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary).resolve()

        def rerun_target(name: str) -> Path:
            """Return the path of an argument: the same for inputs, in `scratch` for others."""
            local = run_record.local_path(name)
            if name in inputs or any(one.startswith(f"{name}/") for one in inputs):
                return local
            return scratch / local.absolute().relative_to("/")

        def argument(key: str, kind: Any) -> Any:
            value = record["job"].get(key, 1)  # one worker: their number changes no result
            if get_origin(kind) is list and get_args(kind)[0] is Path:
                return [rerun_target(name) for name in value]
            return rerun_target(value) if kind is Path else value

        settings = module.Settings.model_validate(record["settings"])
        job = {key: argument(key, kind) for key, kind in parameters.items()}
        module.run(settings, **job)
        for written in scratch.rglob("*.json"):  # some hold the path of their folder, for open_clip
            content = written.read_bytes()
            written.write_bytes(content.replace(bytes(scratch), b""))
        return [
            f"{name}: {'is not written' if not rerun_path.is_file() else 'other bytes'}"
            for name, facts in record["outputs"].items()
            if not run_record.agrees(rerun_path := rerun_target(name), facts)
        ]


def reasons(record: dict[str, Any]) -> list[str]:
    """Return the changes since a record was written that may change its results."""
    now = dict(line.split() for line in code_version(record["step"]))
    changed = sorted(
        name for name in now | record["code"] if now.get(name) != record["code"].get(name)
    )
    texts = [f"code: {', '.join(changed)}"] if changed else []
    texts += [
        f"{name}: {version}, now {versions().get(name)}"
        for name, version in record["versions"].items()
        if versions().get(name) != version
    ]
    return texts + _other_devices({record["device"]}, {device_in_use()})


def differences(path: Path) -> tuple[list[str], list[str]]:
    """Compare the results here with those in the record of a whole run.

    Returns
    -------
    faults : list of str
        The results that differ or are missing.
    reasons : list of str
        A difference of the devices, by which other bytes are expected. Those of the results here
        are in their records.
    """
    try:
        record = files.read_json(path)[run_record.RECORD]
        results = record["results"]
    except (KeyError, TypeError) as error:
        raise files.UserError(f"{path}: is no record of a run (reports/run.json is).") from error
    faults = [
        difference
        for name, facts in results.items()
        if (difference := run_record.difference(name, facts))
    ]
    here = {
        run_record.read(one)["device"] for one in Path("results").rglob(f"*{run_record.ENDING}")
    }
    return faults, _other_devices(run_record.devices(record), here)


def _other_devices(recorded: set[str], here: set[str]) -> list[str]:
    """Describe a difference of devices; nothing is known of results without a record."""
    if recorded == here or not recorded or not here:
        return []
    names = (", ".join(sorted(devices)) for devices in (recorded, here))
    return [f"device: {', now '.join(names)}; {OTHER_BYTES}"]
