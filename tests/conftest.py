"""Fixtures of all test suites."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.proofs import instances

REPOSITORY = Path(__file__).parents[1]

# The same examples in every run, and no limit on the time that one takes on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=instances(100, 8))
settings.load_profile("repeatable")

# Under nohup, or behind a shell that goes on, these are ignored, also by the processes that tests start.
for number, handler in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, handler)


WITHOUT_KERNELS = ("workloads", "solvers", "model", "reports")
"""Folders whose tests compile few kernels."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start Ray come first: where tests run side by side, they take longest.

    On a fresh machine they compile the kernels of the engine, for which other tests would wait; so tests that
    need none come next.
    """
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """What was collected lives to the end: no later search for garbage looks at it again."""
    gc.collect()
    gc.freeze()


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("ray"):
        return 0
    return 1 if item.path.relative_to(REPOSITORY / "tests").parts[0] in WITHOUT_KERNELS else 2


COMMAND = "command"
"""Name of the property with which a test records a command of the documentation that it ran."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the commands of the documentation that ran."""
    reports = terminalreporter.stats.get("passed", [])
    ran = {value: None for report in reports for name, value in report.user_properties if name == COMMAND}
    if ran:
        terminalreporter.section(f"{len(ran)} commands of the documentation were run")
        for command in ran:
            terminalreporter.write_line(str(command))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of whose tests none is asked for, by a mark of all: importing them takes seconds."""
    expression = config.getvalue("markexpr")
    if "not " not in expression or collection_path.suffix != ".py":
        return None
    line = _MARKS_OF_ALL.search(collection_path.read_text())
    marks = [] if line is None else _MARK.findall(line[0])
    return True if any(f"not {mark}" in expression for mark in marks) else None


_MARKS_OF_ALL = re.compile(r"^pytestmark = .*", re.MULTILINE)
_MARK = re.compile(r"pytest\.mark\.(ray|slow|long|docs)\b")


class _RayApart(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships it untyped
    """Files with tests that start Ray go to one process, the others wherever there is room, each to one."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "ray" if _starts_ray(file) else file


@cache
def _starts_ray(file: str) -> bool:
    return "mark.ray" in (REPOSITORY / file).read_text()


class _PagesApart(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships it untyped
    """Each file goes to one process, and so does each page of how-tos."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return nodeid if file.endswith("test_how_tos.py") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    """The scheduler of `--dist loadscope` is `_RayApart`, that of `--dist loadfile` is `_PagesApart`."""
    by = {"loadscope": _RayApart, "loadfile": _PagesApart}.get(config.getvalue("dist"))
    return None if by is None else by(config, log)


@pytest.fixture(autouse=True)
def _no_terminal_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as their content, unless a test sets a width."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session")
def browser() -> str:
    """Path of a Chromium."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium; on Debian: apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder that holds real traces (`data/`) and other simulators' results (`reference/`).

    It is not part of the project: a test that asks for it is skipped where it is absent.
    """
    folder = (REPOSITORY / os.environ.get("RAY_SIM_SHARED", "../shared")).resolve()
    if not folder.is_dir():
        pytest.skip(f"no folder of real traces at {folder}; name one in RAY_SIM_SHARED")
    return folder
