"""Files of a training that are shown or logged: its curves and its facts."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from ray_sim.experiments.results.result_files import read_checked_json, unchanged_bytes
from ray_sim.model.errors import InvalidInputError

TRAINING = "training.json"
CURVES = "curves.parquet"
FORMAT = 1
"""Version of `TRAINING`."""

_REMEDY = "go on with the training and --resume, which writes it again"


@dataclass(frozen=True, slots=True)
class StoredTraining:
    """A training as its directory has it."""

    facts: Mapping[str, object]
    """Content of `TRAINING`."""
    curves: pl.DataFrame
    """A row for each round."""
    files: tuple[Path, ...]
    """Checkpoints and curves, unchanged since they were written."""


def read_training_directory(directory: Path) -> StoredTraining:
    """Read a training, and check its files against the SHA-256 in its facts."""

    def check_format(content: Mapping[str, object]) -> None:
        if content.get("format") != FORMAT or not isinstance(content.get("files"), dict):
            raise InvalidInputError(f"{directory / TRAINING}: is not of format {FORMAT}; {_REMEDY}")

    facts = read_checked_json(directory / TRAINING, f"{directory}: not a training of ray-sim", check_format)
    digests = facts["files"]
    assert isinstance(digests, dict)
    contents = {name: unchanged_bytes(directory / name, each, _REMEDY) for name, each in digests.items()}
    if CURVES not in contents:
        raise InvalidInputError(f"{directory / TRAINING}: names no {CURVES}; {_REMEDY}")
    curves = pl.read_parquet(io.BytesIO(contents[CURVES]))
    return StoredTraining(facts, curves, tuple(directory / name for name in sorted(contents)))
