"""Stored results small enough to write down: a run, and a sweep that is not finished."""

from __future__ import annotations

from pathlib import Path

from ray_sim.experiments.results.result_directories import write_files
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.results.store import ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_entries import Entry
from tests.results_by_hand import three_jobs


def manifest(content_hash: str, policy: str, **given: object) -> dict[str, object]:
    """What says where a run comes from; ``given`` replaces entries."""
    return {
        "content_hash": content_hash,
        "scenario_hash": content_hash,
        "code": {"code_sha256": "33" * 32, "policy_source_sha256": None},
        "inputs": {
            "workload": {"path": "traces/week.parquet", "resample": "days"},
            "cluster": "edge",
            "workload_sha256": "11" * 32,
            "cluster_sha256": "22" * 32,
        },
        "policy": policy,
        "parameters": {"knob": 2},
        "world": {},
        "partition": "none",
        "trim": None,
        "seed": 0,
        "versions": {"ray_sim": "0.1.0"},
        "jobs": {"read": 3, "replayed": 3},
        **given,
    }


def store_run(directory: Path) -> Path:
    """Write `three_jobs` under las as the directory of a run."""
    write_files(directory, encode_result(three_jobs(), manifest("ab" * 32, "las")))
    return directory


def store_sweep(directory: Path) -> Path:
    """Write results of a sweep: fifo and sjf done, mine:Broken failed, las not yet run."""
    entries = [
        Entry(pair * 32, "week/days", "edge", "", policy, 0, pair * 32)
        for pair, policy in (("ab", "fifo"), ("cd", "sjf"), ("ef", "mine:Broken"), ("01", "las"))
    ]
    store = ResultStore(directory)
    with store.writing("demo"):
        store.write_plan("demo", entries)
        for entry in entries[:2]:
            files = encode_result(three_jobs(), manifest(entry.content_hash, entry.policy))
            store.put(entry.content_hash, files)
        store.write_failures([ConfigurationOutcome(entries[2], "ZeroDivisionError: no luck")])
    return directory
