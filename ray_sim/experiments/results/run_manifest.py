"""Fields of a run's manifest that commands show, checked by type."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ray_sim.experiments.results.result_files import MANIFEST, read_manifest
from ray_sim.experiments.scenario import Value, WorkloadSpec
from ray_sim.experiments.sweep_entries import PolicySpec
from ray_sim.model.errors import InvalidInputError


class RunInputs(BaseModel):
    """Workload and cluster of a run, with the SHA-256 of each that there is."""

    workload: WorkloadSpec
    cluster: str
    workload_sha256: str | None = None
    training_sha256: str | None = None
    announcement_sha256: str | None = None
    cluster_sha256: str


class RunManifest(BaseModel):
    """Origin of a run: inputs, policy, world, seed, versions and hashes."""

    model_config = ConfigDict(strict=True)

    content_hash: str
    inputs: RunInputs
    policy: str
    parameters: dict[str, Value]
    world: dict[str, Value]
    partition: str
    seed: int | None
    versions: dict[str, str]
    files: dict[str, str]

    @property
    def policy_label(self) -> str:
        """Policy with its parameters, as in tables."""
        return PolicySpec(name=self.policy, params=self.parameters).label


def read_run_manifest(directory: Path) -> RunManifest:
    """Read manifest.json of a run, after checking it against its own SHA-256.

    Raises
    ------
    InvalidInputError : the file is missing, has changed since it was written, or lacks a field
    """
    try:
        return RunManifest.model_validate(read_manifest(directory))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidInputError(f"{directory / MANIFEST}: damaged: {place}: {first['msg']}") from error
