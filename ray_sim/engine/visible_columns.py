"""Job columns and observations that a policy may read, granted by name."""

from __future__ import annotations

from dataclasses import fields

from ray_sim.engine.read_only import read_only
from ray_sim.engine.world import World
from ray_sim.model.errors import BlindPolicyError, InvalidScenarioError, problems_text
from ray_sim.model.job import TrainingProfile, UtilityProfile
from ray_sim.model.units import IntArray

OBSERVATIONS = frozenset(
    {"work_left", "attained_service", "worker_load", "training_speed", "slow_workers", "losses"}
)
"""Observations a policy may declare in `sees`, beside columns."""

WHOLE_TRACE = "whole_trace"
"""In `sees`: the policy uses columns of jobs that have not come yet, which no scheduler in service has."""

COLUMNS = frozenset(
    {
        "duration_s",
        "num_gpus",
        "vc",
        "user",
        "priority",
        "chunk_profile",
        "training_profile",
        "utility",
        "deadline",
    }
)
"""Columns of jobs a policy may declare in `sees`. Arrival, gang and demand are always seen, and the number
of chunks; `chunk_profile` is all else that says how long chunks take, `deadline` when a chunked job is due,
`training_profile` all that says how much elastic jobs train and how fast. With `losses` come the samples of
an epoch, and the threshold and the patience by which the owner of a job lets it end."""


def _names_of(record: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(record))


_OF_TRAINING = ("batch", "exchange", "workers_per_ps")
"""Training columns that the owner of a job states; every policy sees them."""
_TRAINING = tuple(name for name in _names_of(TrainingProfile) if name != "model_names")


class JobColumns:
    """The columns of all jobs that a policy's `sees` grants; reading another raises.

    Attributes are arrays over jobs, in the order of the job index. A policy is to look only at
    jobs that have arrived.
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
            "chunk_profile": {},
            "deadline": {"due_us": None if world.due_us is None else read_only(world.due_us)},
        }
        if world.chunks is not None:
            self._granted["chunks"] = read_only(world.chunks.chunks)
        else:
            self._granted |= {
                "gang": read_only(world.arrays.gang),
                "role_demand": read_only(world.arrays.demand),
            }
        if world.training is not None:
            profile = world.training.profile
            self._granted |= {name: read_only(getattr(profile, name)) for name in _OF_TRAINING}
            if world.training.loss is not None:
                columns["losses"] = {
                    "samples": read_only(profile.samples),
                    "loss_threshold": read_only(world.training.loss.loss_threshold),
                    "loss_patience": read_only(world.training.loss.loss_patience),
                }
            columns["training_profile"] = {
                name: read_only(getattr(profile, name)) for name in _TRAINING if name not in self._granted
            } | {"work": read_only(profile.work), "model_names": tuple(profile.model_names)}
        if world.table.utility is not None:
            columns["utility"] = {
                name: read_only(getattr(world.table.utility, name)) for name in _names_of(UtilityProfile)
            }
        for name in sees & columns.keys():
            self._granted.update(columns[name])
        self._gaps = table.gaps.get("utility", ("it has no utility columns",)) if "utility" in sees else ()

    def __dir__(self) -> list[str]:
        """The names of the columns that are granted."""
        return sorted(self._granted)

    def __getattr__(self, name: str) -> IntArray:
        granted = self.__dict__["_granted"]
        if name not in granted and name in _names_of(UtilityProfile) and self.__dict__["_gaps"]:
            text = "the workload does not say what jobs are worth, which its `sees` declares"
            text = problems_text(f"policy {self.__dict__['_policy']}: {text}", self.__dict__["_gaps"])
            raise InvalidScenarioError(f"{text}\n  draw what is missing by `ray-sim enrich`")
        if name not in granted and name in ("gang", "role_demand"):
            raise BlindPolicyError(
                f"policy {self.__dict__['_policy']} reads jobs.{name}, which jobs in chunks have not; "
                f"worlds of rigid and of elastic jobs have it"
            )
        if name not in granted:
            raise BlindPolicyError(
                f"policy {self._policy} reads jobs.{name}, which it may not see; declare its column in "
                f"`sees` (one of {', '.join(sorted(COLUMNS))}). Seen now: {', '.join(sorted(granted))}"
            )
        column: IntArray = granted[name]
        return column
