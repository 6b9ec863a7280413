"""`ray-sim report`: write results as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ray_sim.cli.options import Json, Out


def report(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Result directory of a run or a sweep.")],
    out: Out,
    json_output: Json = False,
) -> None:
    """Write a report with tables and pictures as one self-contained HTML file.

    Example: ray-sim report results/demo -o report.html
    """
    from ray_sim.cli.console import print_json, print_rows
    from ray_sim.experiments.report import write_report

    written = write_report(directory, out)
    if json_output:
        print_json(written.to_dict())
    else:
        print_rows(written.to_dict().items())
