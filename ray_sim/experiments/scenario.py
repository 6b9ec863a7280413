"""What to simulate: a workload, a cluster, a policy and the facts of the world, and nothing read yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ray_sim.experiments.documents import dotted_problems, parse_yaml, read_text
from ray_sim.model.errors import InvalidScenarioError, problems_text

Scalar = bool | int | float | str | None
Value = Scalar | list[Scalar]
"""A parameter as YAML or the command line gives it; its owner parses and checks it."""

Partition = Literal["none", "vc"]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Spec(BaseModel):
    """A piece of a scenario: frozen, no unknown keys, no silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SynthSpec(Spec):
    """A workload drawn with the run's seed instead of read from a file."""

    profile: str
    jobs: Annotated[int, Field(ge=1)]
    load_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0


class WorkloadSpec(Spec):
    """A Parquet workload, as it is or resampled with the run's seed, or a synthetic one."""

    path: str | None = None
    resample: Literal["days"] | None = None
    synth: SynthSpec | None = None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.synth is None):
            raise ValueError("expected a path, or a mapping with either `path` or `synth`")
        if self.resample and self.synth:
            raise ValueError("`resample` is for a workload with a `path`; `synth` draws anew by itself")
        return self

    @property
    def uses_seed(self) -> bool:
        """Whether another seed gives another workload."""
        return self.synth is not None or self.resample is not None

    @property
    def label(self) -> str:
        """Name for tables, e.g. ``traces/philly/days``; another workload has another."""
        if self.synth:
            scale = "" if self.synth.load_scale == 1 else f"x{self.synth.load_scale}"
            return f"synth:{self.synth.profile}:{self.synth.jobs}{scale}"
        name = (self.path or "").removesuffix(".parquet")
        return f"{name}/{self.resample}" if self.resample else name


def _path_alone(given: object) -> object:
    return {"path": given} if isinstance(given, str) else given


Workload = Annotated[WorkloadSpec, BeforeValidator(_path_alone)]


class Scenario(Spec):
    """One configuration of the simulator. Paths count from the working directory."""

    workload: Workload
    cluster: str
    policy: str = "fifo"
    params: dict[str, Value] = Field(default_factory=dict)
    """Choices of the scheduler."""
    world: dict[str, Value] = Field(default_factory=dict)
    """Facts of the world: restart_cost_s, horizon_s, slot_s."""
    partition: Partition = "none"
    seed: Seed = 0
    sites: Annotated[int, Field(ge=1)] = 1
    """Groups of servers simulated apart; any number gives the same result."""


def parse_scenario(content: object, source: str) -> Scenario:
    """Scenario from a parsed document; the error lists every problem under `source`."""
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        problems = dotted_problems(error, known_keys=Scenario.model_fields)
        raise InvalidScenarioError(problems_text(source, problems)) from error


def read_scenario(path: Path) -> Scenario:
    """Scenario from a YAML file."""
    return parse_scenario(read_document(path), str(path))


def read_document(path: Path) -> object:
    """What a scenario or sweep file in YAML says, unchecked."""
    return parse_yaml(read_text(path, InvalidScenarioError), str(path), InvalidScenarioError)


def key_values(pairs: Iterable[str], option: str) -> dict[str, Value]:
    """``["a=1", "b=x"]`` of a repeated command line option as a mapping of texts."""
    values: dict[str, Value] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidScenarioError(f"{option} {pair}: expected key=value")
        if key in values:
            raise InvalidScenarioError(f"{option} {pair}: {key} is given twice")
        values[key] = value
    return values


def setting_label(values: Mapping[str, Value]) -> str:
    """``a=1, b=x`` in the order given, for tables."""
    return ", ".join(f"{key}={_plain(value)}" for key, value in values.items())


def _plain(value: Value) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_plain(item) for item in value) + "]"
    return str(value)
