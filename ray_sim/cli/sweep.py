"""`ray-sim sweep`: run many simulations on Ray."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ray_sim.cli.console import announcer, exit_unless, print_json, print_sweep, progress, say
from ray_sim.cli.options import Address, Json, MaxInFlight, Results, Resume, StopAfter
from ray_sim.interruption import interruptible
from ray_sim.model.errors import InvalidInputError

ASK_ABOVE = 1_000
"""Largest number of configurations without a confirmation; more may be an error in an axis."""


def sweep(
    file: Annotated[str, Argument(metavar="FILE.yaml", help="Sweep file, by path or URL.")],
    out: Results = None,
    address: Address = "local",
    resume: Resume = False,
    prune: Annotated[
        bool,
        Option("--prune", help="Remove results of configurations that FILE no longer has, also in MLflow."),
    ] = False,
    max_in_flight: MaxInFlight = None,
    stop_after_s: StopAfter = None,
    yes: Annotated[
        bool, Option("--yes", help=f"Run more than {ASK_ABOVE:,} configurations without a question.")
    ] = False,
    live: Annotated[bool, Option("--live", help="Show progress on a page for this machine.")] = False,
    live_port: Annotated[int | None, Option(help="Port of --live; 0: any.", min=0, max=65_535)] = None,
    json_output: Json = False,
) -> None:
    """Run every combination of a sweep file on Ray, and log the results to MLflow.

    Example: ray-sim sweep jobs/demo.yaml -o demo/results
    """
    from ray_sim.experiments.live_page import LivePage
    from ray_sim.experiments.results.store import ResultStore
    from ray_sim.experiments.scenario import read_document
    from ray_sim.experiments.sweep import run_sweep
    from ray_sim.experiments.sweep_entries import same_failures, seeds_warning
    from ray_sim.experiments.sweep_file import has_figure, read_sweep
    from ray_sim.experiments.sweep_info import LiveNote, Standings

    announce = announcer(quiet=json_output)
    planned = read_sweep(file)
    if not yes:
        _confirm(file, len(planned.configurations))
    if warning := seeds_warning(each.entry for each in planned.configurations):
        sys.stderr.write(f"warning: {file}: {warning}\n")
    if text := same_failures(planned):
        say(f"note: {text}")
    directory = out or Path("results") / planned.name
    entries = [each.entry for each in planned.configurations]
    note = LiveNote(Standings(ResultStore(directory), entries))
    page = LivePage(planned.name, ResultStore(directory), entries)
    served = page.served(live_port or 0) if live or live_port is not None else nullcontext()

    def show(done: int, failed: int, total: int) -> None:
        page.progress(done, failed, total)
        report(done, total, note.text(failed, last=done == total))

    with interruptible() as interruption, served as link, progress("sweep", quiet=json_output) as report:
        if link is not None:
            say(f"live page: {link}")
        ended = run_sweep(
            planned,
            directory,
            address=address,
            resume=resume,
            prune=prune,
            max_in_flight=max_in_flight,
            stop_after_s=stop_after_s,
            progress=show,
            under_way=page.under_way,
            stop=interruption.asked,
            announce=announce,
        )
    if json_output:
        print_json(ended.to_dict())
    else:
        print_sweep(ended)
        if has_figure(read_document(file)):
            say(f"{file} states the shape of a figure; test it with: ray-sim reproduce {file}")
    exit_unless(ended.ok, ended, interruption)


def _confirm(file: str, configurations: int) -> None:
    if configurations <= ASK_ABOVE:
        return
    many = f"{file}: {configurations:,} configurations"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidInputError(f"{many}, more than {ASK_ABOVE:,}; shorten an axis, or say --yes")
    typer.confirm(f"{many}. Run them all?", abort=True, err=True)
