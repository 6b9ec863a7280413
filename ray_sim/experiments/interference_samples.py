"""Samples of how jobs on one server slow each other, the regressions fitted to them, and their file.

docs/models/baselines.md#least-interference-first has the form of both regressions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.interference import PARTS, InterferenceProfile, channels_of
from ray_sim.model.slowdown_coefficients import TABLES, SlowdownCoefficients
from ray_sim.model.streams import Streams
from ray_sim.model.units import FloatArray, IntArray
from workloads.files import replacing

MOST_OTHERS = 4
"""Largest number of other jobs on the server of a sample."""

MOST_OF_A_ROLE = 2
"""Largest number of workers, and of parameter servers, of another job there."""

MOST_NOISE = 0.3
"""Largest relative noise; with it hardly a measured slowdown is below 0."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured slowdowns of jobs, n of them, among L types."""

    of_type: IntArray
    """(n,) type of the job that is slowed."""
    beside: IntArray
    """(n, L) tasks of other jobs on its server, by type."""
    slowdown: FloatArray
    """(n,) measured factor, above 0."""


def draw_samples(
    profile: InterferenceProfile, samples: int, seed: int, noise: float, sockets: int = 1
) -> Samples:
    """Draw random co-locations on one server, and measure the slowdown of one job in each.

    It and up to `MOST_OTHERS` other jobs, any number as likely, are of random types. Another job has 0 to
    `MOST_OF_A_ROLE` workers and parameter servers, at least one task. The measured slowdown is the true one
    times a normal number of mean 1 and standard deviation ``noise``, at least 0.01.
    """
    if not 0 <= noise <= MOST_NOISE:
        raise InvalidScenarioError(f"--noise: must be from 0 to {MOST_NOISE:g}, got {noise:g}")
    draw, types = Streams(seed).generator("interference-samples"), len(profile.types)
    of_type = draw.integers(0, types, samples)
    others = draw.integers(0, MOST_OTHERS + 1, samples)
    there = np.arange(MOST_OTHERS) < others[:, None]
    other_type = draw.integers(0, types, there.shape)
    both = MOST_OF_A_ROLE + 1
    held = draw.integers(1, both * both, there.shape)  # any pair of numbers but (0, 0)
    tasks = np.stack([held // both, held % both]) * there
    load = np.zeros((samples, len(profile.channels)))
    beside = np.zeros((samples, types), dtype=np.int64)
    for other in range(MOST_OTHERS):
        kind = other_type[:, other]
        load += tasks[0, :, other, None] * profile.worker_load[kind] / PARTS
        load += tasks[1, :, other, None] * profile.ps_load[kind] / PARTS
        np.add.at(beside, (np.arange(samples), kind), tasks[:, :, other].sum(axis=0))
    here = channels_of(profile, np.array([sockets]))[0]
    slowdown = 1.0 + (profile.sensitivity[of_type] * here * load).sum(axis=1)
    measured = slowdown * np.maximum(1.0 + noise * draw.standard_normal(samples), 0.01)
    return Samples(of_type, beside, measured)


def fit_slowdowns(types: tuple[str, ...], samples: Samples) -> SlowdownCoefficients:
    """Fit both regressions of slowdown - 1 for each type by non-negative least squares.

    Coefficients of which a type's samples say nothing are 0. O(L n L^2).

    Source: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
    """
    powers = {name: np.arange(1, len(parts) + 1) for name, parts in TABLES.items()}
    tables = {
        name: np.array([_fit(samples, kind, power) for kind in range(len(types))]).transpose(1, 0, 2).copy()
        for name, power in powers.items()
    }
    return SlowdownCoefficients(types, tables["linear"], tables["quadratic"])


def _fit(samples: Samples, kind: int, powers: IntArray) -> FloatArray:
    """(powers, L) coefficients of one type."""
    from scipy.optimize import nnls  # takes 0.3 s to load

    mine = samples.of_type == kind
    beside = samples.beside[mine].astype(np.float64)
    features = np.concatenate([beside**power for power in powers], axis=1)
    if not mine.any():
        return np.zeros((len(powers), beside.shape[1]))
    found: FloatArray = nnls(features, samples.slowdown[mine] - 1.0)[0]
    return found.reshape(len(powers), -1)


def predictions(table: FloatArray, samples: Samples) -> FloatArray:
    """(n,) slowdowns that a regression, (powers, L, L), predicts for the jobs of samples."""
    predicted = np.ones(len(samples.of_type))
    for power, coefficients in enumerate(table, start=1):
        predicted += (coefficients[samples.of_type] * samples.beside.astype(np.float64) ** power).sum(axis=1)
    return predicted


def fit_errors(fitted: SlowdownCoefficients, samples: Samples) -> dict[str, float]:
    """Mean of ``|predicted - measured| / measured`` of each regression, by its name."""
    tables = {"linear": fitted.linear, "quadratic": fitted.quadratic}
    return {
        name: float((np.abs(predictions(table, samples) - samples.slowdown) / samples.slowdown).mean())
        for name, table in tables.items()
    }


def write_coefficients(path: Path, fitted: SlowdownCoefficients, origin: Mapping[str, object]) -> None:
    """Write coefficients with facts about their origin as JSON; the file appears whole or not at all.

    Only a file that this function wrote, and that is unchanged, is replaced.
    """
    content = {**origin, **fitted.content()}
    with replacing(path, _is_ours) as temporary:
        temporary.write_text(_text({**content, "sha256": _digest(content)}), encoding="utf-8")


def _text(content: Mapping[str, object]) -> str:
    """JSON with one line per key, and per row of a table."""
    lines = []
    for name, value in content.items():
        if isinstance(value, Mapping):
            parts = ",\n".join(f"    {json.dumps(part)}: {_rows(rows)}" for part, rows in value.items())
            lines.append(f"  {json.dumps(name)}: {{\n{parts}\n  }}")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rows(rows: object) -> str:
    if not isinstance(rows, list):
        return json.dumps(rows)
    return "[\n" + ",\n".join(f"      {json.dumps(row)}" for row in rows) + "\n    ]"


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _is_ours(path: Path) -> bool:
    try:
        content: Any = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.pop("sha256", None) == _digest(content)
