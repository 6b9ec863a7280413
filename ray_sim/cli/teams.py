"""`ray-sim teams`: what became of each team of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from ray_sim.cli.console import print_json, print_table
from ray_sim.cli.options import Json


def teams(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Result directories of runs.")],
    json_output: Json = False,
) -> None:
    """Show jobs, waits, use of quotas, preemptions and waste of each team, for runs on a cluster with teams.

    Example: ray-sim teams runs/batch-1a2b runs/fifo-3c4d
    """
    from ray_sim.experiments.results.result_files import read_teams
    from ray_sim.reports.teams import COLUMNS

    found = {str(run): read_teams(run) for run in runs}
    if json_output:
        print_json({run: table.to_dicts() for run, table in found.items()})
        return
    rows = [(run, *row) for run, table in found.items() for row in table.select(**COLUMNS).rows()]
    print_table(("run", *COLUMNS), rows)
