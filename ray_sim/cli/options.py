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

Params = Annotated[
    list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
]
"""Texts ``KEY=VALUE``, not parsed yet; None if the option is absent."""
