"""`ray-sim arena`: all systems on the same jobs, and who is best where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import (
    announcer,
    exit_unless,
    print_json,
    print_page_table,
    print_rows,
    print_table,
    progress,
    say,
    with_failures,
)
from ray_sim.cli.options import Address, Json, MaxInFlight, Quick, Results, Resume
from ray_sim.interruption import interruptible
from ray_sim.model.errors import InvalidScenarioError


def arena(
    file: Annotated[
        Path | None, Argument(metavar="[FILE.yaml]", help="Arena file [the bundled arena].")
    ] = None,
    out: Results = None,
    address: Address = "local",
    resume: Resume = False,
    quick: Quick = False,
    show: Annotated[
        bool, Option("--show", help="Print the arena file, as a start for one of your own.")
    ] = False,
    max_in_flight: MaxInFlight = None,
    json_output: Json = False,
) -> None:
    """Let all systems schedule the same jobs at every place of an arena file, and rank them by question.

    Example: ray-sim arena --quick -o results/quick
    """
    from ray_sim.experiments.arena.file import BUNDLED, read_arena
    from ray_sim.experiments.arena.run import run_arena
    from ray_sim.reports.arena import QUESTIONS, SENSITIVE
    from ray_sim.reports.arena_page import MOST_NAMES, best_table, missing_runs
    from workloads.documents import read_text

    if show:
        sys.stdout.write(read_text(file or BUNDLED, InvalidScenarioError))
        return
    announce = announcer(quiet=json_output)
    announce("checking every policy at every place")
    planned = read_arena(file or BUNDLED, quick=quick)
    with interruptible() as interruption, progress("arena", quiet=json_output) as report:
        ended = run_arena(
            planned,
            out,
            address=address,
            resume=resume,
            max_in_flight=max_in_flight,
            progress=with_failures(report),
            stop=interruption.asked,
            announce=announce,
        )
    if json_output:
        print_json(ended.to_dict())
    else:
        best = best_table(ended.standings, [each for each in QUESTIONS if each.key in SENSITIVE], MOST_NAMES)
        print_page_table(best)
        say(best.note)
        runs = {place.name: len(place.runs) for place in planned.places}
        missing = missing_runs(ended.scores, runs)
        if missing:
            print_table(["place with missing runs", "missing"], list(missing.items()))
        for failure in ended.sweep.failures[:10]:
            say(f"failed: {failure.entry.label}: {failure.error}")
        print_rows(
            [
                ("runs", f"{ended.scores.height} of {sum(runs.values())}"),
                ("conclusions", ended.conclusions.height),
                ("of these hold in every variant", int(ended.conclusions["holds"].sum())),
                ("page", str(ended.page)),
            ]
        )
    exit_unless(ended.sweep.ok, ended.sweep, interruption)
