"""Scenario of a run: workload, cluster, policy and world parameters. This module reads no input files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from ray_sim.experiments.inputs.cluster_file import Label
from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES, names_training_profile
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError, problems_text
from ray_sim.model.metrics import Trim
from ray_sim.model.streams import SEEDS
from ray_sim.model.training_progress import Form
from ray_sim.model.units import MAX_TIME_S
from ray_sim.model.welfare_audit import AuditRequest
from workloads.documents import dotted_problems, parse_yaml, read_text
from workloads.realisation import (
    LEAST_LOAD_SCALE,
    MOST_LOAD_SCALE,
    Realisation,
    ResampleRule,
    UnsuccessfulRule,
    Window,
)
from workloads.sources import Source
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.horizon_request import HorizonRequest, request_of
from workloads.synthetic.synth import PROFILES, DrawRequest, check_arrivals
from workloads.training.enrich import Feasibility

Scalar = bool | int | float | str | None
Value = Scalar | list[Scalar]
"""Parameter value from YAML or the command line; the policy or the world parses and checks it."""

_Model = TypeVar("_Model", bound=BaseModel)

Partition = Literal["none", "vc"]
FleetKind = Literal["local", "actors"]
Seed = Annotated[int, Field(ge=0, lt=SEEDS)]
Seconds = Annotated[float, Field(ge=0, le=MAX_TIME_S, allow_inf_nan=False)]
LoadScale = Annotated[float, Field(ge=LEAST_LOAD_SCALE, le=MOST_LOAD_SCALE, allow_inf_nan=False)]


def _pair(given: object) -> object:
    if given is None or (isinstance(given, list | tuple) and len(given) == 2):
        return given and tuple(given)
    raise ValueError("must be [FROM, TO] in seconds; in a sweep, where a list is an axis, [[FROM, TO]]")


def check_profile(name: str) -> None:
    """Raise UnknownNameError unless a workload profile or a training profile has this name."""
    if name not in PROFILES and not names_training_profile(name):
        known = [*PROFILES, *TRAINING_PROFILES.bundled()]
        raise UnknownNameError("workload or training profile", name, known)


def _profile(name: str) -> str:
    try:
        check_profile(name)
    except UnknownNameError as error:
        raise ValueError(str(error)) from error
    return name


def _rising(window: tuple[float, float]) -> tuple[float, float]:
    if not window[0] < window[1]:
        raise ValueError("FROM must be below TO")
    return window


class Spec(BaseModel):
    """Base class of the parts of a scenario: frozen, without unknown keys and silent conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SynthSpec(Spec):
    """A workload drawn with the run's seed: from a profile, or fitted to the jobs of a file."""

    profile: Annotated[str, AfterValidator(_profile)] | None = None
    """Name of published statistics, or a training profile: bundled, or a YAML file by path or URL."""
    like: str | None = None
    """Parquet workload that the jobs imitate."""
    jobs: Annotated[int, Field(ge=1)]
    load_scale: LoadScale = 1.0
    arrivals: Annotated[ArrivalKind, Field(strict=False)] | None = None
    slot_s: Annotated[float, Field(gt=0, le=MAX_TIME_S, allow_inf_nan=False)] | None = None
    """Slot in seconds of alternating arrivals; for a training profile, also of the feasibility test."""
    horizon_s: Annotated[float, Field(gt=0, le=MAX_TIME_S, allow_inf_nan=False)] | None = None
    """Time in seconds within which the jobs of a training profile are submitted."""
    feasible_only: bool = False
    """Whether jobs of a training profile that cannot end by the horizon are drawn again."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.profile is None) == (self.like is None):
            raise ValueError("expected either a `profile`, or a workload to be `like`")
        of_trace = self.training is None
        if of_trace and self.slot_s is not None and self.arrivals is not ArrivalKind.ALTERNATING:
            raise ValueError("`slot_s`: only with `arrivals: alternating`")
        try:
            _ = self.request
            if of_trace and self.profile is not None:
                check_arrivals(self.profile, self.arrivals)
        except InvalidInputError as error:
            raise ValueError(str(error)) from error
        return self

    @property
    def training(self) -> str | None:
        """Training profile from which whole jobs are drawn; None for other draws."""
        drawn_whole = self.profile is not None and names_training_profile(self.profile)
        return self.profile if drawn_whole else None

    @property
    def request(self) -> DrawRequest | HorizonRequest:
        """Options of the draw; for a training profile, jobs within a horizon."""
        return request_of(
            whole=self.training is not None,
            jobs=self.jobs,
            load_scale=self.load_scale,
            arrivals=self.arrivals,
            slot_s=self.slot_s,
            horizon_s=self.horizon_s,
            feasible_only=self.feasible_only,
        )

    @property
    def label(self) -> str:
        """Name for tables, e.g. ``synth:philly:5000x1.2:poisson``; unique for each draw."""
        source = self.profile or f"like-{(self.like or '').removesuffix('.parquet')}"
        scale = "" if self.load_scale == 1 else f"x{self.load_scale}"
        horizon = "" if self.horizon_s is None else f"within-{_seconds_text(self.horizon_s)}"
        feasible = "feasible" if self.feasible_only else ""
        slot = "" if self.slot_s is None else _seconds_text(self.slot_s)
        parts = ["synth", source, f"{self.jobs}{scale}", horizon, feasible, self.arrivals, slot]
        return ":".join(filter(None, parts))


def _seconds_text(seconds: float) -> str:
    return f"{str(seconds).removesuffix('.0')}s"


class EnrichSpec(Spec):
    """A layer of an enrichment: columns drawn from one profile with the run's seed; see docs/running.md."""

    profile: str
    """Bundled profile, or a YAML file by path or URL."""
    feasible_only: bool = False
    horizon_s: Annotated[float, Field(gt=0, le=MAX_TIME_S, allow_inf_nan=False)] | None = None
    """Jobs that cannot end so long after the first submission count as infeasible."""
    truth: Form | None = None
    """Truth that decides when a job can end; None means placement."""

    @model_validator(mode="after")
    def _judged(self) -> Self:
        if self.truth is not None and self.horizon_s is None:
            raise ValueError("`truth`: only with `horizon_s`; it computes when jobs can end")
        return self

    @property
    def feasibility(self) -> Feasibility:
        """Feasibility rule of the enrichment; it names no cluster, so every cluster gets the same jobs."""
        return Feasibility(horizon_s=self.horizon_s, truth=self.truth, only=self.feasible_only)

    @property
    def label(self) -> str:
        """Name for tables."""
        horizon = "" if self.horizon_s is None else f"-{self.horizon_s:.15g}s"
        truth = "" if self.truth is None else f"-{self.truth}"
        return self.profile + (f"/feasible{horizon}{truth}" if self.feasible_only else "")


def _profile_alone(given: object) -> object:
    return {"profile": given} if isinstance(given, str) else given


def _as_layers(given: object, of_tuple: ValidatorFunctionWrapHandler) -> tuple[EnrichSpec, ...] | None:
    """The layers of an entry: a profile, a mapping, or a list of them."""
    if given is None:
        return None
    if not isinstance(given, list | tuple):
        return (EnrichSpec.model_validate(_profile_alone(given)),)
    if not given:
        raise ValueError("must name at least one profile, got []")
    layers: tuple[EnrichSpec, ...] = of_tuple(tuple(map(_profile_alone, given)))
    return layers


class StreamSpec(Spec):
    """Arrival of the jobs one per second, which stay until all have come; see `workloads.stream`."""

    load: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] | None = None
    """GPUs that the jobs ask for, as a multiple of the cluster's; the order is drawn with the run's seed."""
    order: str | None = None
    """CSV file of orders, by path or URL."""
    pod_list: str | None = None
    """List of the file; None where it has one."""
    seed: Seed | None = None
    """Seed of the file's order; None is the run's."""

    @model_validator(mode="after")
    def _one_order(self) -> Self:
        if (self.load is None) == (self.order is None):
            raise ValueError("expected either a `load`, or a file as `order`")
        if self.order is None and (self.pod_list is not None or self.seed is not None):
            raise ValueError("`pod_list`, `seed`: only with an `order`")
        return self

    @property
    def label(self) -> str:
        """Name for tables."""
        parts = ["stream", self.load, self.order, self.pod_list, self.seed]
        return "-".join(str(part) for part in parts if part is not None)


def _load_alone(given: object) -> object:
    return {"load": given} if isinstance(given, int | float) else given


class WorkloadSpec(Spec):
    """A Parquet or synthetic workload, and the realisation of it that is replayed."""

    path: str | None = None
    synth: SynthSpec | None = None
    unsuccessful: UnsuccessfulRule = "keep"
    window: Annotated[tuple[Seconds, Seconds], BeforeValidator(_pair), AfterValidator(_rising)] | None = None
    resample: ResampleRule | None = None
    load_scale: LoadScale = 1.0
    stream: Annotated[StreamSpec | None, BeforeValidator(_load_alone)] = None
    enrich: Annotated[tuple[EnrichSpec, ...] | None, WrapValidator(_as_layers)] = None
    """Layers, in order; null for none."""

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if (self.path is None) == (self.synth is None):
            raise ValueError("expected a path, or a mapping with either `path` or `synth`")
        of_traces = {
            "unsuccessful": self.unsuccessful != "keep",
            "resample": self.resample is not None,
            "load_scale": self.load_scale != 1,
            "stream": self.stream is not None,
        }
        if self.synth and any(of_traces.values()):
            named = ", ".join(f"`{key}`" for key, given in of_traces.items() if given)
            raise ValueError(
                f"{named}: only with a `path`; `synth` draws anew by itself, at a `load_scale` of its own"
            )
        if self.stream and (self.resample is not None or self.load_scale != 1):
            raise ValueError("`stream`: sets the arrivals; leave `resample` and `load_scale` out")
        return self

    @property
    def file(self) -> str | None:
        """The file that the workload is read from or fitted to; None without a file."""
        return self.path if self.synth is None else self.synth.like

    def plain(self) -> dict[str, object]:
        """The given entries as plain values; one layer as a mapping, several as a list."""
        entries = self.model_dump(exclude_none=True)
        if len(self.layers) == 1:
            entries["enrich"] = self.layers[0].model_dump(exclude_none=True)
        return entries

    @property
    def layers(self) -> tuple[EnrichSpec, ...]:
        """Profiles that columns are drawn from, in order."""
        return self.enrich or ()

    @property
    def profiles(self) -> tuple[str, ...]:
        """Training and announcement profiles that jobs or columns are drawn from."""
        whole = None if self.synth is None else self.synth.training
        return (*filter(None, [whole]), *(layer.profile for layer in self.layers))

    @property
    def realisation(self) -> Realisation:
        """Changes to the jobs of the file or the draw before they are replayed."""
        return Realisation(
            unsuccessful=self.unsuccessful,
            window=None if self.window is None else Window(*self.window),
            resample=self.resample,
            load_scale=self.load_scale,
        )

    @property
    def uses_seed(self) -> bool:
        """Whether the workload depends on the seed."""
        drawn = self.stream is not None and self.stream.seed is None
        return drawn or self.synth is not None or self.resample is not None or self.enrich is not None

    @property
    def keeps_all(self) -> bool:
        """Whether every job of the workload is replayed, once."""
        return self.stream is None and self.realisation.keeps_all

    @property
    def keeps_times(self) -> bool:
        """Whether the jobs that are replayed are submitted when the workload says."""
        return self.stream is None and self.realisation.keeps_times

    @property
    def label(self) -> str:
        """Name for tables, e.g. ``traces/philly/days/x1.2``; unique for each workload."""
        name = self.synth.label if self.synth else (self.path or "").removesuffix(".parquet")
        parts = [
            "" if self.unsuccessful == "keep" else f"{self.unsuccessful}-unsuccessful",
            "" if self.window is None else "-".join(str(at).removesuffix(".0") for at in self.window) + "s",
            self.resample,
            "" if self.load_scale == 1 else f"x{self.load_scale}",
            "" if self.stream is None else self.stream.label,
            "+".join(layer.label for layer in self.layers),
        ]
        return "/".join([name, *filter(None, parts)])


def _path_alone(given: object) -> object:
    return {"path": given} if isinstance(given, str) else given


Workload = Annotated[WorkloadSpec, BeforeValidator(_path_alone)]


class TrimSpec(Spec):
    """Warm-up and cool-down whose jobs the summary leaves out, see `Trim`; all jobs are simulated."""

    warm_up_s: Seconds = 0.0
    cool_down_s: Seconds = 0.0

    @property
    def trim(self) -> Trim:
        """The trim as a record of the model."""
        return Trim(self.warm_up_s, self.cool_down_s)


class AuditSpec(Spec):
    """Audit of a run of announced jobs; see docs/certificates.md."""

    jobs: Annotated[int, Field(ge=1)] = AuditRequest().jobs
    """Largest number of jobs whose misreports are tried; they are drawn with the run's seed."""
    futures: Annotated[int, Field(ge=1)] = AuditRequest().futures
    """Most joint futures of all jobs that are run; of more, so many are drawn."""
    nodes: Annotated[int, Field(ge=1)] = AuditRequest().nodes
    """Limit on the nodes of the search for the best welfare."""

    @property
    def request(self) -> AuditRequest:
        """The audit as a record of the model."""
        return AuditRequest(self.jobs, self.futures, self.nodes)


def audit_switch(given: object) -> object:
    """Content of an audit for ``true`` and ``false``; other content stays."""
    if isinstance(given, bool):
        return {} if given else None
    return given


class Scenario(Spec):
    """One configuration of the simulator. Paths are relative to the working directory."""

    workload: Workload
    cluster: str
    policy: str = "fifo"
    params: dict[str, Value] = Field(default_factory=dict)
    """Parameters of the policy, as `-p`."""
    label: Label | None = None
    """Name of the policy with its parameters in tables and charts; no part of the run's identity."""
    world: dict[str, Value] = Field(default_factory=dict)
    """Parameters of the world, as `-w`; see docs/engine.md."""
    partition: Partition = "none"
    trim: TrimSpec | None = None
    """Null counts every job."""
    audit: Annotated[AuditSpec | None, BeforeValidator(audit_switch)] = None
    """``true``, or the sizes of the audit; null for none."""
    seed: Seed = 0
    sites: Annotated[int, Field(ge=1)] = 1
    """Groups of servers simulated apart; any number gives the same result."""
    fleet: FleetKind = "local"
    """Place of the sites: this process, or Ray actors; both give the same result."""


def parsed(model: type[_Model], content: object, source: str, parts: Iterable[type[BaseModel]]) -> _Model:
    """The content as a model; the error lists every problem under `source`.

    Parameters
    ----------
    parts : models within it, whose keys are suggested where one is unknown
    """
    try:
        return model.model_validate(content)
    except ValidationError as error:
        models: list[type[BaseModel]] = [model, *parts]
        known = [key for each in models for key in each.model_fields]
        raise InvalidScenarioError(problems_text(source, dotted_problems(error, known))) from error


def parse_scenario(content: object, source: str) -> Scenario:
    """Parse the content of a scenario file."""
    return parsed(
        Scenario, content, source, (WorkloadSpec, SynthSpec, StreamSpec, EnrichSpec, TrimSpec, AuditSpec)
    )


def read_scenario(path: Source, overrides: Mapping[str, object] | None = None) -> Scenario:
    """Read a scenario from a YAML file, some of whose entries are replaced, see `overridden`."""
    content = read_document(path)
    if not overrides:
        return parse_scenario(content, str(path))
    merged = overridden(content, overrides) if isinstance(content, dict) else content
    return parse_scenario(merged, f"{path} with the options for {', '.join(overrides)}")


def overridden(content: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Replace entries of a scenario's content.

    Entries of mappings are replaced one by one: another `slot_s` keeps the rest of `world`. Another policy
    drops the parameters and the label of the old one, and another path drops `synth`.
    """
    merged = {**content, **overrides}
    for key in ("workload", "params", "world", "trim", "audit"):
        old, new = (
            _path_alone(content.get(key)) if key == "workload" else content.get(key),
            overrides.get(key),
        )
        if not isinstance(old, dict) or not isinstance(new, Mapping):
            continue
        merged[key] = {**old, **new}
    workload = overrides.get("workload")
    if isinstance(workload, Mapping) and "path" in workload and isinstance(merged["workload"], dict):
        merged["workload"].pop("synth", None)
    if "policy" in overrides and overrides["policy"] != content.get("policy"):
        merged |= {"params": overrides.get("params", {}), "label": overrides.get("label")}
    return merged


def read_document(path: Source) -> object:
    """Content of a scenario or sweep file in YAML, unchecked."""
    return parse_yaml(read_text(path, InvalidScenarioError), str(path), InvalidScenarioError)


def key_values(pairs: Iterable[str], option: str) -> dict[str, Value]:
    """Parse a repeated command line option, ``["a=1", "b=x"]``, to a mapping of texts."""
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
    """Label of a setting for tables: ``a=1, b=x`` in the given order."""
    return ", ".join(f"{key}={_plain(value)}" for key, value in values.items())


def _plain(value: Value) -> str:
    if isinstance(value, list):
        return "[" + " ".join(_plain(item) for item in value) + "]"
    return str(value)
