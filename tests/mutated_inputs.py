"""Mapping files, sweep files and command lines that are right but for a few places, and what becomes of them.

Each ends in a result or in an error of ours: never in a traceback, and never without end.
"""

from __future__ import annotations

import contextlib
import copy
import io
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import typer
import yaml

from ray_sim.cli import main
from ray_sim.cli.app import application
from ray_sim.experiments.sweep_file import read_sweep
from ray_sim.model.errors import RaySimError
from tests.damaged import PIECES
from workloads.convert import convert
from workloads.store import write_workload
from workloads.synthetic.synth import synth
from workloads.trace_format import ConvertOptions

TIMEOUT_S = 120

WORDS = (
    *("las", "fifo", "optimus", "pd_ors", "a_online", "chunk_fifo", "drf", "small", "philly", "resample"),
    *("week.parquet", "small.yaml", "none.yaml", "folder", "zero", "truth", "placement", "rigid", "slot_s"),
    *("submit_s", "duration_s", "num_gpus", "vc", "s", "min", "gpu", "columns", "path", "name", "seeds"),
    *("s3://b/w?secret_key=hidden", "file:///dev/zero", "\x1b[2J", "\ud800", "", " ", "%s%z", "a*b", "*"),
)
"""Texts that mean something somewhere, or nothing anywhere."""

NUMBERS: tuple[object, ...] = (
    *(0, 1, -1, 2, 7, 3600, 1e13, 1e300, -1e300, 1e-300, 2**31, 2**63, 10**30, 0.1),
    *(float("nan"), float("inf")),
)

VALUES: tuple[object, ...] = (*WORDS, *NUMBERS, None, True, False, [], {}, [[]], [{}], [1, 2], {"a": 1})


@dataclass(frozen=True, slots=True)
class Desk:
    """A folder with small right inputs, which is the working directory while cases run."""

    folder: Path

    @classmethod
    def made_in(cls, folder: Path) -> Desk:
        """The folder with its files."""
        write_workload(*synth("philly", 12, seed=1, load_scale=0.05), folder / "week.parquet")
        (folder / "small.yaml").write_text("name: small\nservers:\n  - {name: gpu, count: 2, gpus: 4}\n")
        rows = "".join(f"{i},{i},{60 * i},4,team{i % 2}\n" for i in range(9))
        (folder / "trace.csv").write_text("id,begin,length,gpus,team\n" + rows)
        (folder / "folder").mkdir()
        (folder / "zero").symlink_to("/dev/zero")
        return cls(folder)


MAP = {
    "columns": {"job_id": "id", "submit_s": "begin", "num_gpus": "gpus", "vc": "team"},
    "derived": {
        "duration_s": {
            "column": "length",
            "times": {"by": ["gpus", "team"], "table": {4: {"team0": 1, "team1": 2}}},
        }
    },
    "constants": {"priority": 3, "user": "ann"},
    "units": {"submit_s": "min", "duration_s": "s"},
}  # fmt: skip

RICH_MAP = {
    "read": {"format": "csv", "separator": ",", "quotes": True, "decimal": ".", "comment": "#"},
    "columns": {"job_id": ["id", "key"], "submit_s": "begin", "vc": "part", "user": "letter"},
    "derived": {
        "duration_s": "max(length - 1, begin * 2, 5) / first(gpus, 1) + 60",
        "num_gpus": "sum(gpus, count(id)) - 1 / (gpus - 3)",
        "wait_s": "length - begin",
    },
    "cells": {
        "length": {"as": "duration", "null_values": ["-", "120"]},
        "gpus": {"as": "quantity", "default": 0, "values": {"4": "4k", "*": 1}},
        "team": {"pattern": ["(?P<letter>[a-z])", "(?P<digit>[0-9]$)"]},
        "begin": {"as": "number"},
    },
    "file_name": {"part": "tr*.csv"},
    "where": [
        {"left_out": "late", "column": "begin", "is": [7, "8"]},
        {"left_out": "no_id", "column": "id", "blank": True},
    ],
    "units": {"num_gpus": "milli", "duration_s": "min"},
    "per_task": ["num_gpus"],
    "optional": ["wait_s", "user"],
    "blank_if_missing": ["key"],
    "required": ["vc"],
    "duplicates": "longest",
    "nodes": {"file": "nodes*", "columns": {"name": "host"}},
}  # fmt: skip

SWEEPS: tuple[dict[str, object], ...] = (
    {
        "name": "one",
        "workloads": ["week.parquet", {"path": "week.parquet", "resample": "days", "load_scale": [1, 2]}],
        "clusters": ["small.yaml"],
        "policies": ["fifo", {"name": "las", "params": {"knob": [0, 2], "limits_gpu_s": [[60, 3600]]}}],
        "world": {"restart_cost_s": [0, 30]},
        "trim": {"warm_up_s": 1},
        "seeds": {"count": 2},
    },
    {
        "name": "two",
        "workloads": [{"synth": {"profile": "pd_ors", "jobs": 6, "horizon_s": 72000}}],
        "clusters": ["edge-cloud"],
        "policies": [{"name": "pd_ors", "params": {"quanta": 40}}, "drf"],
        "world": {"truth": "pd_ors", "slot_s": 3600, "horizon_s": 72000},
        "partition": "none",
        "seeds": [1, 3],
    },
)


def mutated(rng: np.random.Generator, value: object) -> object:
    """The value with one place in it replaced, left out, doubled or given another name."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        way = rng.random()
        if way < 0.6:
            return {**value, key: mutated(rng, value[key])}
        if way < 0.7:
            return {name: entry for name, entry in value.items() if name != key}
        other = chosen(rng, WORDS) if way < 0.85 else chosen(rng, NUMBERS)
        return {(other if name == key else name): entry for name, entry in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        if rng.random() < 0.2:
            return [*value, value[place]]
        return [*value[:place], mutated(rng, value[place]), *value[place + 1 :]]
    return copy.deepcopy(chosen(rng, VALUES))


def chosen(rng: np.random.Generator, among: Sequence[Any]) -> Any:
    """One of them."""
    return among[int(rng.integers(len(among)))]


def mutated_yaml(rng: np.random.Generator, content: object) -> bytes:
    """A right document as YAML, with one to three places changed; in one of five cases bytes of the text."""
    for _ in range(int(rng.integers(1, 4))):
        content = mutated(rng, content)
    # A lone surrogate becomes bytes that are no UTF-8.
    text = yaml.dump(content, allow_unicode=True, sort_keys=False).encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text) + 1))
            text = text[:at] + chosen(rng, PIECES) + text[at + int(rng.integers(6)) :]
    return text


def maps(rng: np.random.Generator, desk: Desk) -> Callable[[], object]:
    """A conversion with a mutated mapping file."""
    path, out = desk.folder / "map.yaml", desk.folder / "out.parquet"
    path.write_bytes(mutated_yaml(rng, chosen(rng, (MAP, RICH_MAP))))
    return lambda: convert("csv", [desk.folder / "trace.csv"], out, options=ConvertOptions(mapping=path))


def sweeps(rng: np.random.Generator, desk: Desk) -> Callable[[], object]:
    """A mutated sweep file, read and checked and not run."""
    path = desk.folder / "sweep.yaml"
    path.write_bytes(mutated_yaml(rng, chosen(rng, SWEEPS)))
    return lambda: read_sweep(path)


COMMANDS = ("convert", "synth", "enrich", "failures", "info", "policies", "run", "report", "diff", "compare")
"""Those that end soon on small inputs; the others start Ray or MLflow, or measure."""

_FOREIGN = {"--fleet", "--address", "--help", "--list"}
"""Options that start a Ray, or end the command at once."""


def commands(rng: np.random.Generator, desk: Desk) -> Callable[[], object]:
    """A command line of options that the command has, with values that it may not."""
    group: Any = typer.main.get_command(application())
    name = str(chosen(rng, COMMANDS))
    line = [name]
    workload, out = "week.parquet", "out.parquet"
    right = {"cluster": "small.yaml", "workload": workload, "source": workload, "out": out}
    for parameter in group.commands[name].params:
        needed = parameter.required or rng.random() < 0.25
        if not needed or _FOREIGN & set(parameter.opts):
            continue
        values = [
            right[str(parameter.name)]
            if str(parameter.name) in right and rng.random() < 0.7
            else _argument(rng)
            for _ in range(parameter.nargs if parameter.nargs > 0 else 1)
        ]
        if parameter.param_type_name == "option":
            line += [parameter.opts[-1], *([] if parameter.is_flag else values)]
        else:
            line += values
    return lambda: _quiet(line)


def _argument(rng: np.random.Generator) -> str:
    if rng.random() < 0.2:
        return f"{chosen(rng, WORDS)}={chosen(rng, VALUES)}"
    text = str(chosen(rng, VALUES))
    return text.encode("utf-8", "replace").decode()


def _quiet(line: list[str]) -> int:
    """Run a command; what it prints is looked at and dropped."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(line)
    assert code in (0, 1, 2), f"{line}: exit code {code}"
    assert "hidden" not in said.getvalue() or any("hidden" in part and "://" not in part for part in line)
    if code:
        raise RaySimError(said.getvalue())
    return code


KINDS: dict[str, Callable[[np.random.Generator, Desk], Callable[[], object]]] = {
    "maps": maps,
    "sweeps": sweeps,
    "commands": commands,
}


def run_cases(kind: str, count: int, seed: int, folder: Path) -> Iterator[tuple[str, str | None]]:
    """Each case: `accepted`, `refused`, or `failed` with its traceback."""
    desk = Desk.made_in(folder)
    signal.signal(signal.SIGALRM, _too_late)
    with contextlib.chdir(folder):
        for case in range(count):
            run = KINDS[kind](np.random.default_rng([seed, case]), desk)
            signal.alarm(TIMEOUT_S)
            try:
                run()
            except RaySimError:
                yield "refused", None
            except BaseException:  # also what Rust panics with
                yield "failed", f"case {case} of seed {seed}\n{traceback.format_exc()}"
            else:
                yield "accepted", None
            finally:
                signal.alarm(0)


def totals_of(kind: str, count: int, seed: int, folder: Path) -> tuple[dict[str, float], list[str]]:
    """How many cases ended how and in how many seconds, and the tracebacks of those that failed."""
    began, totals, tracebacks = time.perf_counter(), Counter({"failed": 0}), []
    for ended, text in run_cases(kind, count, seed, folder):
        totals[ended] += 1
        tracebacks += [] if text is None else [text]
    return {**totals, "seconds": round(time.perf_counter() - began, 1)}, tracebacks


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no end after {TIMEOUT_S} s")
