"""`ray-sim reproduce`: published figures on our runs, with verdicts on their shapes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from ray_sim.cli.console import (
    announcer,
    exit_unless,
    print_json,
    print_list,
    print_page_table,
    print_rows,
    progress,
    say,
    say_stopped,
    with_failures,
)
from ray_sim.cli.options import Address, Json, MaxInFlight, Quick, Results, Resume
from ray_sim.interruption import interruptible
from ray_sim.model.errors import InvalidInputError

if TYPE_CHECKING:
    from ray_sim.experiments.figures.file import Figure
    from ray_sim.experiments.figures.reproduce import Reproduction


def reproduce(
    figures: Annotated[
        list[str] | None,
        Argument(
            metavar="FIGURE...", help="Names of figures or of systems, figure files of yours (.yaml), or all."
        ),
    ] = None,
    out: Results = None,
    data: Annotated[
        Path | None, Option("--data", help="Directory of the files that figures name under data.")
    ] = None,
    list_only: Annotated[
        bool, Option("--list", help="List the figures, their sources, CPU time and data.")
    ] = False,
    quick: Quick = False,
    address: Address = "local",
    resume: Resume = False,
    max_in_flight: MaxInFlight = None,
    json_output: Json = False,
) -> None:
    """Run published figures and tell which of their statements appear.

    Example: ray-sim reproduce pd_ors/machines --quick -o results/quick
    """
    from ray_sim.experiments.figures.file import describe_figure, find_figures, read_figure
    from ray_sim.experiments.figures.reproduce import reproduce as run_figures
    from ray_sim.experiments.run_identity import HashedInputs

    if not figures and not list_only:
        raise InvalidInputError("reproduce: name a figure, a system, or all; --list shows them")
    found = find_figures(figures or ["all"])
    if list_only:
        _print_list(
            [describe_figure(name, path, data) for name, path in found.items()], json_output=json_output
        )
        return
    announce = announcer(quiet=json_output)
    announce("checking every figure")
    inputs = HashedInputs()
    planned = [read_figure(name, path, inputs, data, quick=quick) for name, path in found.items()]
    with interruptible() as interruption, progress("reproduce", quiet=json_output) as report:
        ended = run_figures(
            planned,
            inputs,
            out,
            verdicts=not quick,
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
        _print(ended)
    exit_unless(ended.ok, ended.sweep, interruption)
    if ended.errors:
        raise Exit(2)


def _print_list(figures: Sequence[Figure], *, json_output: bool) -> None:
    rows = [
        {
            "figure": figure.name,
            "title": figure.spec.title,
            "source": figure.spec.source,
            "cpu_s": figure.spec.cpu_s,
            "missing_data": {name: figure.spec.data[name] for name in figure.missing},
        }
        for figure in figures
    ]
    cells = [
        [row["figure"], row["source"], row["cpu_s"], _data_text(figure)]
        for row, figure in zip(rows, figures, strict=True)
    ]
    print_list(rows, ["figure", "source", "CPU s", "data"], cells, as_json=json_output)


def _data_text(figure: Figure) -> str:
    from ray_sim.model.readable import first_and_others

    if not figure.spec.data:
        return "none needed"
    return f"missing: {first_and_others(figure.missing)}" if figure.missing else "here"


def _print(ended: Reproduction) -> None:
    """Print the verdicts of all figures; of one alone also each comparison."""
    from ray_sim.reports.figure_page import check_table, verdict_table

    if len(ended.results) == 1:
        for table in map(check_table, ended.results[0].checks):
            print_page_table(table)
            sys.stdout.write(f"{table.note}\n\n")
    print_page_table(verdict_table(ended.results))
    for result in ended.results:
        if result.missing:
            say(f"{result.name}: {result.answer}")
        if result.error is not None:
            say(f"failed: {result.name}: {result.error}")
    if ended.sweep is None:
        return
    for failure in ended.sweep.failures[:10]:
        say(f"failed: {failure.entry.label}: {failure.error}")
    say_stopped(ended.sweep)
    done = sum(result.done for result in ended.results)
    runs = f"{done:,} of {sum(result.planned for result in ended.results):,}"
    print_rows([("runs of figures", runs), ("results", ended.sweep.directory), ("page", str(ended.page))])
