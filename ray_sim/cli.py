"""The command line, `ray-sim`. Heavy imports wait inside the commands, so that --help is quick."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, RaySimError

if TYPE_CHECKING:
    from ray_sim.experiments.cluster_summary import ClusterSummary
    from ray_sim.experiments.result_files import StoredRun
    from workloads.describe import WorkloadDescription

app = typer.Typer(
    name="ray-sim",
    help="Replay real traces of distributed-training jobs under any scheduler, on any cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

ASK_ABOVE = 1_000
"""Configurations of a sweep that nobody is asked about; more may be a slip in an axis."""

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
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Keep the jobs submitted in [FROM, TO) seconds."),
    ] = None,
    rejects: Annotated[
        Path | None, typer.Option("--rejects", help="File for the rejected rows [OUT.rejects.parquet].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Convert a trace to a Parquet workload; every row is kept or rejected with a counted reason.

    Example: ray-sim convert philly-csv philly.csv.gz -o philly.parquet
    """
    from ray_sim.console import print_json, print_rows
    from workloads.convert import convert as convert_trace
    from workloads.realise import Window
    from workloads.trace_format import ConvertOptions

    began = time.perf_counter()
    report = convert_trace(
        format_name,
        sources,
        out,
        options=ConvertOptions(mapping=mapping, rebase=rebase),
        window=None if window is None else Window(*window),
        rejects=rejects,
    )
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
            *([("rows outside the window", report.outside_window)] if window else []),
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

    facts = _facts_of(source, cluster)
    if json_output:
        print_json(facts.to_dict())
    else:
        print_rows(facts.rows())


def _facts_of(source: str, cluster: str | None) -> WorkloadDescription | ClusterSummary | StoredRun:
    path = Path(source)
    if path.suffix == ".parquet":
        from ray_sim.experiments.cluster_file import load_cluster
        from workloads.describe import describe_workload

        return describe_workload(path, load_cluster(cluster) if cluster else None)
    if cluster:
        raise InvalidInputError(f"--cluster {cluster}: only with a workload, and {source} is none")
    if path.is_dir():
        from ray_sim.experiments.result_files import StoredRun, read_manifest, read_summary

        return StoredRun(read_manifest(path), read_summary(path))
    from ray_sim.experiments.cluster_file import load_cluster
    from ray_sim.experiments.cluster_summary import describe_cluster

    return describe_cluster(load_cluster(source))


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
        print_table(
            ["policy", "section", "decides"],
            [(each.name, each.section, each.summary) for each in infos.values()],
        )
    else:
        chosen = infos[name]
        print_table(
            ["parameter", "type", "default", "unit", "meaning"],
            [(p.name, p.kind, p.default, p.unit, p.meaning) for p in chosen.parameters],
            title=f"{chosen.name} (section {chosen.section}): {chosen.summary}",
        )


@app.command()
def run(
    scenario_file: Annotated[
        Path | None,
        typer.Argument(metavar="[SCENARIO.yaml]", help="A scenario file, instead of the options."),
    ] = None,
    workload: Annotated[str | None, typer.Option("--workload", help="Parquet workload.")] = None,
    unsuccessful: Annotated[
        str | None, typer.Option(metavar="RULE", help="Jobs that failed or were killed: keep or drop.")
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Only jobs submitted in [FROM, TO) seconds."),
    ] = None,
    resample: Annotated[
        str | None, typer.Option(metavar="days", help="Draw whole days of the workload with the seed.")
    ] = None,
    load_scale: Annotated[
        float | None, typer.Option(help="Factor on the load: submissions come so many times as fast.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Bundled cluster, or its YAML or CSV file.")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Name, or module:Class of your own.")] = None,
    params: Annotated[
        list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
    ] = None,
    world: Annotated[
        list[str] | None, typer.Option("-w", metavar="KEY=VALUE", help="Fact of the world; repeatable.")
    ] = None,
    partition: Annotated[
        str | None, typer.Option(help="vc confines jobs to their vc's servers, or none.")
    ] = None,
    warm_up: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds of submissions at the start not to count.")
    ] = None,
    cool_down: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds of submissions at the end not to count.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of workload and policy.")] = None,
    sites: Annotated[int | None, typer.Option(min=1, help="Groups of servers simulated apart.")] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the result [runs/POLICY-HASH].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Simulate one scenario, given as a file or by options.

    Example: ray-sim run --workload philly.parquet --cluster philly --policy las -p placement=consolidate
    """
    from ray_sim.console import print_json, print_rows, progress
    from ray_sim.experiments.content import SHORT, Inputs
    from ray_sim.experiments.result_files import prepare_target, write_files
    from ray_sim.experiments.run import run_scenario
    from ray_sim.experiments.scenario import key_values, parse_scenario, read_scenario

    realised = {
        "path": workload,
        "unsuccessful": unsuccessful,
        "window": window,
        "resample": resample,
        "load_scale": load_scale,
    }
    options = {
        "workload": _given(realised) or None,
        "cluster": cluster,
        "policy": policy,
        "params": key_values(params, "-p") if params else None,
        "world": key_values(world, "-w") if world else None,
        "partition": partition,
        "trim": _given({"warm_up_s": warm_up, "cool_down_s": cool_down}) or None,
        "seed": seed,
        "sites": sites,
    }
    given = _given(options)
    if scenario_file is not None and given:
        raise InvalidScenarioError(
            f"{scenario_file}: holds the scenario; leave out the options for {', '.join(given)}"
        )
    scenario = read_scenario(scenario_file) if scenario_file else parse_scenario(given, "ray-sim run")
    inputs = Inputs()
    content = inputs.content(scenario)
    name = scenario.policy.rpartition(":")[2]
    directory = out or Path("runs") / f"{name}-{content.content_hash[:SHORT]}"
    prepare_target(directory)  # before the work, not after it
    with progress(name, quiet=json_output) as report:
        finished = run_scenario(scenario, inputs, report)
    write_files(directory, finished.files())
    if json_output:
        summary = finished.result.summary.to_dict()
        print_json({"directory": str(directory), "hash": content.content_hash, "summary": summary})
    else:
        print_rows([("result", directory), *finished.rows()])


def _given(options: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The sweep.")],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the results [results/NAME].")
    ] = None,
    address: Annotated[
        str, typer.Option(help="local starts Ray; auto or ray://HOST:PORT join one that runs.")
    ] = "local",
    resume: Annotated[bool, typer.Option("--resume", help="Run only what has no result yet.")] = False,
    max_in_flight: Annotated[
        int | None, typer.Option(min=1, help="Configurations handed to Ray at a time [cores + 1].")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"Do not ask above {ASK_ABOVE:,} configurations.")
    ] = False,
    json_output: Json = False,
) -> None:
    """Run every combination of a sweep file on Ray, and log the results to MLflow.

    Example: ray-sim sweep jobs/demo.yaml -o demo/results
    """
    from ray_sim.console import print_json, print_sweep, progress
    from ray_sim.experiments.sweep import INTERRUPTED, run_sweep
    from ray_sim.experiments.sweep_file import read_sweep
    from ray_sim.interruption import interruptible

    planned = read_sweep(file)
    if not yes:
        _confirm(file, len(planned.configurations))
    with interruptible() as interruption, progress("sweep", quiet=json_output) as report:
        ended = run_sweep(
            planned,
            out,
            address=address,
            resume=resume,
            max_in_flight=max_in_flight,
            progress=lambda done, failed, total: report(done, total, f"({failed} failed)" if failed else ""),
            stop=interruption.asked,
        )
    if json_output:
        print_json(ended.to_dict())
    else:
        print_sweep(ended)
    if ended.stopped == INTERRUPTED:
        raise typer.Exit(interruption.exit_code)
    if not ended.ok:
        raise typer.Exit(1)


def _confirm(file: Path, configurations: int) -> None:
    if configurations <= ASK_ABOVE:
        return
    many = f"{file}: {configurations:,} configurations"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInputError(f"{many}, more than {ASK_ABOVE:,}; shorten an axis, or say --yes")
    typer.confirm(f"{many}. Run them all?", abort=True, err=True)


@app.command()
def log(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a run or of a sweep.")],
    json_output: Json = False,
) -> None:
    """Log stored results to MLflow; what is logged already stays as it is.

    Example: ray-sim log results/demo
    """
    from ray_sim.console import print_json, print_rows
    from ray_sim.experiments.result_files import is_result
    from ray_sim.experiments.tracking import log_run, log_store

    logged = log_run(directory) if is_result(directory) else log_store(directory)
    if json_output:
        print_json(logged.to_dict())
    else:
        print_rows((label, value) for label, value in logged.to_dict().items() if label != "damaged")
    for problem in logged.damaged:
        sys.stderr.write(f"error: {problem}; run it again with ray-sim sweep --resume\n")
    if logged.damaged:
        raise typer.Exit(1)


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a run or of a sweep.")],
    out: Out,
    json_output: Json = False,
) -> None:
    """Write a report with tables and pictures: one HTML file that needs nothing else.

    Example: ray-sim report results/demo -o report.html
    """
    from ray_sim.console import print_json, print_rows
    from ray_sim.experiments.report import write_report

    written = write_report(directory, out)
    if json_output:
        print_json(written.to_dict())
    else:
        print_rows(written.to_dict().items())


@app.command()
def diff(
    here: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory.")],
    other: Annotated[Path, typer.Argument(help="Another run, or a Parquet or CSV table with job_id.")],
    start: Annotated[str, typer.Option(help="Column of the start in OTHER, in seconds.")] = "start_s",
    finish: Annotated[str, typer.Option(help="Column of the finish in OTHER, in seconds.")] = "finish_s",
    json_output: Json = False,
) -> None:
    """Compare when each job started and finished, exactly; exit code 1 if any job differs.

    Example: ray-sim diff runs/fifo-1a2b other.csv --start fifo_start_s --finish fifo_finish_s
    """
    from dataclasses import astuple

    from ray_sim.console import exact, print_json, print_rows, print_table
    from ray_sim.reports.diff import diff_jobs, read_job_times

    found = diff_jobs(read_job_times(here), read_job_times(other), start, finish)
    if json_output:
        print_json(found.to_dict())
    else:
        counts = found.to_dict()
        names = {"compared": "jobs compared", "differing": "differing"}
        names |= {"only_here": f"only in {here}", "only_there": f"only in {other}"}
        print_rows((label, counts[name]) for name, label in names.items())
        if found.first_differences:
            columns = ["job_id", "start_s", "start_s, other", "finish_s", "finish_s, other"]
            rows = [[exact(cell) for cell in astuple(each)] for each in found.first_differences]
            print_table(columns, rows, "first differences")
        for label, jobs in (("only here", found.first_only_here), ("only there", found.first_only_there)):
            if jobs:
                print_rows([(label, ", ".join(jobs))])
    if not found.same:
        raise typer.Exit(1)


@app.command()
def compare(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RUN_OR_SWEEP...", help="Directories of sweeps or of runs.")
    ],
    metric: Annotated[
        str, typer.Option(help="A number of summary.json, e.g. jct_s.p99, makespan_s, utilisation.gpu.")
    ] = "jct_s.mean",
    baseline: Annotated[
        str | None, typer.Option(metavar="POLICY", help="What to compare with [the best mean].")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="CLASS", help="Also by class of job: size, vc, load or duration; repeatable."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare policies over the same seeds: how large the difference is, and whether it is real.

    Example: ray-sim compare results/study --baseline fifo --by size
    """
    from ray_sim.console import print_json
    from ray_sim.console_compare import print_comparison
    from ray_sim.experiments.compare import compare_results

    found = compare_results(map(str, sources), metric, baseline, by or [])
    if json_output:
        print_json(found.to_dict())
    else:
        print_comparison(found)


@app.command(name="check-policy")
def check_policy(
    ref: Annotated[str, typer.Argument(metavar="MODULE:CLASS", help="A policy of your own, or a name.")],
    params: Annotated[
        list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Run the contract that every policy keeps: feasible, deterministic, blind to what it must not see.

    Example: ray-sim check-policy mypolicy:ShortestFirst
    """
    from dataclasses import asdict

    from ray_sim.console import print_json, print_table
    from ray_sim.experiments.scenario import key_values
    from ray_sim.policies.contract_suite import check_policy as check

    outcomes = check(ref, key_values(params or [], "-p"))
    if json_output:
        print_json([asdict(outcome) for outcome in outcomes])
    else:
        print_table(
            ["check", "result", "detail"],
            [(each.name, "passed" if each.passed else "FAILED", each.detail) for each in outcomes],
        )
    if not all(outcome.passed for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="One benchmark, e.g. replay; all without it.")] = None,
    json_output: Json = False,
) -> None:
    """Measure the budgets: speeds, and ratios of things timed in one run.

    Example: ray-sim bench replay
    """
    from benchmarks.runner import run_benchmarks
    from ray_sim.console import print_json, print_rows, print_table

    report = run_benchmarks(name)
    if json_output:
        print_json(report.to_dict())
        return
    print_rows([*report.machine.items(), *report.versions.items()])
    for key, measured in report.benchmarks.items():
        print_table(measured.headings(), measured.cells(), title=f"{key}: {measured.workload}")


if __name__ == "__main__":
    sys.exit(main())
