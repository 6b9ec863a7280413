"""Objects of a user's own modules, named `module:NAME`: policies, trace formats."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ray_sim.model.errors import InvalidInputError, RaySimError, UnknownNameError, failure_text
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
        raise InvalidInputError(
            f"{what} '{ref}' names a file; give its module, from its folder: {Path(module_name).stem}:{name}"
        )
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


@contextmanager
def users_code(what: str, passes: type[Exception] = RaySimError) -> Iterator[None]:
    """Convert any exception of a user's class or module to one of our errors, which begins with ``what``."""
    try:
        yield
    except (RaySimError, passes, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        text = failure_text(error)
        raise InvalidInputError(f"{what}: {text}{_hidden_by_ours(text)}") from error


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
