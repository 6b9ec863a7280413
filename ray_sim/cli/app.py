"""The `ray-sim` application: its commands, and the handling of their errors."""

from __future__ import annotations

import atexit
import gc
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ray_sim import __version__
from ray_sim.cli.arena import arena
from ray_sim.cli.bench import bench
from ray_sim.cli.check_policy import check_policy
from ray_sim.cli.compare import compare
from ray_sim.cli.console import say
from ray_sim.cli.convert import convert
from ray_sim.cli.diff import diff
from ray_sim.cli.enrich import enrich
from ray_sim.cli.explain import explain
from ray_sim.cli.heartbeat import beating
from ray_sim.cli.info import info
from ray_sim.cli.interference import interference
from ray_sim.cli.listings import clusters, formats, policies, worlds
from ray_sim.cli.log import log
from ray_sim.cli.new_policy import new_policy
from ray_sim.cli.packing import packing
from ray_sim.cli.plan import plan
from ray_sim.cli.report import report
from ray_sim.cli.reproduce import reproduce
from ray_sim.cli.run import run
from ray_sim.cli.server_changes import failures, links
from ray_sim.cli.sweep import sweep
from ray_sim.cli.synth import synth
from ray_sim.cli.teams import teams
from ray_sim.cli.train import train
from ray_sim.interruption import interruptible
from ray_sim.model.errors import InvalidInputError, RaySimError
from ray_sim.model.text import shown


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"ray-sim {__version__}\n")
        raise typer.Exit


def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Replay real traces of distributed-training jobs under any scheduler, on any cluster."""


GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Everyday commands": (convert, info, run, sweep, compare, report, explain, teams, plan),
    "Inputs": (synth, enrich, failures, links, interference, clusters, formats, worlds, policies),
    "Papers and development": (arena, reproduce, train, packing, log, diff, new_policy, check_policy, bench),
}
"""Commands in the groups and order of --help."""

COMMANDS = tuple(chain.from_iterable(GROUPS.values()))


ONE_SENTENCE = 200
"""Letters of a command in the list; more than any has."""


class _Groups(TyperGroup):
    """The commands in the help, by group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for title, commands in GROUPS.items():
            named = [(_name(command), self.commands.get(_name(command))) for command in commands]
            rows = [
                (name.ljust(width), command.get_short_help_str(ONE_SENTENCE))
                for name, command in named
                if command is not None
            ]
            with formatter.section(title):
                formatter.write_dl(rows)


def _name(command: Callable[..., None]) -> str:
    return command.__name__.replace("_", "-")


def application(commands: Iterable[Callable[..., None]] = COMMANDS) -> typer.Typer:
    """The application with these commands; a start with one of them saves the time to build the others."""
    made = typer.Typer(
        cls=_Groups,
        name="ray-sim",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    made.callback()(_common)
    for command in commands:
        made.command()(command)
    return made


ALLOCATIONS_PER_COLLECTION = 200_000
"""New objects after which garbage is collected; Python's default is 700."""

UNWOUND = 128
"""Exit codes above it are those of signals."""

THREADS_END_S = 1.0
"""Seconds for threads to end after the command."""


def process() -> int:
    """Run a command as a process of its own; the console script and `python -m ray_sim.cli` call this.

    Nearly all objects of a start are code that stays. Python would look for garbage among them while packages
    are imported and when it ends, for a third of the time of a small command.
    """
    gc.set_threshold(ALLOCATIONS_PER_COLLECTION)
    atexit.register(gc.freeze)
    code = main()
    left = _threads_left()
    if left:
        say(
            f"warning: threads still ran when the command was done, and end with it: {shown(', '.join(left))}"
        )
    if left or code > UNWOUND:
        atexit._run_exitfuncs()
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(code)  # Python would wait for threads, and libraries of unwound work may abort
    return code


def _threads_left() -> list[str]:
    """Names of threads that the end of the process would wait for longer than `THREADS_END_S`."""
    by = time.monotonic() + THREADS_END_S
    threads = [
        each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon
    ]
    for thread in threads:
        thread.join(max(0.0, by - time.monotonic()))
    return [thread.name for thread in threads if thread.is_alive()]


def main(argv: list[str] | None = None) -> int:
    """Run a command; a user's mistake becomes a message and an exit code, never a traceback.

    A signal unwinds every command, which removes its temporary files, unless the command answers it itself.
    """
    code = UNWOUND + signal.SIGINT
    with interruptible(unwinds=True) as interruption, suppress(KeyboardInterrupt):
        code = _answered(sys.argv[1:] if argv is None else argv)
    return interruption.exit_code if interruption.asked() else code


def _answered(arguments: list[str]) -> int:
    """Exit code of a command, whose errors are printed."""
    silent = sys.stderr.isatty() or "--json" in arguments
    try:
        with nullcontext() if silent else beating(" ".join(["ray-sim", *arguments[:1]]), say):
            asked = [command for command in COMMANDS if _name(command) in arguments[:1]]
            app = application(asked or COMMANDS)
            code = app(args=arguments, prog_name="ray-sim", standalone_mode=False)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except typer.Abort:
        sys.stderr.write("Aborted!\n")
        return 1
    except typer.TyperException as error:
        sys.stderr.write(shown(_usage_error(error), lines=True))
        return error.exit_code
    except RaySimError as error:
        sys.stderr.write(f"error: {shown(error, lines=True)}\n")
        return 2 if isinstance(error, InvalidInputError) else 1
    except OSError as error:
        problem = _path_problem(error)
        if problem is None:
            raise
        sys.stderr.write(f"error: {shown(problem, lines=True)}\n")
        return 2
    return int(code or 0)


def _path_problem(error: OSError) -> str | None:
    """Text on a path that the system refuses, e.g. too long or in a folder of others; None without a path."""
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}; check the path"
    try:
        Path.cwd()
    except FileNotFoundError:
        return "the working directory is gone; change to one that exists"
    return None


def _usage_error(error: Any) -> str:
    """Text of a usage error. Typer's exception has `show`, but the base class that Typer exports has not."""
    text = io.StringIO()
    error.show(text)
    return text.getvalue()
