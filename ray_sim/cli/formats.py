"""`ray-sim formats`: list the trace formats that `ray-sim convert` reads."""

from __future__ import annotations

from ray_sim.cli.options import Json


def formats(json_output: Json = False) -> None:
    """List the trace formats that convert reads: source, files and page of the guide.

    Example: ray-sim formats
    """
    from ray_sim.cli.console import print_json, print_table
    from workloads.formats.registry import FORMATS

    if json_output:
        print_json([each.to_dict() for each in FORMATS.values()])
        return
    print_table(
        ["format", "source", "files", "page"],
        [(each.name, each.source, each.files, each.page) for each in FORMATS.values()],
        title="ray-sim convert FORMAT FILES -o OUT.parquet",
    )
