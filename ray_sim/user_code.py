"""Objects of a user's own modules, named `module:NAME`: policies, trace formats; warnings of policies."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NoReturn, TextIO

from ray_sim.interruption import stops
from ray_sim.model.errors import InvalidInputError, RaySimError, UnknownNameError, failure_text, place_of
from ray_sim.siblings import namesakes


def load(what: str, ref: str, fits: Callable[[object], bool]) -> Any:
    """Load the object that a reference `module:NAME` names; the working directory is searched first.

    Parameters
    ----------
    what : noun of the object for errors, such as "policy"
    fits : whether an object of the module is such a one; these are listed where the name is unknown

    Raises
    ------
    InvalidInputError : the module cannot be imported
    UnknownNameError : the module has nothing of that name
    """
    module_name, _, name = ref.partition(":")
    if "/" in module_name or module_name.endswith(".py"):
        raise InvalidInputError(_names_a_file(what, module_name, name, ref))
    if hidden := _hidden_by_ours(f"'{module_name}'"):
        raise InvalidInputError(f"{what} '{ref}' cannot be imported{hidden}")
    try:
        with users_code(f"{what} '{ref}': importing {module_name} failed", passes=ImportError):
            module = _import(module_name)
    except ImportError as error:
        raise InvalidInputError(
            f"{what} '{ref}': cannot import {module_name} ({error}); looked in the working directory and "
            f"on the Python path{_hidden_by_ours(str(error))}"
        ) from error
    if not hasattr(module, name):
        raise UnknownNameError(
            f"{what} of {module_name}", name, [each for each, value in vars(module).items() if fits(value)]
        )
    return getattr(module, name)


def refuse_file(what: str, ref: str) -> None:
    """Refuse a reference that is only the path of a Python file, and suggest `module:CLASS` for it.

    Raises
    ------
    InvalidInputError : it is
    """
    if ref.endswith(".py"):
        raise InvalidInputError(_names_a_file(what, ref, "", ref))


def _names_a_file(what: str, file: str, name: str, ref: str) -> str:
    module = Path(file).stem
    found = [name] if name else _classes_of(Path(file)) or ["CLASS"]
    named = " or ".join(f"{module}:{each}" for each in found)
    return f"{what} '{ref}' names a file; give its module, from its folder: {named}"


def _classes_of(file: Path) -> list[str]:
    """Classes of a file by their lines: the file is not run only for a message."""
    try:
        return re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    except (OSError, ValueError):
        return []


@contextmanager
def users_code(what: str, passes: type[Exception] = RaySimError, file: str | None = None) -> Iterator[None]:
    """Convert any exception of a user's class or module to one of our errors, which begins with ``what``.

    Parameters
    ----------
    file : the user's file, in whose folder the error names a line; None for no line
    """
    with contained(what):
        try:
            yield
        except (RaySimError, passes, GeneratorExit):
            raise
        except BaseException as error:
            if stops(error):
                raise
            text = failure_text(error)
            place = "" if file is None else f" ({place_of(error, file)})"
            raise InvalidInputError(f"{what}: {text}{place}{_hidden_by_ours(text)}") from error


@contextmanager
def contained(what: str) -> Iterator[None]:
    """Keep user code from spoiling the command: its prints, `os._exit`, `os.chdir` and `os.umask`.

    Prints go to standard error, as standard output is for results. `os._exit` raises SystemExit, except in
    processes that the code forks. Working directory and umask are restored; ``what`` begins the warning of
    the first.
    """
    folder, leave, process, mask = Path.cwd(), os._exit, os.getpid(), os.umask(0o022)
    os.umask(mask)

    def refuse(status: int) -> NoReturn:
        if os.getpid() != process:
            leave(status)
        raise SystemExit(f"os._exit({status}) would end the process without a result; raise an exception")

    os._exit = refuse
    try:
        with redirect_stdout(sys.stderr), _descriptor_on_stderr():
            yield
    finally:
        os._exit = leave
        os.umask(mask)
        if Path.cwd() != folder:
            warnings.warn(
                f"{what}: changed the working directory to {Path.cwd()}; it is {folder} again", stacklevel=3
            )
            os.chdir(folder)


@contextmanager
def _descriptor_on_stderr() -> Iterator[None]:
    """Let what libraries and child processes write to descriptor 1 go to standard error."""
    try:
        saved = os.dup(1)
        os.dup2(2, 1)
    except OSError:  # one of both is closed
        yield
        return
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)
        if sys.__stdout__ is not None:
            with suppress(ValueError):  # it is closed
                sys.__stdout__.flush()
        os.dup2(saved, 1)
        os.close(saved)


def _import(module_name: str) -> Any:
    """Import a module by dotted name, from the working directory first.

    Later imports search the working directory last: a user's file may have the name of a module that a
    library has not imported yet.
    """
    here = str(Path.cwd())
    stays = here in sys.path
    sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    finally:
        sys.path.remove(here)
        if not stays:
            sys.path.append(here)


def _hidden_by_ours(text: str) -> str:
    """Name each module in the working directory that the error text names and a package of ray_sim hides."""
    return "".join(
        f"; {path} is hidden by a package of ray_sim with that name: rename it"
        for path in namesakes()
        if re.search(f"'{path.stem}['.]", text)
    )


@contextmanager
def told_warnings(tell: Callable[[str], None]) -> Iterator[None]:
    """Give the text of each warning of a policy (`UserWarning`) to `tell`; others are shown as usual."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is UserWarning:
                tell(str(message))
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
