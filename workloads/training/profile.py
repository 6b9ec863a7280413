"""Training profiles: distributions by column and family, and the checks of a profile file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ray_sim.model.errors import UnknownNameError
from ray_sim.model.job import Exchange
from ray_sim.model.units import QUANTA_PER_UNIT
from workloads.job_table import CHUNK, LOSS, TRAINING, UTILITY
from workloads.schema import BY_NAME, LEAST, TRAINING_COLUMNS
from workloads.training.draws import Constant, Draw, Mixture, Multiple, Uniform, draw_range, parse_draw

FOLLOWING = ("model", "num_workers", "num_ps")
"""Derived columns: the family's name, workers by the row's GPUs, parameter servers by the ratio."""

RING = Exchange.ALL_REDUCE.name.lower()

STEP_COLUMNS = ("exchange", "samples", "batch", "sample_s", "internal_bandwidth_mbps", "workers_per_ps")
"""Columns derived for chunked jobs whose profile has no step time, see `derives_step_columns`."""

SOLVED = "samples"
"""Column that enrichment solves for; its draw is a range, used to count values outside it."""

PAIR_COLUMNS = ("pair_bandwidth_mbps", "internal_pair_bandwidth_mbps")
"""Columns solved for such that the traced run has its time with truth=pd_ors too, see `with_view_columns`."""

CHUNK_COLUMNS = ("chunks", "minibatches_per_chunk", "minibatch_s", "chunk_bandwidth_mbps")
"""The same with truth=a_online."""

View = Literal["pd_ors", "a_online"]
"""Truths, besides placement, in which the traced run can take its time by columns that are solved for."""

VIEW_COLUMNS: Mapping[View, tuple[str, ...]] = {"pd_ors": PAIR_COLUMNS, "a_online": CHUNK_COLUMNS}

UPLOADS = ("upload_edge_s", "upload_cloud_s")
"""Columns of chunks that are never solved for."""

GIVEN = ("chunks", "num_workers")
"""Columns that the row gives in enrichment (one chunk per worker); their draws are ranges too."""

BY_ROW = (*GIVEN, SOLVED, "batch", "worker_gpu")
"""Columns that the row of an enrichment bounds or determines."""

DRAWABLE = tuple(
    column.name for column in TRAINING_COLUMNS if column.name in GIVEN or column.name not in FOLLOWING
)


def derives_step_columns(columns: Mapping[str, Draw]) -> bool:
    """Whether `STEP_COLUMNS` are derived, so that chunked jobs can also be simulated in steps."""
    return (
        "sample_s" not in columns and "chunks" in columns and draw_range(columns["minibatch_s"])[0] >= LEAST
    )


@dataclass(frozen=True, slots=True)
class Family:
    """One family of models: its weight, and its draws, which override the common ones."""

    name: str | None = None
    weight: float = 1.0
    columns: Mapping[str, Draw] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainingDraws:
    """A training profile: distributions by family and column, and the reference server."""

    name: str
    title: str
    sha256: str
    """SHA-256 of the profile file."""
    families: tuple[Family, ...]
    """At least one; each has all its columns."""
    reference_server: Mapping[str, float] = field(default_factory=dict)
    """Capacity of a reference server by resource, on which the traced run is assumed; empty where the
    samples are not solved for."""
    traced_time_in: tuple[View, ...] = ()
    """Truths, besides placement, in which the traced run takes its time too."""

    @property
    def solved(self) -> tuple[str, ...]:
        """Columns that an enrichment solves for."""
        views = [name for view in self.traced_time_in for name in VIEW_COLUMNS[view]]
        return (*(name for name in (SOLVED,) if name in self.columns), *views)

    @property
    def columns(self) -> tuple[str, ...]:
        """Drawn columns in the schema's order."""
        return tuple(name for name in DRAWABLE if name in self.families[0].columns)

    @property
    def following(self) -> tuple[str, ...]:
        """Columns derived from a row and its draws."""
        follow = [name for name in FOLLOWING if name != "model" or self.families[0].name is not None]
        if "loss_b0" in self.columns:
            follow.insert(0, "epochs")
        if all(derives_step_columns(family.columns) for family in self.families):
            follow += STEP_COLUMNS
        follow += [name for view in self.traced_time_in for name in VIEW_COLUMNS[view]]
        return tuple(name for name in follow if name not in self.columns)


def parse_draws(columns: object, prefix: str, problems: list[str]) -> dict[str, Draw]:
    """Parse the draws of a file by column; append each problem to ``problems`` with its dotted path."""
    found: dict[str, Draw] = {}
    for name, given in columns.items() if isinstance(columns, Mapping) else ():
        where = f"{prefix}.{name}"
        if name in FOLLOWING and name not in DRAWABLE:
            problems.append(f"{where}: follows from the row and the other columns; leave it out")
        elif name not in DRAWABLE:
            problems.append(f"{where}: {UnknownNameError('column to draw', str(name), DRAWABLE)}")
        else:
            try:
                found[name] = parse_draw(given, BY_NAME[name])
            except ValueError as error:
                problems.append(f"{where}: {error}")
    return found


def family_problems(columns: Mapping[str, Draw], where: str) -> Iterator[str]:
    """Problems of the draws of a family taken together, one line each."""
    yield from _set_problems(columns, where)
    for name, draw in columns.items():
        if name in (*GIVEN, SOLVED) and not isinstance(draw, Uniform):
            yield f"{where}.{name}: follows from the row; must be [LOW, HIGH], the range to count by"
        if name == "worker_gpu" and not _is_whole_range(draw):
            yield f"{where}.{name}: must be a whole number or a range of them, to divide a row's GPUs by"
        if isinstance(draw, Multiple):
            yield from _multiple_problems(columns, name, where, draw)


def _set_problems(columns: Mapping[str, Draw], where: str) -> Iterator[str]:
    """Problems of columns that need others or exclude others, one line each."""
    converges = "loss_b0" in columns
    training = [name for name in TRAINING if name not in FOLLOWING]
    sets = {
        "chunks": ("a chunk", [*CHUNK, "worker_gpu"]),
        "sample_s": ("a step time", training),
        "samples": ("a step time", training),
        "utility_max": ("a utility", list(UTILITY)),
        "loss_b0": ("a loss curve", [*LOSS, "sample_s"]),
        "loss_drop": ("a drop of the loss", ["loss_b0", "loss_drop_epoch"]),
        "loss_drop_epoch": ("a drop of the loss", ["loss_b0", "loss_drop"]),
        "trained_share": ("a share of the epochs to convergence", ["loss_b0"]),
    }
    lacking: dict[str, str] = {}
    for key, (what, needed) in sets.items():
        if key in columns:
            lacking.update({name: what for name in needed if name not in columns})
    if converges:
        lacking.pop("epochs", None)
        if "epochs" in columns:
            yield f"{where}.epochs: follows from the loss curve; leave out one of the two"
    for name, what in lacking.items():
        yield f"{where}.{name}: is missing; {what} needs it"
    if not {"chunks", "sample_s"} & columns.keys():
        yield f"{where}: must say how jobs train: by `sample_s` and what belongs to it, or by `chunks`"


def view_problems(views: Iterable[View], families: Iterable[Mapping[str, Draw]]) -> Iterator[str]:
    """Problems of draws from which columns are to be solved for other truths, one line each."""
    for view, columns in itertools.product(views, families):
        where = f"traced_time_in: {view}"
        if SOLVED not in columns:
            yield f"{where} needs `{SOLVED}` and the other columns of a step time"
        if taken := [name for name in VIEW_COLUMNS[view] if name in columns]:
            yield f"{where} solves for {', '.join(taken)}; leave their draws out"
        if "gradient_mb" in columns and draw_range(columns["gradient_mb"])[0] <= 0:
            yield f"{where} needs a `gradient_mb` above 0"
        if view == "pd_ors" and "exchange" in columns and RING in _texts_of(columns["exchange"]):
            yield f"{where} has no form for {RING}; leave it out of `exchange`"
        if view == "a_online" and (lacking := [name for name in UPLOADS if name not in columns]):
            yield f"{where} needs {', '.join(lacking)}"


def _texts_of(draw: Draw) -> set[object]:
    """Texts that a draw can give."""
    parts = draw.parts if isinstance(draw, Mixture) else (draw,)
    return {part.value for part in parts if isinstance(part, Constant)}


def _is_whole_range(draw: Draw) -> bool:
    match draw:
        case Constant(float() as value):
            return value == int(value)
        case Uniform(low, high):
            return low == int(low) and high == int(high)
    return False


def _multiple_problems(columns: Mapping[str, Draw], name: str, where: str, draw: Multiple) -> Iterator[str]:
    of, column = columns.get(draw.column), BY_NAME[name]
    if of is None or draw.column in BY_ROW or not BY_NAME[draw.column].is_number:
        yield f"{where}.{name}.column: must be a column of numbers drawn here, got '{draw.column}'"
        return
    if isinstance(of, Multiple):
        yield f"{where}.{name}.column: '{draw.column}' is a multiple itself; name what it is a multiple of"
        return
    assert column.minimum is not None
    assert column.maximum is not None
    low, high = (draw.times * end for end in draw_range(of))
    if low < column.minimum or high > column.maximum:
        allowed = f"{column.minimum:.10g} to {column.maximum:.10g}"
        yield f"{where}.{name}.times: gives {low:.10g} to {high:.10g}, outside the column's {allowed}"


def reference_problems(
    reference: Mapping[str, float], families: Iterable[Mapping[str, Draw]]
) -> Iterator[str]:
    """Problems of the reference server, one line each."""
    for name in reference:
        if name not in QUANTA_PER_UNIT:
            yield f"reference_server.{name}: {UnknownNameError('resource', name, QUANTA_PER_UNIT)}"
    for columns in families:
        solved = SOLVED in columns or "sample_s" in columns
        lacking = [r for r in QUANTA_PER_UNIT if _demands(columns, r) and r not in reference]
        if solved and lacking:
            yield f"reference_server: must offer {', '.join(lacking)}, which workers or servers demand"
            return


def _demands(columns: Mapping[str, Draw], resource: str) -> bool:
    draws = [columns[name] for name in (f"worker_{resource}", f"ps_{resource}") if name in columns]
    return any(draw != Constant(0.0) for draw in draws)
