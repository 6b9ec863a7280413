"""A training of seconds: small worlds, small networks, all phases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ray_sim.learning.training_plan import TrainingPlan, parse_plan

CLUSTER = """
name: two-servers
servers:
  - {name: server, count: 2, cpus: 8, gpus: 2, memory_gib: 48}
"""

PROFILE = """
name: small-jobs
base: harmony_types
columns: {epochs: [2, 4], samples: [2000, 20000], num_workers: [1, 2]}
"""


def scenario(profile: Path, cluster: Path, jobs: int, horizon_s: int, slot_s: int) -> dict[str, Any]:
    """Jobs of the types of harmony_types, drawn from a profile, which slow each other."""
    drawn = {"profile": str(profile), "jobs": jobs, "horizon_s": horizon_s, "arrivals": "poisson"}
    world = {"truth": "placement", "slot_s": slot_s, "overcommit": 2, "interference": "harmony_types"}
    return {"workload": {"synth": drawn}, "cluster": str(cluster), "world": world}


def small_plan(folder: Path, **changed: object) -> dict[str, Any]:
    """Content of a plan whose files are written to a folder."""
    (folder / "cluster.yaml").write_text(CLUSTER)
    (folder / "jobs.yaml").write_text(PROFILE)
    plan: dict[str, Any] = {
        "name": "small",
        **scenario(folder / "jobs.yaml", folder / "cluster.yaml", jobs=6, horizon_s=3600, slot_s=600),
        "jobs": {"first": 100, "count": 6},
        "learning": {
            "most_jobs": 6,
            "most_new": 3,
            "block": 8,
            "hidden": [8],
            "minibatch": 32,
            "buffer": 300,
        },
        "collecting": {"units": 3, "lanes": 2, "steps": 20},
        "updates": 3,
        "rewards": {"samples": 60, "epochs": 1, "refit_every": 1},
        "phases": {"imitation": 1, "offline": 1, "online": 2},
        "validation": {"every": 2, "seeds": {"first": 0, "count": 2}},
    }
    return {**plan, **changed}


def parsed(folder: Path, **changed: object) -> TrainingPlan:
    """The plan."""
    return parse_plan(small_plan(folder, **changed), "plan")


def written(folder: Path, **changed: object) -> Path:
    """A file of the plan."""
    path = folder / "plan.yaml"
    path.write_text(yaml.safe_dump(small_plan(folder, **changed)))
    return path


def contents(directory: Path) -> Mapping[str, bytes]:
    """Bytes of the files of a training that follow from its plan."""
    names = ("state.npz", "checkpoint.npz", "last.npz", "curves.parquet")
    return {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}
