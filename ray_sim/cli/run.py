"""The command `ray-sim run`: simulate one scenario and write its result.

Listed in `COMMANDS` of `ray_sim/cli/app.py`. Option names and exit codes are part of the interface.
"""

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
            metavar="[SCENARIO.yaml]", help="Scenario file, by path or URL; options override its entries."
        ),
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", help="Parquet workload (see ray-sim convert), by path or URL.")
    ] = None,
    unsuccessful: Annotated[
        str | None,
        typer.Option(
            metavar="RULE", help="Rule for jobs that failed or were killed in the trace: keep or drop."
        ),
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="FROM TO", help="Only jobs submitted from second FROM to before second TO."),
    ] = None,
    resample: Annotated[
        str | None, typer.Option(metavar="days", help="days: draw whole days of the workload with the seed.")
    ] = None,
    load_scale: Annotated[float | None, typer.Option(help="Factor on the arrival rate.")] = None,
    enrich: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROFILE", help="Draw training columns or statements from this profile; repeatable."
        ),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Bundled cluster, or a YAML or CSV file by path or URL.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Name of a policy, or module:Class of your own [fifo].")
    ] = None,
    params: Params = None,
    world: Annotated[
        list[str] | None,
        typer.Option(
            "-w",
            metavar="KEY=VALUE",
            help="World parameter, e.g. slot_s=3600 (`ray-sim policies POLICY`, docs/engine.md); repeatable.",
        ),
    ] = None,
    partition: Annotated[
        str | None,
        typer.Option(help="vc restricts jobs to the servers of their virtual cluster; none does not [none]."),
    ] = None,
    warm_up: Annotated[
        float | None,
        typer.Option(metavar="S", help="Leave jobs submitted in the first S seconds out of the summary."),
    ] = None,
    cool_down: Annotated[
        float | None,
        typer.Option(metavar="S", help="Leave jobs submitted in the last S seconds out of the summary."),
    ] = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Audit a run of announced jobs: best welfare, truthfulness, rules."),
    ] = False,
    audit_jobs: Annotated[
        int | None,
        typer.Option("--audit-jobs", min=1, metavar="N", help="Jobs whose misreports the audit tries [200]."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the workload and the policy.")] = None,
    fleet: Annotated[
        str | None,
        typer.Option(help="Simulate servers in this process (local) or in Ray actors (actors) [local]."),
    ] = None,
    sites: Annotated[
        int | None, typer.Option(min=1, help="Number of server groups, each simulated separately [1].")
    ] = None,
    address: Annotated[
        str, typer.Option(help="Ray for --fleet actors: local starts one; auto or ray://HOST:PORT join one.")
    ] = "local",
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a stopped run from its last snapshot.")
    ] = False,
    snapshot_s: Annotated[
        float, typer.Option(min=0, help="Seconds between two snapshots of a long run.")
    ] = 60.0,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the result [runs/POLICY-HASH].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Simulate one scenario, given by a file, by options, or by a file whose entries options override.

    Example: ray-sim run --workload philly.parquet --cluster philly --policy las -p placement=consolidate
    """
    from contextlib import nullcontext

    from ray_sim.cli.console import announcer, print_json, print_rows, progress, said_warnings, say
    from ray_sim.experiments.fanout import check_address
    from ray_sim.experiments.fanout import cluster as ray_cluster
    from ray_sim.experiments.rehearsal import Rehearsal
    from ray_sim.experiments.result_directories import prepare_target, write_files
    from ray_sim.experiments.run import run_scenario
    from ray_sim.experiments.run_identity import SHORT, HashedInputs
    from ray_sim.experiments.scenario import key_values, parse_scenario, read_scenario
    from ray_sim.experiments.snapshot_file import SnapshotFile
    from ray_sim.interruption import interruptible
    from ray_sim.kernels.compile import COMPILING, compiled_before
    from ray_sim.model.errors import RunStoppedError

    workload_options = {
        "path": workload,
        "unsuccessful": unsuccessful,
        "window": window,
        "resample": resample,
        "load_scale": load_scale,
        "enrich": enrich,
    }
    options = {
        "workload": _given(workload_options) or None,
        "cluster": cluster,
        "policy": policy,
        "params": key_values(params, "-p") if params else None,
        "world": key_values(world, "-w") if world else None,
        "partition": partition,
        "trim": _given({"warm_up_s": warm_up, "cool_down_s": cool_down}) or None,
        "audit": _given({"jobs": audit_jobs}) or ({} if audit else None),
        "seed": seed,
        "sites": sites,
        "fleet": fleet,
    }
    given = _given(options)
    if scenario_file is None:
        scenario = parse_scenario(given, "ray-sim run")
    else:
        scenario = read_scenario(scenario_file, given)
    inputs = HashedInputs()
    identity = inputs.identify(scenario)
    name = scenario.policy.rpartition(":")[2]
    directory = out or Path("runs") / f"{name}-{identity.content_hash[:SHORT]}"
    prepare_target(directory)  # refuse an unusable result directory before simulating
    check_address(address)
    announce = announcer(quiet=json_output)
    if not compiled_before():  # asked before the first kernel is called
        announce(COMPILING)
    Rehearsal(inputs).set_up(scenario)
    on_actors = scenario.fleet == "actors"
    with interruptible() as interruption, progress(name, quiet=json_output) as report:
        snapshot = SnapshotFile(
            directory,
            identity,
            every_s=snapshot_s,
            resume=resume,
            stopping=interruption.asked,
            say=say,
        )
        try:
            with ray_cluster(address, announce) if on_actors else nullcontext(), said_warnings() as said:
                finished = run_scenario(scenario, inputs, report, snapshot)
        except RunStoppedError as stopped:
            say(str(stopped))
            raise typer.Exit(interruption.exit_code) from stopped
    write_files(directory, finished.files())
    snapshot.remove()
    for warning in finished.result.summary.policy_warnings or ():
        if warning not in said:
            say(f"warning: {warning}")
    if json_output:
        summary = finished.result.summary.to_dict()
        print_json({"directory": str(directory), "hash": identity.content_hash, "summary": summary})
    else:
        print_rows([("result", directory), *finished.rows()])


def _given(options: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in options.items() if value is not None}
