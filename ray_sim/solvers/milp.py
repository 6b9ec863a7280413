"""Mixed-integer programmes, built row by row, with reproducible solutions by HiGHS."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from ray_sim.model.errors import RunFailedError
from ray_sim.model.units import FloatArray, IntArray


class SearchEnd(Enum):
    """End of a search."""

    FOUND = auto()
    """A solution within the gap of the best."""
    LIMIT = auto()
    """A limit of nodes or time; the solution, if any, is the best found so far."""
    INFEASIBLE = auto()


@dataclass(frozen=True, slots=True)
class Answer:
    """Result of a search."""

    ending: SearchEnd
    values: FloatArray | None
    """(variables,) solution; None without one."""
    bound: float = np.inf
    """Upper bound of the objective."""


class Programme:
    """Variables with bounds, rows that bound linear sums of them, and an objective to maximise."""

    def __init__(self) -> None:
        self._lower: list[FloatArray | IntArray] = []
        self._upper: list[FloatArray | IntArray] = []
        self._whole: list[IntArray] = []
        self._gain: list[FloatArray] = []
        self._size = 0
        self._columns: list[IntArray] = []
        self._coefficients: list[FloatArray] = []
        self._bounds: list[tuple[float, float]] = []

    def variables(
        self,
        upper: FloatArray | IntArray,
        *,
        gain: FloatArray,
        whole: bool,
        lower: FloatArray | IntArray | None = None,
    ) -> IntArray:
        """Add variables and return their numbers, in the shape of their upper bounds.

        Parameters
        ----------
        lower : of the same shape; 0 by default
        gain : of the same shape, objective coefficients
        whole : whether the variables are integers
        """
        numbers = self._size + np.arange(upper.size).reshape(upper.shape)
        self._size += upper.size
        self._lower.append(np.zeros(upper.size) if lower is None else lower.ravel())
        self._upper.append(upper.ravel())
        self._gain.append(np.broadcast_to(gain, upper.shape).ravel())
        self._whole.append(np.full(upper.size, int(whole)))
        return numbers

    def row(self, least: float, columns: IntArray, coefficients: FloatArray | IntArray, most: float) -> None:
        """Add a row: bounds on a linear sum of variables, each at most once."""
        self._columns.append(columns)
        self._coefficients.append(coefficients.astype(np.float64))
        self._bounds.append((least, most))

    def maximise(self, *, gap: float, nodes: int, seconds: float | None = None) -> Answer:
        """Solve on one thread with a fixed seed; the result does not depend on the machine's load.

        Parameters
        ----------
        gap : relative gap to the optimum at which the search ends
        nodes : node limit of the search tree
        seconds : wall-clock limit; never inside a simulated run

        Raises
        ------
        RunFailedError : the solver failed
        """
        from scipy.optimize import Bounds, LinearConstraint, milp  # slow to import
        from scipy.sparse import csr_array

        pointer = np.cumsum([0, *(len(columns) for columns in self._columns)])
        matrix = csr_array(
            (np.concatenate(self._coefficients), np.concatenate(self._columns), pointer),
            shape=(len(self._bounds), self._size),
        )
        least, most = np.array(self._bounds).T
        options: dict[str, float] = {"mip_rel_gap": gap, "node_limit": nodes, "threads": 1, "random_seed": 0}
        if seconds is not None:
            options["time_limit"] = seconds
        # HiGHS occasionally fails to undo its presolve and drops its solution: solve again without presolve.
        for presolve in (True, False):
            with warnings.catch_warnings():
                # SciPy passes threads and random_seed on to HiGHS, with a warning.
                warnings.simplefilter("ignore", RuntimeWarning)
                result = milp(
                    -np.concatenate(self._gain),
                    integrality=np.concatenate(self._whole),
                    bounds=Bounds(np.concatenate(self._lower), np.concatenate(self._upper)),
                    constraints=LinearConstraint(matrix, least, most),
                    options={**options, "presolve": presolve},  # type: ignore[arg-type]  # SciPy's own only
                )
            bound = np.inf if result.mip_dual_bound is None else -float(result.mip_dual_bound)
            answer = _answer(result.status, str(result.message), result.x, bound)
            if answer is not None:
                return answer
        raise RunFailedError(
            f"the MILP solver HiGHS failed: {result.message}. HiGHS refuses to run on one thread in a "
            "process in which it has run on several before; if that may be the cause, run the simulation in "
            "a process of its own"
        )


_FOUND, _INFEASIBLE = 0, 2
"""Status codes of `scipy.optimize.milp`; it has no code of its own for the node limit of HiGHS."""


def _answer(status: int, message: str, values: FloatArray | None, bound: float) -> Answer | None:
    """Convert the result of SciPy; None if the solver failed."""
    if status == _FOUND:
        return Answer(SearchEnd.FOUND, values, bound)
    if status == _INFEASIBLE or "nfeasible" in message:
        return Answer(SearchEnd.INFEASIBLE, None)
    if "imit" in message:
        return Answer(SearchEnd.LIMIT, values, bound)
    return None
