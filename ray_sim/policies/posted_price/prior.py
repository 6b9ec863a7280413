"""Prior of the expected menu: statements of work of another workload, in rounds from its first birth on."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.outlook import parse_outlooks
from ray_sim.model.units import seconds_to_us
from ray_sim.model.value_function import parse_values
from ray_sim.policy_api import Statements, statements_in_rounds

_REPORTED = ("reported_gpus", "reported_value", "reported_outlook")


def read_prior(path: Path, slot_us: int, signal: str) -> Statements:
    """Statements of a workload file, as they are reported there.

    Parameters
    ----------
    slot_us, signal : of the world

    Raises
    ------
    InvalidInputError : the file cannot be read, or has no statements of work
    """
    source = f"prior={path}"
    try:
        frame = pl.read_parquet(path)
        absent = [
            name for name in _REPORTED if name not in frame.columns
        ]  # left out where nothing is reported
        frame = frame.with_columns(pl.lit(None).alias(name) for name in absent)
        told = frame.select(
            "birth_s",
            pl.col("reported_gpus").fill_null(pl.col("num_gpus")).cast(pl.Int64).alias("gpus"),
            pl.col("reported_value").fill_null(pl.col("value")).alias("value"),
            pl.col("reported_outlook").fill_null(pl.col("outlook")).alias("outlook"),
        ).sort("birth_s", maintain_order=True)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InvalidInputError(f"{source}: is no workload with statements of work: {error}") from error
    empty = told.null_count().sum_horizontal().item()
    if empty or told.is_empty():
        raise InvalidInputError(
            f"{source}: every job needs birth_s, value, outlook and num_gpus, and {empty} of these are null "
            f"in {len(told)} jobs: draw them by `ray-sim enrich --profile announced`"
        )
    try:
        values, outlooks = parse_values(told["value"]), parse_outlooks(told["outlook"])
    except ValueError as error:
        raise InvalidInputError(f"{source}: {error}") from error
    birth_us = seconds_to_us(told["birth_s"].to_numpy())
    return statements_in_rounds(birth_us, told["gpus"].to_numpy(), values, outlooks, slot_us, signal)
