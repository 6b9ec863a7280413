"""`ray-sim run`: one simulation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json, Params


def run(
    scenario_file: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCENARIO.yaml]", help="A scenario file, by path or URL; options go before what it says."
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Parquet workload, by path or URL.")
    ] = None,
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
    enrich: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="Draw how jobs train from a training profile.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Bundled cluster, or a YAML or CSV file by path or URL.")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Name, or module:Class of your own.")] = None,
    params: Params = None,
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
    fleet: Annotated[
        str | None, typer.Option(help="Where servers are simulated: local, or actors on Ray [local].")
    ] = None,
    sites: Annotated[
        int | None, typer.Option(min=1, help="Groups of servers simulated apart, an actor each.")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Of the Ray for actors: local starts one; auto or ray://HOST:PORT join.")
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last snapshot of a run that was stopped.")
    ] = False,
    snapshot_s: Annotated[
        float, typer.Option(min=0, help="Seconds between two snapshots of a long run.")
    ] = 60.0,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the result [runs/POLICY-HASH].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Simulate one scenario, given as a file, by options, or as a file with other values by options.

    Example: ray-sim run --workload philly.parquet --cluster philly --policy las -p placement=consolidate
    """
    from contextlib import nullcontext

    from ray_sim.cli.console import announcer, print_json, print_rows, progress, say
    from ray_sim.experiments.content import SHORT, Inputs
    from ray_sim.experiments.fanout import check_address
    from ray_sim.experiments.fanout import cluster as ray_cluster
    from ray_sim.experiments.rehearsal import Rehearsal
    from ray_sim.experiments.result_files import prepare_target, write_files
    from ray_sim.experiments.run import run_scenario
    from ray_sim.experiments.scenario import key_values, parse_scenario, read_scenario
    from ray_sim.experiments.snapshot_file import SnapshotFile
    from ray_sim.interruption import interruptible
    from ray_sim.kernels.compile import COMPILING, compiled_before
    from ray_sim.model.errors import RunStoppedError

    realised = {
        "path": workload,
        "unsuccessful": unsuccessful,
        "window": window,
        "resample": resample,
        "load_scale": load_scale,
        "enrich": enrich,
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
        "fleet": fleet,
    }
    given = _given(options)
    if scenario_file is None:
        scenario = parse_scenario(given, "ray-sim run")
    else:
        scenario = read_scenario(scenario_file, given)
    inputs = Inputs()
    content = inputs.content(scenario)
    name = scenario.policy.rpartition(":")[2]
    directory = out or Path("runs") / f"{name}-{content.content_hash[:SHORT]}"
    prepare_target(directory)  # before the work, not after it
    check_address(address)
    Rehearsal(inputs).set_up(scenario)
    announce = announcer(quiet=json_output)
    if not compiled_before():
        announce(COMPILING)
    on_actors = scenario.fleet == "actors"
    with interruptible() as interruption, progress(name, quiet=json_output) as report:
        snapshot = SnapshotFile(
            directory,
            content,
            every_s=snapshot_s,
            resume=resume,
            stopping=interruption.asked,
            say=say,
        )
        try:
            with ray_cluster(address, announce) if on_actors else nullcontext():
                finished = run_scenario(scenario, inputs, report, snapshot)
        except RunStoppedError as stopped:
            say(str(stopped))
            raise typer.Exit(interruption.exit_code) from stopped
    write_files(directory, finished.files())
    snapshot.remove()
    for warning in finished.result.summary.policy_warnings or ():
        say(f"warning: {warning}")
    if json_output:
        summary = finished.result.summary.to_dict()
        print_json({"directory": str(directory), "hash": content.content_hash, "summary": summary})
    else:
        print_rows([("result", directory), *finished.rows()])


def _given(options: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}
