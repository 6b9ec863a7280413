"""The command `ray-sim run`: simulate one scenario and write its result.

Listed in `COMMANDS` of `ray_sim/cli/app.py`. Option names and exit codes are part of the interface.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from ray_sim.cli.console import announcer, print_json, print_legend, print_rows, progress, say
from ray_sim.cli.options import Json, StopAfter, takes_scenario
from ray_sim.interruption import interruptible

if TYPE_CHECKING:
    from ray_sim.experiments.scenario import Scenario


@takes_scenario("ray-sim run")
def run(
    scenario: Scenario,
    address: Annotated[
        str, Option(help="Ray for --fleet actors: local starts one; auto or ray://HOST:PORT join one.")
    ] = "local",
    resume: Annotated[
        bool, Option("--resume", help="Continue a stopped run from its last snapshot.")
    ] = False,
    snapshot_s: Annotated[float, Option(min=0, help="Seconds between two snapshots of a long run.")] = 60.0,
    stop_after_s: StopAfter = None,
    out: Annotated[
        Path | None, Option("-o", "--out", help="Directory for the result [runs/POLICY-HASH].")
    ] = None,
    json_output: Json = False,
) -> None:
    """Simulate one scenario, given by a file, by options, or by a file whose entries options override.

    Example: ray-sim run --workload philly.parquet --cluster philly --policy las -p placement=consolidate
    """
    from ray_sim.experiments.prepare import prepare
    from ray_sim.experiments.run import run_to_directory
    from ray_sim.model.errors import RunStoppedError
    from ray_sim.reports.tables import in_human_units, summary_rows
    from workloads.describe import tally_rows

    prepared = prepare(scenario)
    identity = prepared.identity  # its errors come before a word of compilation
    name = scenario.policy.rpartition(":")[2]
    with interruptible() as interruption, progress(name, quiet=json_output) as report:
        try:
            finished = run_to_directory(
                prepared,
                out,
                address=address,
                resume=resume,
                snapshot_s=snapshot_s,
                stop_after_s=stop_after_s,
                progress=report,
                stop=interruption.asked,
                announce=announcer(quiet=json_output),
                say=say,
            )
        except RunStoppedError as stopped:
            say(str(stopped) if interruption.asked() else f"--stop-after-s {stop_after_s:g}: {stopped}")
            raise Exit(interruption.exit_code if interruption.asked() else 1) from stopped
    if json_output:
        summary = finished.result.summary.to_dict()
        print_json({"directory": str(finished.directory), "hash": identity.content_hash, "summary": summary})
    else:
        rows = [*tally_rows(finished.tally), *in_human_units(summary_rows(finished.result.summary))]
        print_rows([("result", finished.directory), *rows])
        print_legend(str(text) for row in rows for text in row)
