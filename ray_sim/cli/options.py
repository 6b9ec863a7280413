"""Options that several commands of the command line take.

A command uses one of these types for a parameter and sets the default itself. The flags and the text of
``--help`` are part of the user interface.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable output.")]
"""Flag: whether to print JSON in place of text."""

Out = Annotated[Path, typer.Option("-o", "--out", help="File to write.")]
"""Path of an output file; the option is required where the command sets no default."""

Results = Annotated[
    Path | None, typer.Option("-o", "--out", help="Directory for the results [results/NAME].")
]
"""Directory of the results of a sweep; None is named after the sweep."""

Address = Annotated[str, typer.Option(help="local starts Ray; auto or ray://HOST:PORT join a running one.")]
"""Ray that a sweep runs on."""

Resume = Annotated[
    bool, typer.Option("--resume", help="Run only configurations without a result of this code.")
]
"""Flag: whether to keep the results of an earlier start of the same sweep."""

MaxInFlight = Annotated[
    int | None, typer.Option(min=1, help="Configurations submitted to Ray at a time [cores + 1].")
]
"""Limit on the configurations that Ray has at a time; None is that of `fan_out`."""

StopAfter = Annotated[
    float | None,
    typer.Option(
        "--stop-after-s", min=1, max=1e8, metavar="S", help="Wall-clock seconds after which a run is stopped."
    ),
]
"""Limit on the wall-clock seconds of a run; None is none."""

Params = Annotated[
    list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
]
"""Texts ``KEY=VALUE``, not parsed yet; None if the option is absent."""
