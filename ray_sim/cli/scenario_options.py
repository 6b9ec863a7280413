"""Options that describe a scenario, and the scenario that they give with or without a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

if TYPE_CHECKING:
    from ray_sim.experiments.scenario import Scenario

ScenarioFile = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO.yaml]", help="Scenario file, by path or URL; options override its entries."
    ),
]
WorkloadFile = Annotated[
    str | None, typer.Option("--workload", help="Parquet workload (see ray-sim convert), by path or URL.")
]
Unsuccessful = Annotated[
    str | None,
    typer.Option(metavar="RULE", help="Rule for jobs that failed or were killed in the trace: keep or drop."),
]
WindowOf = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="FROM TO", help="Only jobs submitted from second FROM to before second TO."),
]
Resample = Annotated[
    str | None, typer.Option(metavar="days", help="days: draw whole days of the workload with the seed.")
]
LoadScale = Annotated[float | None, typer.Option(help="Factor on the arrival rate.")]
Enrich = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PROFILE", help="Draw training columns or statements from this profile; repeatable."
    ),
]
ClusterFile = Annotated[
    str | None, typer.Option("--cluster", help="Bundled cluster, or a YAML or CSV file by path or URL.")
]
PolicyName = Annotated[
    str | None, typer.Option("--policy", help="Name of a policy, or module:Class of your own [fifo].")
]
World = Annotated[
    list[str] | None,
    typer.Option(
        "-w",
        metavar="KEY=VALUE",
        help="World parameter, e.g. slot_s=3600 (`ray-sim policies POLICY`, docs/engine.md); repeatable.",
    ),
]
PartitionRule = Annotated[
    str | None,
    typer.Option(help="vc restricts jobs to the servers of their virtual cluster; none does not [none]."),
]
WarmUp = Annotated[
    float | None,
    typer.Option(metavar="S", help="Leave jobs submitted in the first S seconds out of the summary."),
]
CoolDown = Annotated[
    float | None,
    typer.Option(metavar="S", help="Leave jobs submitted in the last S seconds out of the summary."),
]
FirstSeed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of the workload and the policy.")]


class ScenarioOptions(TypedDict):
    """Values of the options above; None where an option is absent."""

    workload: str | None
    unsuccessful: str | None
    window: tuple[float, float] | None
    resample: str | None
    load_scale: float | None
    enrich: list[str] | None
    cluster: str | None
    policy: str | None
    params: list[str] | None
    world: list[str] | None
    partition: str | None
    warm_up: float | None
    cool_down: float | None
    seed: int | None


def scenario_of(file: str | None, command: str, options: ScenarioOptions, **others: object) -> Scenario:
    """Scenario of a file whose entries the options override, or of the options alone.

    Parameters
    ----------
    command : names the options in errors, such as ``ray-sim run``
    others : further entries of the scenario; None where absent

    Raises
    ------
    InvalidScenarioError : the file or an option is invalid; every problem is listed
    """
    from ray_sim.experiments.scenario import key_values, parse_scenario, read_scenario

    workload = {"path": options["workload"]} | {
        key: options[key] for key in ("unsuccessful", "window", "resample", "load_scale", "enrich")
    }
    entries = {
        "workload": given(workload) or None,
        **{key: options[key] for key in ("cluster", "policy", "partition", "seed")},
        "params": key_values(options["params"], "-p") if options["params"] else None,
        "world": key_values(options["world"], "-w") if options["world"] else None,
        "trim": given({"warm_up_s": options["warm_up"], "cool_down_s": options["cool_down"]}) or None,
        **others,
    }
    if file is None:
        return parse_scenario(given(entries), command)
    return read_scenario(file, given(entries))


def given(options: Mapping[str, object]) -> dict[str, object]:
    """The options that are not None."""
    return {key: value for key, value in options.items() if value is not None}
