"""Modules of ours that a command enters before the engine runs: `python -m tests.entered_modules run ...`.

A module is entered when one of its functions is called from another module of ours. Calls while a module is
imported do not count.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

from ray_sim.siblings import ROOT

PACKAGES = ("ray_sim", "workloads")

ENGINE = ("ray_sim.engine", "ray_sim.kernels")
"""Packages that do not count as on the way to the engine."""

LIBRARIES = ("ray_sim.model", "workloads")
"""Packages below the engine or beside it, which know no command and no experiment."""

LOOPS = ("run_world", "run_on_actors")
"""Functions of the engine that run a world to its end: the way ends at the first call."""


class Entered:
    """Profiler that counts the entries of each module until the engine runs."""

    def __init__(self) -> None:
        self.entries: Counter[str] = Counter()
        self._names: dict[str, str] = {}
        self._last = ""
        self._imports = 0
        self._arrived = False

    def during(self, work: Callable[[], object]) -> Entered:
        """Profile some work in this thread."""
        sys.setprofile(self._profile)
        try:
            work()
        finally:
            sys.setprofile(None)
        return self

    def above_the_engine(self) -> list[str]:
        """Modules of commands, experiments and policies, in the order of their first entries."""
        return [name for name in self.entries if not name.startswith(LIBRARIES)]

    def _profile(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if code.co_filename == "<frozen importlib._bootstrap>" and code.co_name == "_find_and_load":
            self._imports += (event == "call") - (event == "return")
        elif event == "call" and not self._imports and not self._arrived:
            self._enter(code)

    def _enter(self, code: CodeType) -> None:
        module = self._module(code.co_filename)
        self._arrived = module.startswith(ENGINE) and code.co_name in LOOPS
        if module and module != self._last and not module.startswith(ENGINE):
            self.entries[module] += 1
        self._last = module or self._last

    def _module(self, file: str) -> str:
        if file not in self._names:
            path = Path(file)
            ours = any(path.is_relative_to(ROOT / package) for package in PACKAGES)
            parts = path.relative_to(ROOT).with_suffix("").parts if ours else ()
            self._names[file] = ".".join(parts).removesuffix(".__init__")
        return self._names[file]


if __name__ == "__main__":
    from ray_sim.cli import main

    found = Entered().during(main)
    above = found.above_the_engine()
    for name, count in found.entries.items():
        sys.stdout.write(f"{count:4} {name}{'' if name in above else ' (library)'}\n")
    sys.stdout.write(
        f"{len(found.entries)} modules entered {found.entries.total()} times, {len(above)} above the engine\n"
    )
