"""`ray-sim new-policy`: write a policy to start from; docs/own_policies.md shows the three levels."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from ray_sim.cli.console import print_json, print_rows
from ray_sim.cli.options import Json
from ray_sim.model.errors import InvalidInputError

STARTERS = Path(__file__).parent / "starters"
"""A policy of each level; its class is `Starter`."""


def new_policy(
    name: Annotated[str, Argument(metavar="NAME", help="Module of the policy, such as my_policy.")],
    level: Annotated[
        int,
        Option(
            min=1, max=3, help="1: a priority order; 2: a queue; 3: preemption and placements of its own."
        ),
    ] = 2,
    json_output: Json = False,
) -> None:
    """Write a policy to start from, in a file NAME.py that passes `ray-sim check-policy`.

    Example: ray-sim new-policy my_policy --level 3
    """
    path, policy = Path(f"{name}.py"), starter(name, level)
    try:
        with path.open("x") as file:
            file.write(policy)
    except OSError as error:
        raise InvalidInputError(
            f"{path}: cannot be written: {error.strerror}; choose another NAME"
        ) from error
    ref = f"{name}:{_class_name(name)}"
    facts = {"file": str(path), "policy": ref, "check": f"ray-sim check-policy {ref}"}
    if json_output:
        print_json(facts)
    else:
        print_rows(facts.items())


def starter(name: str, level: int) -> str:
    """Source of a policy of level 1 to 3, whose class is named after the module ``name``.

    Raises
    ------
    InvalidInputError : no name of a module, or that of an installed one
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise InvalidInputError(
            f"NAME {name}: must be the name of a Python module: lower-case letters, digits and _"
        )
    if not Path(f"{name}.py").exists() and find_spec(name) is not None:
        raise InvalidInputError(f"NAME {name}: a module of this name is installed; choose another NAME")
    text = (STARTERS / f"level_{level}.txt").read_text()
    return re.sub(r"\bStarter\b", _class_name(name), text)


def _class_name(module: str) -> str:
    return "".join(part.capitalize() for part in module.split("_"))
