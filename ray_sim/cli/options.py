"""Options that several commands take, whose defaults they set themselves, and those of a scenario.

The flags and the text of ``--help`` are part of the user interface.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

Json = Annotated[bool, Option("--json", help="Print machine-readable output.")]
"""Flag: whether to print JSON in place of text."""

Out = Annotated[Path, Option("-o", "--out", help="File to write.")]
"""Path of an output file; the option is required where the command sets no default."""

Results = Annotated[Path | None, Option("-o", "--out", help="Directory for the results [results/NAME].")]
"""Directory of the results of a sweep; None is named after the sweep."""

Address = Annotated[
    str,
    Option(help="local starts Ray; auto, HOST:PORT or ray://HOST:PORT join one; none runs in this process."),
]
"""Ray that a sweep runs on."""

Resume = Annotated[bool, Option("--resume", help="Run only configurations without a result of this code.")]
"""Flag: whether to keep the results of an earlier start of the same sweep."""

MaxInFlight = Annotated[
    int | None, Option(min=1, help="Configurations submitted to Ray at a time [cores + 1].")
]
"""Limit on the configurations that Ray has at a time; None is that of `fan_out`."""

Quick = Annotated[bool, Option("--quick", help="Few jobs and one seed: does everything run? No verdicts.")]
"""Flag: whether to run a small part without verdicts."""

DrawSeed = Annotated[int, Option(min=0, help="Seed of the draw.")]
"""Seed of what a command draws at random."""

ServersOf = Annotated[str, Argument(help="Bundled cluster, or its YAML or CSV file.")]
"""Cluster by name or file."""

StopAfter = Annotated[
    float | None,
    Option(
        "--stop-after-s", min=1, max=1e8, metavar="S", help="Wall-clock seconds after which a run is stopped."
    ),
]
"""Limit on the wall-clock seconds of a run; None is none."""

Params = Annotated[
    list[str] | None, Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
]
"""Texts ``KEY=VALUE``, not parsed yet; None if the option is absent."""


SCENARIO_FILE = Annotated[
    str | None,
    Argument(metavar="[SCENARIO.yaml]", help="Scenario file, by path or URL; options override its entries."),
]


def _at(place: str, kind: Any, text: str, *flags: str, **shown: Any) -> tuple[str, Any]:
    annotated: Any = Annotated
    return place, annotated[kind | None, Option(*flags, help=text, **shown)]


OPTIONS: Mapping[str, tuple[str, Any]] = {
    "workload": _at("workload.path", str, "Parquet workload (see ray-sim convert), by path or URL."),
    "unsuccessful": _at(
        "workload.unsuccessful",
        str,
        "Rule for jobs that failed or were killed in the trace: keep or drop.",
        metavar="RULE",
    ),
    "window": _at(
        "workload.window",
        tuple[float, float],
        "Only jobs submitted from second FROM to before second TO.",
        metavar="FROM TO",
    ),
    "resample": _at(
        "workload.resample", str, "days: draw whole days of the workload with the seed.", metavar="days"
    ),
    "load_scale": _at("workload.load_scale", float, "Factor on the arrival rate."),
    "stream": _at(
        "workload.stream",
        float,
        "Jobs arrive one per second in a drawn order and stay, up to LOAD times the cluster's GPUs.",
        metavar="LOAD",
    ),
    "enrich": _at(
        "workload.enrich",
        list[str],
        "Draw training columns or statements from this profile; repeatable.",
        metavar="PROFILE",
    ),
    "cluster": _at("cluster", str, "Bundled cluster, or a YAML or CSV file by path or URL."),
    "policy": _at("policy", str, "Name of a policy, or module:Class of your own [fifo]."),
    "params": _at("params", list[str], "Parameter of the policy; repeatable.", "-p", metavar="KEY=VALUE"),
    "label": _at("label", str, "Name of the policy in tables and charts [policy with its parameters]."),
    "world": _at(
        "world",
        list[str],
        "World parameter, e.g. slot_s=3600 (`ray-sim policies POLICY`, docs/engine.md); repeatable.",
        "-w",
        metavar="KEY=VALUE",
    ),
    "partition": _at(
        "partition", str, "vc restricts jobs to the servers of their virtual cluster; none does not [none]."
    ),
    "warm_up": _at(
        "trim.warm_up_s",
        float,
        "Leave jobs submitted in the first S seconds out of the summary.",
        metavar="S",
    ),
    "cool_down": _at(
        "trim.cool_down_s",
        float,
        "Leave jobs submitted in the last S seconds out of the summary.",
        metavar="S",
    ),
    "audit": _at(
        "audit", bool, "Audit a run of announced jobs: best welfare, truthfulness, rules.", "--audit"
    ),
    "audit_jobs": _at("audit.jobs", int, "Jobs whose misreports the audit tries [3].", min=1, metavar="N"),
    "seed": _at("seed", int, "Seed of the workload and the policy.", min=0),
    "fleet": _at("fleet", str, "Simulate servers in this process (local) or in Ray actors (actors) [local]."),
    "sites": _at("sites", int, "Number of server groups, each simulated separately [1].", min=1),
}
"""Place in the scenario and type with Typer's option, by name of the parameter, in the order of --help."""

_PAIRS = {"params": "-p", "world": "-w"}  # options with texts KEY=VALUE, and their flags


def takes_scenario(
    command: str, without: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the scenario file and the options of a scenario, in place of its parameter `scenario`.

    Parameters
    ----------
    command : names the options in errors, such as ``ray-sim run``
    without : options that the command does not have
    """
    names = [name for name in OPTIONS if name not in without]

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, localns={"Scenario": object}, include_extras=True)
        options = {each: (OPTIONS[each][1], None) for each in names}
        described = {"scenario_file": (SCENARIO_FILE, None), **options}
        own: dict[str, tuple[Any, Any]] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            own |= described if name == "scenario" else {name: (hints[name], parameter.default)}

        @wraps(function)
        def with_scenario(scenario_file: str | None, **given: Any) -> None:
            options = {name: given.pop(name) for name in names}
            function(scenario=_scenario(scenario_file, command, options), **given)

        kind = inspect.Parameter.KEYWORD_ONLY
        shown = [
            inspect.Parameter(name, kind, annotation=hint, default=default)
            for name, (hint, default) in own.items()
        ]
        with_scenario.__annotations__ = {name: hint for name, (hint, _) in own.items()}
        with_scenario.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # read by Typer
        return with_scenario

    return decorated


def _scenario(file: str | None, command: str, options: Mapping[str, Any]) -> object:
    """Scenario of a file whose entries the options override, or of the options alone.

    Raises
    ------
    InvalidScenarioError : the file or an option is invalid; every problem is listed
    """
    from ray_sim.experiments.scenario import key_values, parse_scenario, read_scenario

    entries: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or value == []:
            continue
        section, _, key = OPTIONS[name][0].partition(".")
        content = key_values(value, _PAIRS[name]) if name in _PAIRS else {} if value is True else value
        entries[section] = {**entries.get(section, {}), key: content} if key else content
    return parse_scenario(entries, command) if file is None else read_scenario(file, entries)
