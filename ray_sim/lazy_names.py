"""Public names of a package, imported when they are first used, so that a start loads nothing heavy."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, for what it imports if TYPE_CHECKING."""
    module = sys.modules[package]
    code = ast.parse(Path(str(module.__file__)).read_bytes()).body
    blocks = [each for each in code if isinstance(each, ast.If) and ast.unparse(each.test) == "TYPE_CHECKING"]
    imports = [each for block in blocks for each in block.body if isinstance(each, ast.ImportFrom)]
    homes = {alias.name: str(each.module) for each in imports for alias in each.names}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        home = import_module(homes[name])
        value = import_module(f"{package}.{name}") if home is module else getattr(home, name)
        setattr(module, name, value)
        return value

    return get, lambda: sorted({*vars(module), *homes}), sorted(homes)
