"""Settings on the command line and back, and what they refuse."""

import shlex
from typing import Literal

import pytest
from pydantic import Field, ValidationError

from mispair.command import step_parser
from mispair.core import settings
from mispair.core.commands import job_parameters, step_module, step_names
from mispair.core.settings import NONE, command_line, is_optional, is_sweep


class Example(settings.Settings):
    epochs: int = Field(3, ge=1)
    lr: float = 1e-3
    kind: Literal["a", "b"] = "a"
    pairs: int | None = 10
    ks: list[int] = [1, 2]
    flag: bool = True
    rates: list[float] = settings.sweep([0.1])


def test_sweeps_never_reach_a_job() -> None:
    assert command_line(Example(rates=[0.1, 0.2])) == command_line(Example())


def test_two_settings_that_trade_values_are_told_apart() -> None:
    # Snakemake compares params as a set: one string must differ when two numbers change places.
    assert command_line(Example(epochs=2, pairs=3)) != command_line(Example(epochs=3, pairs=2))


@pytest.mark.parametrize(("values", "words"), [
    ({"epochs": True}, "truth value"),
    ({"epoch": 3}, "not permitted"),
    ({"rates": [0.1, 0.3, 0.1]}, "0.1 is listed twice"),
    ({"ks": [4, 4]}, "4 is listed twice"),
    ({"lr": float("nan")}, "finite"),
])  # fmt: skip
def test_what_is_refused(values: dict, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Example.model_validate(values)


def test_yaml_numbers_without_a_point_are_taken() -> None:
    # YAML reads 1e-3 as text; every user means a number.
    assert Example.model_validate({"lr": "1e-3"}).lr == 1e-3


@pytest.mark.parametrize("name", step_names())
def test_every_step_reads_its_own_flags_back(name: str) -> None:
    """Config key = command-line flag = settings field, for every step, at its defaults."""
    module = step_module(name)
    parser = step_parser(name)
    words = shlex.split(command_line(module.Settings()))
    for parameter, kind in job_parameters(module.run).items():
        numeric = kind in (int, float, int | None, list[int], list[float])
        words += [settings.option(parameter), "1" if numeric else "x"]
    values = vars(parser.parse_args(words))
    for parameter in job_parameters(module.run):
        values.pop(parameter)
    swept = {key for key, field in module.Settings.model_fields.items() if is_sweep(field)}
    assert set(values) == set(module.Settings.model_fields) - swept
    for key, value in values.items():
        if value in (NONE, [NONE]) and is_optional(module.Settings.model_fields[key].annotation):
            values[key] = None
    again = module.Settings.model_validate(values)
    assert again.model_dump(exclude=swept) == module.Settings().model_dump(exclude=swept)


@pytest.mark.parametrize("name", step_names())
def test_every_setting_is_described(name: str) -> None:
    module = step_module(name)
    undescribed = [k for k, field in module.Settings.model_fields.items() if not field.description]
    assert not undescribed
    assert module.__doc__
    assert module.run.__doc__
