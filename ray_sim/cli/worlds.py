"""`ray-sim worlds`: list the world parameters, which `-w` sets."""

from __future__ import annotations

from typing import Annotated

import typer

from ray_sim.cli.options import Json


def worlds(
    truth: Annotated[
        str | None, typer.Argument(help="Value of -w truth= whose parameters to show.", metavar="[TRUTH]")
    ] = None,
    json_output: Json = False,
) -> None:
    """List the world parameters with meaning, unit and default, all or those that one truth heeds.

    Example: ray-sim worlds a_online
    """
    from ray_sim.cli.console import print_json, print_table
    from ray_sim.engine.kinds.registry import JOB_KINDS
    from ray_sim.engine.world_parameters import heeding
    from ray_sim.experiments.inputs.server_files import WORLD
    from ray_sim.model.errors import UnknownNameError

    known = [kind.truth for kind in JOB_KINDS]
    if truth is not None and truth not in known:
        raise UnknownNameError("truth", truth, known)
    listed = [(each, heeding(each)) for each in WORLD if truth is None or truth in heeding(each)]
    if json_output:
        print_json([{**each.to_dict(), "truths": truths} for each, truths in listed])
        return
    print_table(
        ["parameter", "type", "default", "unit", "range", "truth", "meaning"],
        [
            (
                each.name,
                each.kind,
                each.default,
                each.unit,
                each.range_text or ", ".join(each.choices),
                "all" if truths == known else ", ".join(truths),
                each.meaning,
            )
            for each, truths in listed
        ],
        title="ray-sim run ... -w PARAMETER=VALUE",
    )
