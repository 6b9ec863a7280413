"""Figures of `ray-sim info` for a workload, alone or on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import NoneType

import polars as pl

from ray_sim.experiments.offered_load import Backlog, ClusterLoad, PartitionLoad, ResourceLoad, offered_load
from ray_sim.experiments.type_loads import TypeLoad
from ray_sim.experiments.view_summary import ViewSummary, describe_views
from ray_sim.model.arguments import expect
from ray_sim.model.cluster import Cluster
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.html import facts_html
from ray_sim.model.parameter_blocks import BlockRule, assign, parse_blocks
from ray_sim.model.readable import bar, duration, sparkline
from ray_sim.model.streams import Streams
from workloads.describe import DAY_S, Workload, WorkloadDescription
from workloads.sources import Source

MXNET_SEED = 0
"""Seed of the random parameter servers that are shown."""


@dataclass(frozen=True, slots=True)
class AssignedModel:
    """Blocks of a model on parameter servers, assigned by one rule."""

    skew: float
    """Parameters on the fullest server divided by the average."""
    size_difference: float
    """Parameters of the fullest server minus those of the emptiest."""
    requests: int
    """Requests of one worker in one step."""
    request_difference: int
    """Requests on the busiest server minus those on the idlest."""


@dataclass(frozen=True, slots=True)
class ModelBlocks:
    """A model of the workload."""

    model: str | None
    """Family of the model; null where the workload names none."""
    jobs: int
    blocks: int
    parameters: int
    rules: dict[str, AssignedModel]


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """Models of a workload on a given number of parameter servers."""

    servers: int
    models: list[ModelBlocks]

    def rows(self) -> Iterator[tuple[str, object]]:
        """Label and value of each line to show."""
        yield "parameter servers", self.servers
        for one in self.models:
            yield (
                f"blocks of {one.model or 'an unnamed model'}",
                f"{one.blocks:,}, {one.parameters:,} parameters, {one.jobs:,} jobs",
            )
            for rule, dealt in one.rules.items():
                yield (
                    f"  {rule}",
                    f"fullest {dealt.skew:.4g} x the average, sizes differ by {dealt.size_difference:,.10g}; "
                    f"{dealt.requests:,} requests, differ by {dealt.request_difference:,}",
                )


def describe_blocks(frame: pl.DataFrame, name: str, servers: int) -> BlockSummary:
    """Assign the blocks of each model to parameter servers by every rule; `frame` is a sound workload."""
    known = frame.filter(pl.col("blocks").is_not_null())
    if known.is_empty():
        raise InvalidInputError(
            f"--blocks {servers}: {name} has no column blocks; draw it by `ray-sim enrich` with a profile "
            "that has it, such as optimus_nine_models"
        )
    models = known.group_by("model", "blocks").len().sort("model", "blocks")
    return BlockSummary(
        servers, [_model(name, text, jobs, servers) for name, text, jobs in models.iter_rows()]
    )


def _model(model: str | None, text: str, jobs: int, servers: int) -> ModelBlocks:
    blocks = parse_blocks(text)
    rules = {}
    for rule in BlockRule:
        dealt = assign(rule, blocks, servers, Streams(MXNET_SEED))
        rules[rule.value] = AssignedModel(
            dealt.skew, dealt.size_difference, dealt.total_requests, dealt.request_difference
        )
    return ModelBlocks(model, jobs, len(blocks), sum(blocks), rules)


BAR_WIDTH = 40
"""Largest width of a bar, and of a line over time, in characters."""

VCS_NAMED = 8
"""Number of overloaded vcs that a warning names; it counts the rest."""

UNBOUNDED = "not bounded, as jobs may train in chunks or with other numbers of workers"

Rows = list[tuple[str, object]]
"""Label and value of each line of a printed table."""


@dataclass(frozen=True, slots=True)
class WorkloadInfo:
    """A workload; on request its load on a cluster, and its models on parameter servers."""

    description: WorkloadDescription
    load: ClusterLoad | None
    blocks: BlockSummary | None
    views: list[ViewSummary] | None

    @property
    def warnings(self) -> list[str]:
        """Reasons to doubt a replay of all jobs on this cluster."""
        return [] if self.load is None else list(_warnings(self.load))

    def to_dict(self) -> dict[str, object]:
        """Plain nested values, for JSON."""
        load = None if self.load is None else asdict(self.load)
        blocks = None if self.blocks is None else asdict(self.blocks)
        facts = {**self.description.to_dict(), "load": load, "blocks": blocks, "warnings": self.warnings}
        return facts if self.views is None else {**facts, "views": [each.to_dict() for each in self.views]}

    def rows(self) -> Rows:
        """Label and value of each line of the printed table."""
        load = [] if self.load is None else _load_rows(self.load)
        blocks = [] if self.blocks is None else self.blocks.rows()
        bins = self.description.duration_bins
        most = max(one.jobs for one in bins)
        histogram: Rows = [
            (
                f"run time {duration(one.from_s)} .. {duration(one.to_s)}",
                f"{bar(one.jobs / most, BAR_WIDTH)} {one.jobs:,}",
            )
            for one in bins
        ]
        views: Rows = [(f"view {each.view.name}", each.text()) for each in self.views or ()]
        return [*self.description.rows(), *histogram, *load, *blocks, *views]

    def _repr_html_(self) -> str:
        load = [] if self.load is None else _short_load_rows(self.load)
        rows = [*self.description.short_rows(), *load]
        return facts_html(self.description.path, rows, "; ".join(self.warnings))


def describe_workload(
    source: Source | Workload,
    cluster: Cluster | None = None,
    parameter_servers: int | None = None,
    *,
    views: bool = False,
) -> WorkloadInfo:
    """Describe a workload, alone or on a cluster, and the blocks of its models on parameter servers.

    Raises
    ------
    InvalidWorkloadError : see `read_frame`
    InvalidInputError : parameter servers are given, and the workload has no blocks, or an argument is no such
        object
    """
    expect("source", source, (str, Path, Workload), "a path or a workload")
    expect("cluster", cluster, (Cluster, NoneType), "a Cluster, as load_cluster returns it, or None")
    workload = source if isinstance(source, Workload) else Workload.read(source)
    frame = workload.jobs
    load = None if cluster is None else offered_load(workload.table(cluster.resources), cluster)
    blocks = None if parameter_servers is None else describe_blocks(frame, workload.path, parameter_servers)
    of_views = describe_views(frame) if views else None
    return WorkloadInfo(workload.describe(), load, blocks, of_views)


def _short_load_rows(load: ClusterLoad) -> list[tuple[str, str]]:
    """Rows on the load for a small table."""
    whole = load.whole
    used = [(name, each) for name, each in whole.resources.items() if each.work_h]
    return [
        ("cluster", f"{load.cluster}: {whole.servers:,} servers"),
        ("jobs that can never fit", f"{whole.never_fit:,}{_too_much_text(whole)}"),
        *((f"offered load in the span, {name}", _load_text(each.offered_load, ".3f")) for name, each in used),
    ]


def _load_rows(load: ClusterLoad) -> Rows:
    whole = load.whole
    rows: Rows = [
        ("cluster", f"{load.cluster}: {whole.servers:,} servers"),
        (
            "jobs that can never fit",
            f"{whole.never_fit:,} ({whole.never_fit / whole.jobs:.2%}){_too_much_text(whole)}",
        ),
    ]
    if not load.whole_jobs:
        rows.append(("unfinished work", UNBOUNDED))
    every = "by day" if load.period_s == DAY_S else f"by {load.period_s // DAY_S} days"
    for name, resource in whole.resources.items():
        if resource.work_h or (name == "gpu" and resource.capacity):
            rows += _resource_rows(name, resource, every)
    if load.gpu_types is not None and not load.gpu_types.ignored:
        rows += [(f"GPU types {_types_text(each)}", _type_load_text(each)) for each in load.gpu_types.sets]
    for name, vc in (load.vcs or {}).items():
        rows.append((f"load of vc {name}", _partition_text(vc)))
    if load.outside_vcs:
        rows.append(("jobs of no vc of the cluster", load.outside_vcs))
    return rows


def _types_text(load: TypeLoad) -> str:
    return load.types.replace("|", ", ") or "any"


def _type_load_text(load: TypeLoad) -> str:
    """GPUs asked for at once over those of the servers, by all jobs that can use no others."""
    at_once = f"{load.gpus_within:,.0f} / {load.capacity:,.0f} GPUs"
    share = "no server" if load.load is None else f"{load.load:.2f} at once ({at_once})"
    return f"{share}; {load.jobs:,} jobs ask for {load.gpus:,.0f} GPUs"


def _type_warnings(load: ClusterLoad) -> Iterator[str]:
    types = load.gpu_types
    if types is None:
        return
    if types.ignored:
        yield (
            f"cluster {load.cluster}: jobs name GPU types, and no server has one, so they are left out here; "
            "give its servers a gpu_type, or run with -w gpu_types=ignore"
        )
        return
    if types.jobs_by_unknown_type:
        names = ", ".join(f"{name} ({jobs:,} jobs)" for name, jobs in types.jobs_by_unknown_type.items())
        yield f"cluster {load.cluster}: no server has the GPU types {names}"
    if types.jobs_without_server:
        yield (
            f"cluster {load.cluster}: {types.jobs_without_server:,} jobs accept no GPU type of a server; a "
            "replay rejects them"
        )


def _too_much_text(whole: PartitionLoad) -> str:
    """The resources that jobs ask too much of, such as ``; too much cpu: 12, memory_gib: 3``."""
    parts = [f"{name}: {count:,}" for name, count in whole.never_fit_by_resource.items()]
    return f"; too much {', '.join(parts)}" if parts else ""


def _per_task_text(whole: PartitionLoad) -> str:
    """A hint where demands that a table gives for a job may have been read as demands of each task."""
    if not whole.never_fit_by_resource.keys() - {"gpu"}:
        return ""
    return (
        ". Demands are those of a task; `per_job` in a mapping file divides those of a job (docs/own_csv.md)"
    )


def _resource_rows(name: str, load: ResourceLoad, every: str) -> Rows:
    backlog = load.backlog
    rows: Rows = [
        (f"offered load in the span, {name}", _load_text(load.offered_load, ".3f")),
        *_presence_rows(load),
        (f"  submitted, {every}", _periods_text(load.by_period)),
        ("  submitted in peak hour", f"{_load_text(load.peak_hour_load)}, from {duration(load.peak_hour_s)}"),
    ]
    if backlog is None or not backlog.most_h:
        return rows
    hours = _hours_text(backlog.most_h, 1)
    most = f"at least {hours} {name} hours at {duration(backlog.most_at_s)}, whatever the policy"
    at_last = f"at least {_hours_text(backlog.at_last_submission_h, 1)} {name} hours"
    return [
        *rows,
        (f"  unfinished, {every}", f"{sparkline(backlog.by_period_h, BAR_WIDTH)} {most}"),
        ("  at the last submission", f"{at_last}, {_drain_text(backlog)}"),
    ]


def _load_text(load: float | None, form: str = ".3g") -> str:
    return "undefined" if load is None else f"{load:{form}}"


def _presence_rows(load: ResourceLoad) -> Rows:
    """Rows about the available part of a resource, if servers come and go."""
    if load.mean_capacity >= load.capacity * (1 - 1e-9):
        return []
    share = load.mean_capacity / load.capacity
    return [("  there, on average", f"{load.mean_capacity:,.4g} of {load.capacity:,.4g} ({share:.1%})")]


def _periods_text(loads: Sequence[float | None]) -> str:
    known = [load for load in loads if load is not None]
    gaps = len(loads) - len(known)
    without = f"; nothing is there in {gaps:,} of {len(loads):,}" if gaps else ""
    line = sparkline([load or 0.0 for load in loads], BAR_WIDTH)
    return f"{line} at most {max(known, default=0):.3g}{without}"


def _drain_text(backlog: Backlog) -> str:
    if backlog.drain_h is None:
        return "which the servers that are there then never finish"
    return f"{_hours_text(backlog.drain_h, 1)} h of all servers"


def _partition_text(partition: PartitionLoad) -> str:
    never = f" ({partition.never_fit:,} can never fit)" if partition.never_fit else ""
    jobs = f"{partition.jobs:,} jobs{never} on {partition.servers:,} servers"
    worst = partition.worst
    if worst is None:
        return jobs
    name, load = worst
    backlog = load.backlog
    behind = ""
    if backlog is not None and backlog.at_last_submission_h:
        late = "for ever behind" if backlog.drain_h is None else f"{backlog.drain_h:,.1f} h behind"
        behind = f", {late} at the end"
    return f"{load.offered_load:.3f} ({name}){behind}; {jobs}"


def _warnings(load: ClusterLoad) -> Iterator[str]:
    whole = load.whole
    if whole.never_fit:
        jobs = f"{whole.never_fit:,} jobs ({whole.never_fit / whole.jobs:.2%})"
        refused = "can never fit; a replay refuses them"
        if not load.whole_jobs:
            refused = "can never fit with all they ask for; a replay of whole jobs refuses them"
        yield f"cluster {load.cluster}: {jobs} {refused}{_too_much_text(whole)}{_per_task_text(whole)}"
    yield from _type_warnings(load)
    if whole.overload:
        yield f"cluster {load.cluster}: {_overload_text(*whole.overload)}"
    vcs = [(name, vc.overload) for name, vc in (load.vcs or {}).items()]
    over = [f"vc {name}: {_overload_text(*overload)}" for name, overload in vcs if overload]
    if over:
        hidden = [f"and {len(over) - VCS_NAMED} more vcs"] if len(over) > VCS_NAMED else []
        yield "\n  ".join(["with partition vc", *over[:VCS_NAMED], *hidden])


def _overload_text(name: str, load: ResourceLoad) -> str:
    backlog = load.backlog
    assert backlog is not None
    claim = f"some job never ends ({name})"
    if load.jobs_must_wait:
        text = _load_text(load.offered_load, ".2f")
        loaded = f"offered load {'just above 1' if text == '1.00' else text} ({name})"
        claim = f"{loaded}, so some job waits under every policy that rejects none"
    if not backlog.at_last_submission_h:
        return claim
    hours = _hours_text(backlog.at_last_submission_h, 0)
    return (
        f"{claim}: at the last submission at least {hours} {name} hours are"
        f" unfinished whatever the policy, {_drain_text(backlog)}"
    )


def _hours_text(hours: float, digits: int) -> str:
    """Hours with some digits behind the point, or two significant ones where they are too few to show any."""
    return f"{hours:,.{digits}f}" if round(hours, digits) else f"{hours:.2g}"
