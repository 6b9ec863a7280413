"""Bounds of Gavel's traces by GPUs that are priced by type, as an independent model has them."""

from __future__ import annotations

from pathlib import Path

import pytest

import ray_sim


@pytest.mark.parametrize(
    ("trace", "gpus", "bound_s"),
    [("minimize_makespan", 12, 24_084), ("max_min_fairness", 4, 38_407), ("single60", 2, 12_155)],
)
def test_priced_gpus_bound_jobs_of_gavel(
    shared_data: Path, tmp_path: Path, trace: str, gpus: int, bound_s: float
) -> None:
    path = tmp_path / f"{trace}.parquet"
    ray_sim.convert("gavel", shared_data / f"data/gavel/{trace}.trace.gz", path, progress=False)
    world: dict[str, bool | str] = {"truth": "measured", "consolidation": False}
    result = ray_sim.simulate(path, f"gavel-{gpus}-{gpus}-{gpus}", policy="srtf", world=world)
    assert result.summary.certificate is not None
    assert result.summary.certificate.bound_s == pytest.approx(bound_s, abs=1)
    assert result.summary.certificate.resource == "priced GPUs"
