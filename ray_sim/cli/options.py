"""Options that several commands take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print machine-readable output.")]
Out = Annotated[Path, typer.Option("-o", "--out", help="File to write.")]
Params = Annotated[
    list[str] | None, typer.Option("-p", metavar="KEY=VALUE", help="Parameter of the policy; repeatable.")
]
