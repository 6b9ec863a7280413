"""The command `ray-sim run`: simulate one scenario and write its result.

Listed in `COMMANDS` of `ray_sim/cli/app.py`. Option names and exit codes are part of the interface.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json, Params, StopAfter
from ray_sim.cli.scenario_options import (
    ClusterFile,
    CoolDown,
    Enrich,
    FirstSeed,
    LoadScale,
    PartitionRule,
    PolicyName,
    Resample,
    ScenarioFile,
    Unsuccessful,
    WarmUp,
    WindowOf,
    WorkloadFile,
    World,
    given,
    scenario_of,
)


def run(
    scenario_file: ScenarioFile = None,
    workload: WorkloadFile = None,
    unsuccessful: Unsuccessful = None,
    window: WindowOf = None,
    resample: Resample = None,
    load_scale: LoadScale = None,
    enrich: Enrich = None,
    cluster: ClusterFile = None,
    policy: PolicyName = None,
    params: Params = None,
    world: World = None,
    partition: PartitionRule = None,
    warm_up: WarmUp = None,
    cool_down: CoolDown = None,
    audit: Annotated[
        bool,
        typer.Option("--audit", help="Audit a run of announced jobs: best welfare, truthfulness, rules."),
    ] = False,
    audit_jobs: Annotated[
        int | None,
        typer.Option("--audit-jobs", min=1, metavar="N", help="Jobs whose misreports the audit tries [3]."),
    ] = None,
    seed: FirstSeed = None,
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
    stop_after_s: StopAfter = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Directory for the result [runs/POLICY-HASH].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Simulate one scenario, given by a file, by options, or by a file whose entries options override.

    Example: ray-sim run --workload philly.parquet --cluster philly --policy las -p placement=consolidate
    """
    import math
    import time
    from contextlib import nullcontext

    from ray_sim.cli.console import announcer, print_json, print_rows, progress, said_warnings, say
    from ray_sim.engine.snapshots import UnfitSnapshotError
    from ray_sim.experiments.fanout import check_address
    from ray_sim.experiments.fanout import cluster as ray_cluster
    from ray_sim.experiments.fanout.witness import last_words
    from ray_sim.experiments.rehearsal import Rehearsal
    from ray_sim.experiments.results.result_directories import prepare_target, write_files
    from ray_sim.experiments.results.snapshot_file import START_ANEW, SnapshotFile
    from ray_sim.experiments.run import run_scenario
    from ray_sim.experiments.run_identity import SHORT, HashedInputs
    from ray_sim.interruption import LAST_S, interruptible, time_limit
    from ray_sim.model.errors import InvalidInputError, RunStoppedError

    scenario = scenario_of(
        scenario_file,
        "ray-sim run",
        {
            "workload": workload,
            "unsuccessful": unsuccessful,
            "window": window,
            "resample": resample,
            "load_scale": load_scale,
            "enrich": enrich,
            "cluster": cluster,
            "policy": policy,
            "params": params,
            "world": world,
            "partition": partition,
            "warm_up": warm_up,
            "cool_down": cool_down,
            "seed": seed,
        },
        audit=given({"jobs": audit_jobs}) or ({} if audit else None),
        sites=sites,
        fleet=fleet,
    )
    inputs = HashedInputs()
    identity = inputs.identify(scenario)
    name = scenario.policy.rpartition(":")[2]
    directory = out or Path("runs") / f"{name}-{identity.content_hash[:SHORT]}"
    prepare_target(directory)  # refuse an unusable result directory before simulating
    check_address(address)
    announce = announcer(quiet=json_output)
    Rehearsal(inputs).set_up(scenario)
    on_actors = scenario.fleet == "actors"
    stop_at = time.monotonic() + (stop_after_s or math.inf)
    limit = time_limit(None if stop_after_s is None else stop_after_s + LAST_S)
    over = "" if stop_after_s is None else f", or it ran on after --stop-after-s {stop_after_s:g}"
    words = (
        f"error: this process ended without a result: its policy crashed or ended it, or it was killed{over}"
    )
    witness = last_words(words) if ":" in scenario.policy or over else nullcontext()
    with witness, limit, interruptible() as interruption, progress(name, quiet=json_output) as report:
        snapshot = SnapshotFile(
            directory,
            identity,
            every_s=snapshot_s,
            resume=resume,
            stopping=lambda: interruption.asked() or time.monotonic() >= stop_at,
            say=say,
        )
        try:
            with ray_cluster(address, announce) if on_actors else nullcontext(), said_warnings() as said:
                finished = run_scenario(scenario, inputs, report, snapshot)
        except RunStoppedError as stopped:
            say(str(stopped) if interruption.asked() else f"--stop-after-s {stop_after_s:g}: {stopped}")
            raise typer.Exit(interruption.exit_code if interruption.asked() else 1) from stopped
        except UnfitSnapshotError as unfit:
            raise InvalidInputError(f"{snapshot.path}: {unfit}; {START_ANEW}") from unfit
    write_files(directory, finished.files())
    snapshot.remove()
    for warning in finished.result.summary.policy_warnings or ():
        if warning not in said:
            say(f"warning: {warning}")
    if stalled := finished.result.summary.reasons.get("stalled"):
        say(
            f"warning: {stalled:,} of {finished.result.summary.jobs:,} jobs are unfinished (stalled): the "
            "policy left jobs waiting while no event was due; test it with ray-sim check-policy"
        )
    if json_output:
        summary = finished.result.summary.to_dict()
        print_json({"directory": str(directory), "hash": identity.content_hash, "summary": summary})
    else:
        print_rows([("result", directory), *finished.rows()])
