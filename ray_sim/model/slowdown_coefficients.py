"""Coefficients that predict by how much jobs on one server slow each other, and their JSON form.

docs/models/baselines.md#least-interference-first has the formulas.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, problems_text
from ray_sim.model.interference import types_by_model
from ray_sim.model.text import names_text
from ray_sim.model.units import FloatArray, IntArray

TABLES = {"linear": ("a",), "quadratic": ("a", "b")}
"""Regressions of a file, and the tables of coefficients of each."""

MOST_COEFFICIENT = 2**53
"""Largest coefficient; predictions from it are still finite."""


@dataclass(frozen=True, slots=True)
class SlowdownCoefficients:
    """Regressions of the slowdown of L types of jobs on the tasks of other jobs, by type, on its server.

    A job of type k beside n_t tasks of type t of other jobs is predicted to be slowed by the factor
    ``1 + sum over t of a[k, t] n_t + b[k, t] n_t^2``. All coefficients are finite and >= 0, so that a
    prediction is >= 1.
    """

    types: tuple[str, ...]
    """Models of jobs, as in the column ``model``."""
    linear: FloatArray
    """(1, L, L) a of the regression without squares."""
    quadratic: FloatArray
    """(2, L, L) a and b of the regression with squares."""

    def types_of(self, models: IntArray, model_names: Sequence[str], source: str) -> IntArray:
        """(J,) type of each job.

        Parameters
        ----------
        models : (J,) index into ``model_names``, -1 where the model is not known
        source : name of the file for messages

        Raises
        ------
        InvalidScenarioError : jobs of a model without coefficients, or without a model
        """
        types, problems = types_by_model(self.types, models, model_names, "coefficients")
        if problems:
            raise InvalidScenarioError(
                f"{problems_text(f'coefficients={source}', problems)}\n  it has {names_text(self.types)}; "
                "fit those of your profile by `ray-sim interference PROFILE --samples 2000 -o FILE`"
            )
        return types

    def content(self) -> dict[str, object]:
        """The JSON form, which `parse_coefficients` takes."""
        return {
            "types": list(self.types),
            "linear": {"a": self.linear[0].tolist()},
            "quadratic": {"a": self.quadratic[0].tolist(), "b": self.quadratic[1].tolist()},
        }


def parse_coefficients(text: str | bytes, source: str) -> SlowdownCoefficients:
    """Parse the JSON form; keys beside ``types``, ``linear`` and ``quadratic`` are ignored.

    Parameters
    ----------
    source : name of the file for messages

    Raises
    ------
    InvalidInputError : no JSON, a key that appears twice, a wrong form, or numbers out of range; every
        problem of the tables is listed
    """
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{source}: is no JSON: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{source}: expected an object with types, linear and quadratic")
    problems: list[str] = []
    types = _types(content.get("types"), problems)
    found = {
        name: np.array([_table(content.get(name), name, part, types, problems) for part in parts])
        for name, parts in TABLES.items()
    }
    if problems:
        raise InvalidInputError(problems_text(source, problems))
    return SlowdownCoefficients(types, found["linear"], found["quadratic"])


def _types(given: object, problems: list[str]) -> tuple[str, ...]:
    if not (isinstance(given, list) and given and all(isinstance(name, str) and name for name in given)):
        problems.append("types: expected a list of names")
        return ()
    if len(set(given)) < len(given):
        problems.append(f"types: {next(name for name in given if given.count(name) > 1)} is there twice")
    return tuple(given)


def _table(
    given: object, name: str, part: str, types: tuple[str, ...], problems: list[str]
) -> list[list[float]]:
    """The rows of one table; rows of zeros where there is a problem."""
    size = len(types)
    rows = given.get(part) if isinstance(given, dict) else None
    square = isinstance(rows, list) and all(isinstance(row, list) and len(row) == size for row in rows)
    if not (square and isinstance(rows, list) and len(rows) == size):
        if types:
            problems.append(f"{name}.{part}: expected {size} rows of {size} numbers, one for each type")
        return [[0.0] * size] * size
    for row, slowed in zip(rows, types, strict=True):
        for value, other in zip(row, types, strict=True):
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 <= value <= MOST_COEFFICIENT):
                problems.append(
                    f"{name}.{part}: {slowed} beside {other}: must be from 0 to 2^53, got {value!r}"
                )
    return [[0.0] * size] * size if problems else [[float(value) for value in row] for row in rows]


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON, in which each key is there once."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key '{next(name for name in found if names.count(name) > 1)}' appears twice")
    return found
