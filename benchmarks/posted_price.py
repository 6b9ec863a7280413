"""Posted prices: whole commands of 100,000 announced jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from benchmarks.figures import Figures, wall_clock
from benchmarks.processes import python
from ray_sim.model.streams import Streams
from workloads.provenance import Counts, Provenance
from workloads.schema import with_all_columns
from workloads.store import write_workload

ROUND_S = 60.0


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers that the time of the mechanism depends on."""

    jobs: int = 100_000
    nodes: int = 10_000
    """C."""
    delay: int = 100
    """S_m, rounds after the birth in which a finish is worth something."""
    durations: int = 5
    """Durations in each support; there are three arrivals."""
    load: float = 1.2
    """GPU rounds wanted over those there are."""
    most_gpus: int = 8
    most_duration: int = 20

    @property
    def rounds(self) -> int:
        """Rounds in which jobs are born."""
        mean = (self.most_gpus + 1) / 2 * (self.most_duration + 1) / 2
        return max(1, round(self.jobs * mean / (self.load * self.nodes)))


_OUTLOOKS = 1000
_WORTHS = (1, 2, 4, 8)


def announced_jobs(size: Size, seed: int = 0) -> pl.DataFrame:
    """Jobs with births on whole rounds; each comes and runs as a point of its outlook says.

    Outlooks are drawn from a thousand; values are 1 to 8 units until a deadline.
    """
    draw = Streams(seed).generator("announced-benchmark")
    points = [_points(draw, size) for _ in range(_OUTLOOKS)]
    row = draw.integers(0, len(points), size.jobs)
    chosen = [int(draw.choice(len(points[k]), p=points[k][:, 2])) for k in row]
    came_s, ran_s = np.array([points[k][i, :2] for k, i in zip(row, chosen, strict=True)]).T
    birth_s = np.sort(draw.integers(0, size.rounds, size.jobs)) * ROUND_S
    texts = pl.Series([" ".join(f"{a:g}:{d:g}:{float(p)!r}" for a, d, p in each) for each in points])
    worth, rest = draw.choice(_WORTHS, size.jobs), draw.integers(size.delay // 3, size.delay, size.jobs)
    return pl.DataFrame(
        {
            "job_id": [f"job-{i}" for i in range(size.jobs)],
            "trace_order": np.arange(size.jobs),
            "submit_s": birth_s + came_s,
            "birth_s": birth_s,
            "num_gpus": draw.integers(1, size.most_gpus + 1, size.jobs).astype(np.float64),
            "duration_s": ran_s,
            "outlook": texts.gather(row),
            "value": [f"deadline {v} {d * ROUND_S:g}" for v, d in zip(worth, rest, strict=True)],
        }
    )


def _points(draw: np.random.Generator, size: Size) -> np.ndarray:
    """(n, 3) arrival after the birth and duration in seconds, and probability."""
    lasts = np.sort(draw.choice(np.arange(1, size.most_duration + 1), size.durations, replace=False))
    comes = np.sort(draw.choice(np.arange(10), 3, replace=False))
    weight = np.outer(draw.dirichlet(np.ones(3)), draw.dirichlet(np.ones(size.durations))).ravel()
    weight = np.maximum(weight, 1e-6)
    arrival, duration = np.repeat(comes, size.durations), np.tile(lasts, 3)
    return np.stack([arrival * ROUND_S, duration * ROUND_S, weight / weight.sum()], axis=1)


ROUNDS = 10_000
"""T."""

COMMANDS: Mapping[str, tuple[Mapping[str, object], float]] = {
    "pointwise-0.02": ({"mu": 0.02}, 30.0),
    "uniform-0.05": ({"mu": 0.05, "oracle_error": "uniform"}, 60.0),
}
"""Parameters of whole commands, and the most wall seconds."""

_FACTS = {"truth": "announced", "slot_s": ROUND_S, "horizon_s": ROUNDS * ROUND_S}


@wall_clock
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name: str, tmp_path: Path, figures: Figures) -> None:
    size = Size(jobs=200, nodes=100) if figures.small else Size()
    figures.input(f"{size.jobs:,} drawn jobs, C = {size.nodes:,}, load {size.load:g}")
    counts = Counts(read=size.jobs, kept=size.jobs)
    drawn = Provenance(converter="announced_jobs", converter_version="1", seed=0, counts=counts)
    write_workload(with_all_columns(announced_jobs(size)), drawn, tmp_path / "announced.parquet")
    pool = {"name": "pool", "servers": [{"name": "pool", "count": 1, "gpus": size.nodes}]}
    (tmp_path / "pool.yaml").write_text(yaml.safe_dump(pool))
    params, budget_s = COMMANDS[name]
    wall_s = figures.once_s(lambda: python(*_command(params), cwd=tmp_path))
    figures.add(f"{name}.wall_s", wall_s, "s", "smaller", budget_s)


def _command(params: Mapping[str, object]) -> list[str]:
    given = [("-w", name, value) for name, value in _FACTS.items()]
    given += [("-p", name, value) for name, value in params.items()]
    options = [text for flag, name, value in given for text in (flag, f"{name}={value}")]
    base = ["-m", "ray_sim.cli", "run", "--workload", "announced.parquet", "--cluster", "pool.yaml"]
    return [*base, "--policy", "posted_price", *options]
