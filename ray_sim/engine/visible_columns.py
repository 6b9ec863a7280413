"""Job columns and observations that a policy may read, granted by name.

Policies get `JobColumns` as `view.jobs` and `world.jobs`. Names in `sees` are part of the interface of
policies.
"""

from __future__ import annotations

from dataclasses import fields

from ray_sim.engine.read_only import read_only
from ray_sim.engine.world import World
from ray_sim.model.errors import BlindPolicyError, InvalidScenarioError, problems_text
from ray_sim.model.job import UtilityProfile
from ray_sim.model.units import IntArray

OBSERVATIONS = frozenset({"work_left", "attained_service", "attempts"})
"""Observations of every kind of job that a policy may declare in `sees`, beside columns."""

WHOLE_TRACE = "whole_trace"
"""In `sees`: the policy uses columns of jobs that have not come yet, which no scheduler in service has."""

COLUMNS = frozenset({"duration_s", "num_gpus", "vc", "user", "priority", "time_limit", "utility"})
"""Columns of every kind of job that a policy may declare in `sees`; a kind adds its own.

`submit_us`, `tasks`, `demand` and `partition` are always granted.
"""


_UTILITY = tuple(field.name for field in fields(UtilityProfile))


class JobColumns:
    """The columns of all jobs that a policy's `sees` grants; reading another raises.

    Attributes are read-only arrays over jobs, in the order of the job index, beside `vc_names` (a tuple) and
    `user` (a polars Series). A column that the workload lacks may be None. A policy is to look only at jobs
    that have arrived.
    """

    def __init__(self, world: World, sees: frozenset[str], policy: str) -> None:
        table = world.table
        self._policy = policy
        self._granted: dict[str, object] = {
            "submit_us": read_only(table.submit_us),
            "tasks": read_only(table.tasks),
            "demand": read_only(table.demand),
            "partition": read_only(world.arrays.job_part),
        }
        columns: dict[str, dict[str, object]] = {
            "duration_s": {"work_us": read_only(table.work_us)},
            "num_gpus": {"num_gpus": read_only(table.num_gpus)},
            "vc": {"vc": read_only(table.vc), "vc_names": tuple(table.vc_names)},
            "user": {"user": None if table.user is None else table.user.clone()},
            "priority": {"priority": None if table.priority is None else read_only(table.priority)},
            "time_limit": {
                "time_limit_us": None if table.time_limit_us is None else read_only(table.time_limit_us)
            },
        }
        of_kind = world.facts.columns()
        self._granted |= of_kind.always
        self._absent = of_kind.absent
        if world.table.utility is not None:
            columns["utility"] = {name: read_only(getattr(world.table.utility, name)) for name in _UTILITY}
        columns |= {name: dict(given) for name, given in of_kind.declared.items()}
        self._grantable = sorted(columns)
        self._grants = {name: column for column, given in columns.items() for name in given}
        for name in sees & columns.keys():
            self._granted.update(columns[name])
        self._gaps = table.gaps.get("utility", ("it has no utility columns",)) if "utility" in sees else ()

    def __dir__(self) -> list[str]:
        """The names of the columns that are granted."""
        return sorted(self._granted)

    def __getattr__(self, name: str) -> IntArray:
        granted = self.__dict__["_granted"]
        if name not in granted and name in _UTILITY and self.__dict__["_gaps"]:
            text = "the workload does not say what jobs are worth, which its `sees` declares"
            text = problems_text(f"policy {self.__dict__['_policy']}: {text}", self.__dict__["_gaps"])
            raise InvalidScenarioError(
                f"{text}\n  draw what is missing by `ray-sim enrich`, e.g. --profile common or pd_ors"
            )
        if name not in granted and name in self.__dict__["_absent"]:
            raise BlindPolicyError(f"policy {self._policy} reads jobs.{name}, {self._absent[name]}")
        if name not in granted and name in self.__dict__["_grants"]:
            raise BlindPolicyError(
                f"policy {self._policy} reads jobs.{name}, which it may not see; declare "
                f"'{self._grants[name]}' in `sees`. Seen now: {', '.join(sorted(granted))}"
            )
        if name not in granted:
            raise BlindPolicyError(
                f"policy {self._policy} reads jobs.{name}, which it may not see; declare its column in "
                f"`sees` (one of {', '.join(self._grantable)}). Seen now: {', '.join(sorted(granted))}"
            )
        column: IntArray = granted[name]
        return column
