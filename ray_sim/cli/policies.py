"""`ray-sim policies`: list the schedulers and their parameters."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

import typer

from ray_sim.cli.options import Json


def _job_options(jobs: Collection[str]) -> str:
    """World parameters that only these kinds of jobs heed, with their choices."""
    from ray_sim.engine.kinds.registry import JOB_KINDS

    own = dict.fromkeys(each.parameter for kind in JOB_KINDS if kind.jobs in jobs for each in kind.parameters)
    names = [f"{p.name} ({', '.join(p.choices)})" if p.choices else p.name for p in own]
    return f"-w {', '.join(names)}" if names else ""


def policies(
    name: Annotated[str | None, typer.Argument(help="Policy whose parameters to show.")] = None,
    json_output: Json = False,
) -> None:
    """List the policies, or the parameters of one.

    Example: ray-sim policies las
    """
    from ray_sim.cli.console import print_json, print_rows, print_table
    from ray_sim.model.errors import UnknownNameError
    from ray_sim.policies.registry import policy_infos

    infos = {each.name: each for each in policy_infos()}
    if name is not None and name not in infos:
        raise UnknownNameError("policy", name, infos)
    if json_output:
        print_json([each.to_dict() for each in infos.values()] if name is None else infos[name].to_dict())
    elif name is None:
        print_table(
            ["policy", "jobs", "rule", "required options", "definition"],
            [
                (each.name, ", ".join(each.jobs), each.summary, each.needs, each.section)
                for each in infos.values()
            ],
            title="ray-sim run --workload FILE --cluster NAME --policy POLICY [required options]",
        )
    else:
        chosen = infos[name]
        print_rows(
            [
                ("definition", chosen.section or "not stated"),
                ("jobs", ", ".join(chosen.jobs)),
                ("required options", chosen.needs or "none"),
                *[("options of its jobs", text) for text in [_job_options(chosen.jobs)] if text],
                ("sees", ", ".join(["arrivals", "demands", *chosen.sees])),
            ]
        )
        print_table(
            ["parameter", "type", "default", "unit", "range", "meaning"],
            [
                (p.name, p.kind, p.default, p.unit, p.range_text or ", ".join(p.choices), p.meaning)
                for p in chosen.parameters
            ],
            title=f"{chosen.name}: {chosen.summary}",
        )
