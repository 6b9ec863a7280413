"""`ray-sim report`: results as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Results of a run or of a sweep.")],
    out: Out,
    json_output: Json = False,
) -> None:
    """Write a report with tables and pictures: one HTML file that needs nothing else.

    Example: ray-sim report results/demo -o report.html
    """
    from ray_sim.cli.console import print_json, print_rows
    from ray_sim.experiments.report import write_report

    written = write_report(directory, out)
    if json_output:
        print_json(written.to_dict())
    else:
        print_rows(written.to_dict().items())
