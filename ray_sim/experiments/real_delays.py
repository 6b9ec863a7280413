"""Real queueing delays of a run's trace, compared with those of the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ray_sim.experiments.report import require_replaceable_page, write_page
from ray_sim.experiments.results.result_files import read_table
from ray_sim.experiments.results.stored_runs import RunManifest, read_run_manifest
from ray_sim.experiments.scenario import WorkloadSpec, setting_label
from ray_sim.model.errors import InvalidInputError
from ray_sim.reports.delays import WORKLOAD_COLUMNS, DelayComparison, compare_delays, delays_page
from workloads.files import require_file, sha256
from workloads.store import read_frame, read_provenance

_RUN_COLUMNS = ("job_id", "num_gpus", "submit_s", "start_s", "status")


@dataclass(frozen=True, slots=True)
class RealDelays:
    """Comparison of a run with the trace that it replays."""

    manifest: RunManifest
    workload: str
    """File that the real delays were read from."""
    rejected: dict[str, int]
    """Rows that the conversion of the trace left out by reason; the comparison cannot see them."""
    found: DelayComparison
    jobs: pl.DataFrame
    """Jobs of the run, as for `compare_delays`."""

    @property
    def label(self) -> str:
        """Policy and world of the run."""
        return ", ".join(filter(None, [self.manifest.policy_label, setting_label(self.manifest.world)]))

    def to_dict(self) -> dict[str, Any]:
        """Plain nested dict for JSON."""
        facts = {
            "policy": self.manifest.policy_label,
            "world": self.manifest.world,
            "workload": self.workload,
        }
        return {**facts, "rejected_by_conversion": self.rejected, **self.found.to_dict()}

    def write_page(self, out: Path) -> None:
        """Write the comparison as an HTML page, which appears whole or not at all."""
        inputs = self.manifest.inputs
        facts = [
            ("policy", self.manifest.policy_label),
            ("world", setting_label(self.manifest.world) or "defaults"),
            ("workload", self.workload),
            ("cluster", inputs.cluster),
            ("content hash", self.manifest.content_hash),
            *((f"rejected by the conversion, {reason}", count) for reason, count in self.rejected.items()),
        ]
        title = f"Queueing delays of {self.label} and of the trace"
        write_page(
            delays_page(title, f"{self.workload} on {inputs.cluster}", facts, self.found, self.jobs), out
        )


def compare_real_delays(directory: Path, workload: str | None = None, out: Path | None = None) -> RealDelays:
    """Compare the queueing delays of a run with those of its trace.

    Raises
    ------
    InvalidInputError : a file is missing or has changed, the workload is not the one that the run read, the
        run has other arrivals than the trace, no job has a real delay, or `out` cannot be written
    """
    if out is not None:
        require_replaceable_page(out)  # check before the work
    jobs = jobs_with_real_delays(directory, workload)
    manifest = read_run_manifest(directory)
    path = workload or str(manifest.inputs.workload.path)
    provenance = read_provenance(path)
    rejected, epoch = ({}, None) if provenance is None else (provenance.counts.rejected, provenance.epoch_utc)
    delays = RealDelays(manifest, path, rejected, compare_delays(jobs, epoch), jobs)
    if out is not None:
        delays.write_page(out)
    return delays


def jobs_with_real_delays(directory: Path, workload: str | None = None) -> pl.DataFrame:
    """Jobs of a run with the columns that `compare_delays` reads; raises as `compare_real_delays`."""
    inputs = read_run_manifest(directory).inputs
    _check_replayed(directory, inputs.workload)
    path = workload or str(inputs.workload.path)
    _check_same_file(directory, path, inputs.workload_sha256)
    trace = read_frame(path).select("job_id", *WORKLOAD_COLUMNS)
    if trace["wait_s"].null_count() == trace.height:
        raise InvalidInputError(
            f"{path}: no job has a wait_s, the real delay between submission and start; convert a trace that "
            "has starts: philly, google-2011, google-2019 or gpu-pods, or csv with a column wait_s"
        )
    jobs = read_table(directory, "jobs").select(_RUN_COLUMNS)
    return jobs.join(trace, on="job_id", how="left", maintain_order="left")


def _check_replayed(directory: Path, spec: WorkloadSpec) -> None:
    """Raise unless the run replayed jobs of a file at their own times."""
    if spec.synth is not None:
        reason = "its jobs are drawn (`synth`) and have no real delays"
    elif spec.resample is not None:
        reason = "it draws days of the trace (`resample`), so jobs meet other jobs than in the trace"
    elif spec.stream is not None:
        reason = "its jobs arrive one per second and stay (`stream`)"
    elif spec.load_scale != 1:
        reason = f"its jobs come {spec.load_scale:g} times as fast as in the trace (`load_scale`)"
    else:
        return
    raise InvalidInputError(f"{directory}: {reason}; run the workload as the trace has it")


def _check_same_file(directory: Path, path: str, expected: str | None) -> None:
    try:
        require_file(path)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{directory}: the workload of the run cannot be read: {error}; "
            "if it has moved, name it with --workload"
        ) from error
    if (found := sha256(path)) != expected:
        raise InvalidInputError(
            f"{path}: is not the workload of {directory}: its SHA-256 is {found[:16]}..., "
            f"the run read {str(expected)[:16]}...; name the file that the run read with --workload"
        )
