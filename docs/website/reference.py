"""Pages generated from the package: the help of every command, and the names that a program imports."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
from pkgutil import resolve_name
from unittest import mock

import ray_sim
from ray_sim import policy_api
from ray_sim.cli.app import COMMANDS, main

COLUMNS = 88
"""Width of help texts, in characters."""


def commands_page() -> str:
    """`ray-sim --help`, and the help of each command under its name."""
    names = [command.__name__.replace("_", "-") for command in COMMANDS]
    parts = ["# Commands", "The texts of `--help`.", _help()]
    for name in names:
        parts += [f"## ray-sim {name}", _help(name)]
    return "\n\n".join(parts) + "\n"


def _help(*command: str) -> str:
    printed = io.StringIO()
    with mock.patch.dict(os.environ, {"COLUMNS": str(COLUMNS)}), contextlib.redirect_stdout(printed):
        code = main([*command, "--help"])
    assert code == 0, command
    return f"```text\n{printed.getvalue().strip()}\n```"


def policy_api_page() -> str:
    """Everything that a policy imports, in the groups of the package's docstring."""
    intro = "All of these are imported `from ray_sim.policy_api`. "
    intro += "[A policy of your own](../own_policies.md) explains their use."
    parts = ["# What policies import", intro]
    for heading, names in policy_api_groups().items():
        parts += [f"## {heading.capitalize()}", *map(_policy_api_entry, names)]
    return "\n\n".join(parts) + "\n"


def _policy_api_entry(name: str) -> str:
    """The docstring of a name; a number, which has none, with its value."""
    value = getattr(policy_api, name)
    return f"### {name}\n\n`{value}`" if isinstance(value, int) else f"::: ray_sim.policy_api.{name}"


def policy_api_groups() -> dict[str, list[str]]:
    """Names by the first column of the table in the docstring of `ray_sim.policy_api`.

    A row goes on in the next line where its names end with a comma.
    """
    _, heading, body, *_ = re.split(r"^=+ +=+$\n?", policy_api.__doc__ or "", flags=re.MULTILINE)
    start = heading.index("names")
    groups: dict[str, list[str]] = {}
    label, goes_on = "", False
    for line in body.splitlines():
        first, names = line[:start].strip(), line[start:].strip()
        if goes_on:
            groups[f"{label} {first}".strip()] = groups.pop(label)
            label = f"{label} {first}".strip()
        else:
            label = first
            groups[label] = []
        groups[label] += re.findall(r"\w+", names)
        goes_on = names.endswith(",")
    return groups


def python_page() -> str:
    """Names of `ray_sim` for programs that run simulations."""
    names = [name for name in ray_sim.__all__ if name not in policy_api.__all__]
    intro = "All of these are imported `from ray_sim`; [running.md](../running.md#in-python) has examples. "
    intro += "What policies import is on [a page of its own](policy_api.md)."
    return "\n\n".join(["# Python", intro, *(f"::: ray_sim.{name}" for name in names)]) + "\n"


SUMMARY_PARTS = {
    "Every run": "ray_sim.model.result.Summary",
    "Distributions": "ray_sim.model.distribution.Distribution",
    "`certificate`": "ray_sim.model.result.JctCertificate",
    "`utility_certificate`": "ray_sim.model.result.UtilityCertificate",
    "Rigid jobs": "ray_sim.model.figures.GangFigures",
    "Elastic jobs": "ray_sim.model.figures.ElasticFigures",
    "Jobs in chunks": "ray_sim.model.figures.ChunkedFigures",
    "`deadlines`": "ray_sim.model.figures.DeadlineMisses",
    "Announced jobs": "ray_sim.model.figures.AnnouncedFigures",
    "`welfare`": "ray_sim.model.figures.WelfareFigures",
    "`audit`": "ray_sim.model.figures.WelfareAudit",
    "`audit.regret`": "ray_sim.model.figures.RegretFigures",
}
"""Classes whose fields are keys of summary.json, by the heading of their section."""


def summary_page() -> str:
    """Keys of summary.json: the fields of the classes that it is written from."""
    intro = "Each field is a key. Keys of other kinds of jobs than the run's are null. "
    intro += "[Columns of results](../result_columns.md) has the tables of a run."
    parts = [f"## {heading}\n\n{_fields(name)}" for heading, name in SUMMARY_PARTS.items()]
    return "\n\n".join(["# Keys of summary.json", intro, *parts]) + "\n"


def _fields(name: str) -> str:
    """A class whose fields are keys: without its methods and properties, which are none."""
    found = json.dumps([each.name for each in dataclasses.fields(resolve_name(name))])
    return f"::: {name}\n    options:\n      members: {found}\n      show_labels: false"
