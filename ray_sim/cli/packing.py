"""`ray-sim packing`: how full clusters got while jobs came that never left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows, print_table
from ray_sim.cli.options import Json


def packing(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="Result directories of runs.")],
    out: Annotated[
        Path | None, Option("-o", "--out", help="Write a page with pictures to this HTML file.")
    ] = None,
    json_output: Json = False,
) -> None:
    """Compare runs of a stream: GPUs in use, and fragments, over the load that has come, in percent.

    Example: ray-sim packing runs/fgd-1a2b runs/best_fit-3c4d -o packing.html
    """
    from ray_sim.experiments.packing import LOADS, packing_of, write_packing_page
    from ray_sim.reports.packing_curve import SHARES

    curves = {str(run): packing_of(run) for run in runs}
    if out is not None:
        write_packing_page(curves, out)
    if json_output:
        print_json({run: curve.to_dict() for run, curve in curves.items()})
        return
    rows = [(run, *row) for run, curve in curves.items() for row in curve.at(LOADS)]
    print_table(("run", "load, %", *SHARES.values()), rows)
    print_rows([] if out is None else [("page", out)])
