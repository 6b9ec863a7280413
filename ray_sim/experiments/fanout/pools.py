"""Pools that open the files of a trace side by side: a process per core here, or the tasks of a Ray cluster.

`ray-sim convert` opens one for tables of many files; the workload has the same bytes as without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from workloads.formats.tables.files import Reading, RecordSource
from workloads.formats.text import TableSource
from workloads.trace_format import Pool


@contextmanager
def opening_pool(address: str | None, announce: Callable[[str], None]) -> Iterator[Pool]:
    """A pool of the cores of this machine, or of a Ray cluster that sees the same files.

    Parameters
    ----------
    address : of the cluster, as for a sweep; None for this machine
    announce : receives a line of text before Ray is started or joined
    """
    if address is None:
        yield _on_cores
        return
    from ray_sim.experiments.fanout.connection import cluster

    with cluster(address, announce):
        yield _on_ray


def _on_cores(function: Callable[..., Any], *arguments: Sequence[object]) -> Iterator[Any]:
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as executor:
        yield from executor.map(function, *arguments)


def _on_ray(open_table: Callable[..., TableSource], *arguments: Sequence[Any]) -> Iterator[TableSource]:
    import ray

    task = ray.remote(_records_there)
    answers = [
        task.options(name=f"open {path.name}").remote(open_table, path, reading)
        for path, reading, _ in zip(*arguments, strict=True)
    ]
    for answer, *each in zip(answers, *arguments, strict=True):
        yield ray.get(answer) or open_table(*each)


def _records_there(
    open_table: Callable[..., TableSource], path: Path, reading: Reading
) -> RecordSource | None:
    """The records of a file with their texts; None for delimited text, which the driver reads itself."""
    with TemporaryDirectory(prefix="ray-sim-") as folder:
        source = open_table(path, reading, Path(folder))
        if not isinstance(source, RecordSource):
            return None
        return replace(source, records=source.records.collect().lazy())
