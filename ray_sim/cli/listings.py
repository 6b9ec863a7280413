"""Lists of what there is: `ray-sim policies`, `worlds`, `clusters` and `formats`."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_list, print_rows, print_table
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError, UnknownNameError

if TYPE_CHECKING:
    from ray_sim.model.parameters import Parameter


def _job_options(jobs: Collection[str]) -> str:
    """World parameters that only these kinds of jobs heed, with their choices."""
    from ray_sim.engine.kinds.registry import JOB_KINDS

    own = dict.fromkeys(each.parameter for kind in JOB_KINDS if kind.jobs in jobs for each in kind.parameters)
    names = [f"{p.name} ({', '.join(p.choices)})" if p.choices else p.name for p in own]
    return f"-w {', '.join(names)}" if names else ""


def _facts(parameter: Parameter) -> tuple[object, ...]:
    """Name, type, default, unit and range of a parameter."""
    among = parameter.range_text or ", ".join(parameter.choices)
    return parameter.name, parameter.kind, parameter.default, parameter.unit, among


def policies(
    name: Annotated[str | None, Argument(help="Policy whose parameters to show.")] = None,
    json_output: Json = False,
) -> None:
    """List the policies, or the parameters of one.

    Example: ray-sim policies las
    """
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
                (
                    "GPU types of jobs",
                    "respected" if chosen.gpu_types else "refused: set -w gpu_types=ignore",
                ),
                (
                    "shares of a GPU",
                    "on devices" if chosen.gpu_shares else "refused or pooled: set -w gpu_shares=pooled",
                ),
            ]
        )
        print_table(
            ["parameter", "type", "default", "unit", "range", "meaning"],
            [(*_facts(each), each.meaning) for each in chosen.parameters],
            title=f"{chosen.name}: {chosen.summary}",
        )


def worlds(
    truth: Annotated[
        str | None, Argument(help="Value of -w truth= whose parameters to show.", metavar="[TRUTH]")
    ] = None,
    json_output: Json = False,
) -> None:
    """List the world parameters with meaning, unit and default, all or those that one truth heeds.

    Example: ray-sim worlds a_online
    """
    from ray_sim.engine.kinds.registry import JOB_KINDS
    from ray_sim.engine.world_parameters import heeding
    from ray_sim.experiments.inputs.server_files import WORLD

    known = [kind.truth for kind in JOB_KINDS]
    if truth is not None and truth not in known:
        raise UnknownNameError("truth", truth, known)
    listed = [(each, heeding(each)) for each in WORLD if truth is None or truth in heeding(each)]
    print_list(
        ({**each.to_dict(), "truths": truths} for each, truths in listed),
        ["parameter", "type", "default", "unit", "range", "truth", "meaning"],
        [
            (*_facts(each), "all" if truths == known else ", ".join(truths), each.meaning)
            for each, truths in listed
        ],
        "ray-sim run ... -w PARAMETER=VALUE",
        as_json=json_output,
    )


def clusters(json_output: Json = False) -> None:
    """List the bundled clusters: servers, resources and purpose.

    Example: ray-sim clusters
    """
    from ray_sim.experiments.cluster_summary import describe_cluster, purpose
    from ray_sim.experiments.inputs.cluster_file import bundled_clusters, load_cluster

    found = [(describe_cluster(load_cluster(path)), purpose(path)) for path in bundled_clusters().values()]
    print_list(
        ({**facts.to_dict(), "purpose": text} for facts, text in found),
        ["cluster", "servers", "resources", "purpose"],
        [
            (
                facts.name,
                facts.servers,
                ", ".join(f"{total:,.15g} {name}" for name, total in facts.capacity.items()),
                text,
            )
            for facts, text in found
        ],
        "ray-sim run --workload FILE --cluster CLUSTER",
        as_json=json_output,
    )


def formats(
    name: Annotated[str | None, Argument(help="Format to show alone.")] = None,
    show: Annotated[
        bool, Option("--show", help="Print the preset NAME as a mapping file, to edit for --map.")
    ] = False,
    json_output: Json = False,
) -> None:
    """List the trace formats that convert reads, presets last: source, files and page of the guide.

    Example: ray-sim formats sacct --show > mine.yaml
    """
    from workloads.formats.registry import all_formats, presets

    found = all_formats()
    if name is not None and name not in found:
        raise UnknownNameError("trace format", name, found)
    if show:
        if name not in presets():
            raise InvalidInputError(
                f"--show: {name or 'no format'} is no preset; name one of {', '.join(presets())}"
            )
        sys.stdout.write(presets()[name].read_text())
        return
    listed = [*found.values()] if name is None else [found[name]]
    print_list(
        (each.to_dict() for each in listed),
        ["format", "source", "files", "page"],
        [(each.name, each.source, each.files, each.page) for each in listed],
        "ray-sim convert FORMAT FILES -o OUT.parquet",
        as_json=json_output,
    )
