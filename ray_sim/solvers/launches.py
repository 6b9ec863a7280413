"""Programme of launches: which start each job takes, so that loads fit into the nodes in every round."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ray_sim.model.errors import InvalidScenarioError, RunFailedError
from ray_sim.model.units import FloatArray, IntArray
from ray_sim.solvers.milp import Programme, SearchEnd

_ROUND_UP = 1.0 + 1e-6
"""Factor on optima that serve as bounds: HiGHS may violate rows by 1e-7."""


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """n possible launches of m claimants, and the load of each in expectation.

    A claimant takes at most ``most`` launches in total, so that like jobs can be one claimant.
    """

    claimant: IntArray
    """(n,)"""
    gain: FloatArray
    """(n,) expected value, in units."""
    most: FloatArray
    """(m,)"""
    ptr: IntArray
    """(n + 1,) launch i has loads ``ptr[i]`` to ``ptr[i + 1] - 1``."""
    round: IntArray
    """(e,)"""
    load: FloatArray
    """(e,) nodes, > 0."""

    @property
    def unit(self) -> float:
        """Largest gain, in which programmes count: HiGHS stops within an absolute gap of 1e-6."""
        return float(self.gain.max())


def check_size(what: str, variables: int, loads: int, *, most_variables: int, most_loads: int) -> None:
    """Reject programmes that are too large.

    Raises
    ------
    InvalidScenarioError : more variables or more loads than allowed
    """
    if variables > most_variables or loads > most_loads:
        raise InvalidScenarioError(
            f"{what}: the programme has {variables:,} variables (launches) and {loads:,} loads, more than"
            f" {most_variables:,} or {most_loads:,}; take fewer jobs, longer rounds or values that end"
            " earlier, or welfare_bound, which has no limit"
        )


def launch_programme(launches: LaunchOptions, nodes: int, *, whole: bool) -> Programme:
    """Build the programme of at least one launch, with gains divided by ``launches.unit``.

    Parameters
    ----------
    nodes : capacity of each round
    whole : whether launches are taken or not, or in fractions
    """
    programme = Programme()
    columns = programme.variables(
        launches.most[launches.claimant], gain=launches.gain / launches.unit, whole=whole
    )
    for own in _groups(launches.claimant):
        programme.row(
            -np.inf, columns[own], np.ones(len(own)), float(launches.most[launches.claimant[own[0]]])
        )
    owner = np.repeat(columns, np.diff(launches.ptr))
    for here in _groups(launches.round):
        programme.row(-np.inf, owner[here], launches.load[here], nodes)
    return programme


def fractional_optimum(launches: LaunchOptions, nodes: int) -> float:
    """Optimum of a programme of launches in fractions, rounded up; launches >= 1."""
    programme = launch_programme(launches, nodes, whole=False)
    answer = programme.maximise(gap=0.0, nodes=0)
    if answer.ending is not SearchEnd.FOUND or answer.values is None:
        raise RunFailedError("the LP solver HiGHS reached a limit")
    return float(launches.gain @ answer.values) * _ROUND_UP


def ramps(first: IntArray, count: IntArray) -> IntArray:
    """Concatenate ``first[i], first[i] + 1, ...``, ``count[i]`` numbers each."""
    before = np.cumsum(count) - count
    numbers: IntArray = np.repeat(first - before, count) + np.arange(int(count.sum()))
    return numbers


def _groups(keys: IntArray) -> list[IntArray]:
    """Indices of equal keys, by increasing key."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
