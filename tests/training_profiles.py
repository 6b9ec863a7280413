"""Training profiles for tests: a small one, parts of damaged ones, and jobs to enrich."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
from hypothesis import strategies as st

from ray_sim.experiments.inputs.training_file import TRAINING_PROFILES, load_training_draws
from workloads.synthetic.synth import synth
from workloads.training.profile import TrainingDraws

Jobs = Callable[..., pl.DataFrame]
PROFILES = sorted(TRAINING_PROFILES.bundled())


def philly(jobs: int) -> pl.DataFrame:
    return synth("philly", jobs, seed=5)[0]


def of_yaml(folder: Path, text: str) -> TrainingDraws:
    path = folder / "profile.yaml"
    path.write_text(text)
    return load_training_draws(path)


SMALL = """
name: small
reference_server: {gpu: 4, cpu: 100, memory_gib: 100}
columns:
  exchange: sync
  epochs: 10
  samples: [1, 1000]
  batch: [1, 100]
  sample_s: 0.5
  gradient_mb: 50
  bandwidth_mbps: 100
  internal_bandwidth_mbps: 1000
  workers_per_ps: 2
  worker_gpu: 1
  worker_cpu: 4
  ps_cpu: 2
  ps_memory_gib: 8
"""


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**70),
    st.floats(),
    st.text("abc.1", max_size=3),
    st.lists(st.integers(-1, 500), max_size=3),
    st.just({"times": 3.0, "column": "bandwidth_mbps"}),
    st.fixed_dictionaries(
        {"whole": st.lists(st.integers(0, 9), min_size=2, max_size=2), "times": st.floats(-1, 9)}
    ),
    st.dictionaries(st.sampled_from(["whole", "mix", "times", "weight"]), st.integers(-1, 9), max_size=2),
    st.lists(st.fixed_dictionaries({"weight": st.floats(-1, 9), "value": st.just(2)}), max_size=3).map(
        lambda parts: {"mix": parts}
    ),
)
