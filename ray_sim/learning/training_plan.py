"""Plan of a training of Harmony: the file that `ray-sim train harmony` reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ray_sim.experiments.scenario import Scenario, Seed, Value, Workload
from ray_sim.learning.training_config import TrainingConfig
from ray_sim.model.errors import InvalidInputError, problems_text
from workloads.documents import dotted_problems, parse_yaml, read_text
from workloads.sources import Source

VERSION = 2
"""Number of the way to train; a training that another way began is not resumed."""

Count = Annotated[int, Field(ge=1, le=10**6)]
Rounds = Annotated[int, Field(ge=0, le=10**6)]


class Part(BaseModel):
    """Base class of the parts of a plan: frozen, without unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class JobSeeds(Part):
    """Seeds of job sets: ``count`` whole numbers from ``first`` on."""

    first: Seed
    count: Count

    @property
    def seeds(self) -> range:
        """The seeds."""
        return range(self.first, self.first + self.count)


class Collecting(Part):
    """What is collected in a round."""

    units: Count = 4
    """Units of a round, which actors share; more actors than that are idle."""
    lanes: Count = 16
    """Episodes of a unit, each with a job set of its own."""
    steps: Count = 176
    """Actions of a unit in each episode."""
    lanes_per_set: Count = 1
    """Number of lanes of a unit with the same job set; with more than 1 the baseline has their mean error of
    the values at one time, see `common_errors`."""


class Rewards(Part):
    """The reward model and its measured speeds."""

    samples: Count = 4000
    """Placements that it is fitted to; a fifth is held out."""
    epochs: Count = 20
    target: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """Relative error of held-out samples at which fitting ends."""
    refit_every: Rounds = 0
    """Online rounds between two fits to the speeds measured since; 0 for none."""


class Phases(Part):
    """Rounds of each phase, in this order."""

    imitation: Rounds = 0
    """With a rule as teacher, before any reward is used."""
    offline: Rounds = 0
    """With rewards by the reward model."""
    online: Rounds = 0
    """With true rewards."""


class Validation(Part):
    """How checkpoints are compared."""

    seeds: JobSeeds
    every: Count = 5
    """Rounds between two validations; the last round has one too."""


class TrainingPlan(Part):
    """One training. Paths are relative to the working directory."""

    name: Annotated[str, Field(pattern=r"^[\w.-]{1,100}$")]
    seed: Seed = 0
    workload: Workload
    cluster: str
    world: dict[str, Value]
    jobs: JobSeeds
    """Seeds of the job sets of training."""
    models: Annotated[list[str], Field(min_length=1)] | None = None
    """Types that the network has columns for, in order; those of the job sets, sorted, where None."""
    learning: TrainingConfig = TrainingConfig()
    collecting: Collecting = Collecting()
    updates: Count = 32
    """Steps of the networks in a round."""
    rewards: Rewards = Rewards()
    phases: Phases
    validation: Validation

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if set(self.jobs.seeds) & set(self.validation.seeds.seeds):
            raise ValueError("validation.seeds: must have no seed of `jobs`")
        if self.collecting.lanes > self.jobs.count:
            raise ValueError(
                f"collecting.lanes: must be at most jobs.count = {self.jobs.count}, as job sets of a unit "
                "differ"
            )
        if self.collecting.lanes % self.collecting.lanes_per_set:
            raise ValueError("collecting.lanes: must be a multiple of collecting.lanes_per_set")
        if not self.workload.uses_seed:
            raise ValueError("workload: must be drawn with a seed (`synth`, `resample` or `enrich`)")
        if not self.rounds:
            raise ValueError("phases: at least one must have a round")
        return self

    @property
    def rounds(self) -> int:
        """Rounds of all phases."""
        return self.phases.imitation + self.phases.offline + self.phases.online

    def phase(self, round_number: int) -> Literal["imitation", "offline", "online"]:
        """Phase of a round, which count from 0."""
        if round_number < self.phases.imitation:
            return "imitation"
        return "offline" if round_number < self.phases.imitation + self.phases.offline else "online"

    @property
    def scenario(self) -> dict[str, object]:
        """Content of the scenario file of its episodes."""
        return {
            "workload": self.workload.model_dump(mode="json", exclude_defaults=True),
            "cluster": self.cluster,
            "world": dict(self.world),
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the plan, without its name, and of `VERSION`."""
        return hashlib.sha256(f"{VERSION} {self.model_dump_json(exclude={'name'})}".encode()).hexdigest()


def parse_plan(content: object, source: str) -> TrainingPlan:
    """Parse the content of a plan; the error lists every problem under ``source``."""
    try:
        return TrainingPlan.model_validate(content)
    except ValidationError as error:
        parts = (TrainingPlan, TrainingConfig, Collecting, Rewards, Phases, Validation, JobSeeds, Scenario)
        known = [name for part in parts for name in part.model_fields]
        raise InvalidInputError(problems_text(source, dotted_problems(error, known))) from error


def read_plan(path: Source, changes: Mapping[str, Value] | None = None) -> TrainingPlan:
    """Read a plan from a YAML file.

    Parameters
    ----------
    changes : values in YAML by key, with a dot between a part and its key, that replace those of the file

    Raises
    ------
    InvalidInputError : the file cannot be read, or breaks the rules
    """
    content = parse_yaml(read_text(path, InvalidInputError), str(path), InvalidInputError)
    for key, value in (changes or {}).items():
        _replace(content, key, parse_yaml(str(value), key, InvalidInputError))
    return parse_plan(content, str(path))


def _replace(content: object, key: str, value: object) -> None:
    """Set an entry by its dotted key; a part that is no mapping becomes one."""
    part, dot, rest = key.partition(".")
    if not isinstance(content, dict):
        return  # no plan, which is refused later
    if dot:
        if not isinstance(content.get(part), dict):
            content[part] = {}
        _replace(content[part], rest, value)
    else:
        content[part] = value
