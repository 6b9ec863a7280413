"""Reader of upload delays and processing times of chunks by pair of model and server class: a CSV file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError

from ray_sim.experiments.inputs.cluster_file import csv_rows, raise_if_any
from ray_sim.model.cluster import ChunkDelay
from ray_sim.model.parameters import MAX_FACTOR
from ray_sim.model.units import MAX_TIME_S
from workloads.documents import Entry, dotted_problems
from workloads.sources import Source


class _Line(Entry):
    model: str = ""
    server_class: str = ""
    upload_s: Annotated[float, Field(ge=0, le=MAX_TIME_S)] | None = None
    processing_factor: Annotated[float, Field(ge=1 / MAX_FACTOR, le=MAX_FACTOR)] = 1.0


def read_delays(path: Source) -> tuple[ChunkDelay, ...]:
    """Read a CSV file, by path or URL, whose columns are the fields of `ChunkDelay`.

    An empty or missing ``upload_s`` is the workload's own, such a ``processing_factor`` 1.

    Raises
    ------
    InvalidClusterError : the file cannot be read or breaks these rules; problems are listed by line
    """
    found: dict[tuple[str, str], ChunkDelay] = {}
    problems: list[str] = []
    for where, cells in csv_rows(path, _Line, ("model", "server_class"), problems):
        try:
            delay = ChunkDelay(**_Line.model_validate_strings(cells).model_dump())
        except ValidationError as failure:
            problems += dotted_problems(failure, _Line.model_fields, where)
            continue
        if delay[:2] in found:
            problems.append(f"{where}the pair '{delay.model}', '{delay.server_class}' has a line already")
        found[delay[:2]] = delay
    raise_if_any(problems, path)
    return tuple(found[pair] for pair in sorted(found))
