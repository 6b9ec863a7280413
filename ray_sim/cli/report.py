"""`ray-sim report`: write results as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows, print_text
from ray_sim.cli.options import Json, Out

MOST_FINDINGS = 4
"""Findings of a sweep in the terminal, each at one place; the report has all."""


def report(
    directory: Annotated[
        Path, Argument(metavar="DIR", help="Result directory of a run or a sweep, or a folder of runs.")
    ],
    out: Out,
    metric: Annotated[
        str | None,
        Option(help="Of a sweep: number of summary.json that compares the policies, as in compare."),
    ] = None,
    json_output: Json = False,
) -> None:
    """Write a report with tables and pictures as one self-contained HTML file.

    Example: ray-sim report results/demo -o report.html
    """
    from ray_sim.experiments.report import write_report

    written = write_report(directory, out, metric)
    if json_output:
        print_json(written.to_dict())
    else:
        texts = written.to_dict()
        del texts["findings"]
        print_rows(texts.items())
        for heading, finding in list(written.findings.items())[:MOST_FINDINGS]:
            print_text(f"{heading}: {finding}")
        if (more := len(written.findings) - MOST_FINDINGS) > 0:
            print_text(f"findings at {more:,} more places: in the report")
