"""The command line, `ray-sim`. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RaySimError

if TYPE_CHECKING:
    from ray_sim.experiments.scenario import Scenario

app = typer.Typer(
    name="ray-sim",
    help="Replay real traces of distributed-training jobs under any scheduler, on any cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable output.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="File to write.")]


def main(argv: list[str] | None = None) -> int:
    """Run a command; a user's mistake becomes a message and an exit code, never a traceback."""
    try:
        app(args=argv, prog_name="ray-sim")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except RaySimError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, InvalidInputError) else 1
    return 0


@app.command()
def convert(
    format_name: Annotated[str, typer.Argument(metavar="FORMAT", help="Trace format, e.g. philly-csv, csv.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SRC...", help="The trace's files.")],
    out: Out,
    mapping: Annotated[
        Path | None, typer.Option("--map", help="YAML that maps the trace's columns to the schema's.")
    ] = None,
    rebase: Annotated[
        bool, typer.Option("--rebase", help="Count submit_s from the first kept submission.")
    ] = False,
    rejects: Annotated[
        Path | None, typer.Option("--rejects", help="File for the rejected rows [OUT.rejects.parquet].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert a trace to a Parquet workload; every row is kept or rejected with a counted reason.

    Example: ray-sim convert philly-csv philly.csv.gz -o philly.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.convert import ConvertOptions
    from workloads.convert import convert as convert_trace

    began = time.perf_counter()
    options = ConvertOptions(mapping=mapping, rebase=rebase)
    report = convert_trace(format_name, sources, out, options=options, rejects=rejects)
    seconds = time.perf_counter() - began
    if json_output:
        print_json({**report.to_dict(), "seconds": seconds})
        return
    for warning in report.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    print_rows(
        [
            ("workload", out),
            ("rows read", report.read),
            ("rows kept", report.kept),
            *((f"rejected, {reason}", count) for reason, count in report.rejected.items()),
            *([("rejects", report.rejects)] if report.rejects else []),
            ("seconds", round(seconds, 2)),
        ]
    )


@app.command()
def synth(
    profile: Annotated[str, typer.Argument(help="What the jobs are like, e.g. philly.")],
    jobs: Annotated[int, typer.Option("-n", "--jobs", min=1, help="Number of jobs.")],
    out: Out,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    load_scale: Annotated[float, typer.Option(help="Factor on the arrival rate, above 0.")] = 1.0,
    json_output: Json = False,
) -> None:
    """Draw a synthetic workload.

    Example: ray-sim synth philly -n 10000 --seed 1 -o synthetic.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.store import write_workload
    from workloads.synth import synth as draw

    frame, provenance = draw(profile, jobs, seed, load_scale)
    write_workload(frame, provenance, out)
    facts = {"workload": str(out), "profile": profile, "jobs": jobs, "seed": seed, "load_scale": load_scale}
    if json_output:
        print_json(facts)
    else:
        print_rows(facts.items())


@app.command()
def info(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A workload, a cluster or a run directory.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", help="Cluster whose load by the workload to show.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Show what is in a workload, a cluster or a run, and whether it is valid.

    Example: ray-sim info philly.parquet --cluster philly
    """
    from ray_sim.console import print_json, print_rows

    path = Path(source)
    if path.is_dir():
        _run_info(path, json_output)
        return
    from ray_sim.experiments.cluster_file import load_cluster
    from ray_sim.experiments.cluster_summary import describe_cluster
    from workloads.describe import describe_workload

    if path.suffix == ".parquet":
        facts = describe_workload(path, load_cluster(cluster) if cluster else None)
    else:
        facts = describe_cluster(load_cluster(source))
    if json_output:
        print_json(facts.to_dict())
    else:
        print_rows(facts.rows())


@app.command()
def policies(
    name: Annotated[str | None, typer.Argument(help="One policy, with its parameters.")] = None,
    json_output: Json = False,
) -> None:
    """List the policies, or the parameters of one.

    Example: ray-sim policies las
    """
    from ray_sim.console import print_json, print_table
    from ray_sim.model.errors import UnknownNameError
    from ray_sim.policies.registry import policy_infos

    infos = {each.name: each for each in policy_infos()}
    if name is not None and name not in infos:
        raise UnknownNameError("policy", name, infos)
    if json_output:
        print_json([each.to_dict() for each in infos.values()] if name is None else infos[name].to_dict())
    elif name is None:
        print_table(["policy", "section", "decides"], [(each.name, each.section, each.summary) for each in infos.values()])
    else:
        chosen = infos[name]
        print_table(
            ["parameter", "type", "default", "unit", "meaning"],
            [(p.name, p.type, p.default, p.unit, p.meaning) for p in chosen.parameters],
            title=f"{chosen.name} (section {chosen.section}): {chosen.summary}",
        )


@app.command()
def run(
    scenario_file: Annotated[
        Path | None, typer.Argument(metavar="[SCENARIO.yaml]", help="A scenario file, instead of the options.")
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", "-w", help="Parquet workload.")] = None,
    json_output: Json = False,
) -> None: ...
