"""Import the packages that stand beside ray_sim, whatever else has their names.

`workloads`, `cluster_specs` and `benchmarks` are plain words: a user's script may have a file or a folder of
the same name beside it, and Python would find that first.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
"""Folder of this package and its siblings: a checkout, or where packages are installed."""

ALWAYS = ("workloads", "cluster_specs")
"""Siblings that every run needs."""


class UnderRaySim(MetaPathFinder, Loader):
    """Import `ray_sim.workloads.store` as another name of the module `workloads.store`, and so on."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        first, _, rest = name.partition(".")
        ours = first == __package__ and rest.partition(".")[0] in ALWAYS
        return ModuleSpec(name, self) if ours else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(spec.name.partition(".")[2])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The module has run; it gets its own specification back.
        module.__spec__ = module.__spec__ and module.__spec__.loader_state


def import_sibling(name: str) -> None:
    """Import the package of this name from `ROOT`, so that later imports of it find no other.

    Where it is not in `ROOT`, as on a Ray cluster, which unpacks each package in a folder of its own, later
    imports search the path as usual.

    Raises
    ------
    ImportError : this process has imported another module of the name
    """
    known = sys.modules.get(name)
    if known is not None:
        _require_ours(known, name)
        return
    spec = PathFinder.find_spec(name, [str(ROOT)])
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def _require_ours(known: ModuleType, name: str) -> None:
    ours = ROOT / name
    found = [Path(folder) for folder in getattr(known, "__path__", ())] or [Path(str(known.__file__))]
    if ours.is_dir() and not any(path.exists() and path.samefile(ours) for path in found):
        raise ImportError(
            f"{found[0]} was imported as '{name}', which is the name of a package that ray_sim needs "
            f"({ours}): rename it"
        )


def namesakes() -> list[Path]:
    """Modules in the working directory that no import finds, since a sibling has their name."""
    if Path().samefile(ROOT):
        return []
    files = [path for path in map(Path, (f"{name}.py" for name in ALWAYS)) if path.is_file()]
    folders = [path for path in map(Path, ALWAYS) if any(path.glob("*.py"))]
    return [path.absolute() for path in files + folders]
