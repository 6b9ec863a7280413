"""Fingerprint of all that runs compute: every policy in small worlds of the kinds of jobs that it takes.

A change of structure must leave it as it is. `python -m tests.fingerprint` compares with the golden file,
`--renew` writes that file anew after a change of results that is meant, and `--bytes FILE` writes SHA-256
digests of the exact bytes, which are comparable on one machine only:

    python -m tests.fingerprint --bytes before.json      # and after the change: --bytes after.json; cmp
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ray_sim.contract.announced_worlds import busy_announced, misreporting
from ray_sim.contract.chunked_worlds import busy_chunks, failing_chunks
from ray_sim.contract.elastic_worlds import busy_bounded, busy_elastic, failing_bounded, failing_elastic
from ray_sim.contract.measured_worlds import busy_measured, failing_measured
from ray_sim.contract.rigid_worlds import busy_world, failing_world, with_types
from ray_sim.engine.compiled import why_general
from ray_sim.engine.contract import Policy
from ray_sim.engine.kinds.announced.jobs import ANNOUNCED
from ray_sim.engine.kinds.chunked.jobs import CHUNKED
from ray_sim.engine.kinds.elastic.jobs import ELASTIC
from ray_sim.engine.kinds.measured.jobs import MEASURED
from ray_sim.engine.run import run_world
from ray_sim.engine.states import State
from ray_sim.engine.world import World
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.result import RunResult
from ray_sim.policies.registry import describe_policy, policy_infos
from ray_sim.policy_api import GPU_TYPE
from tests.required import new_policy
from tests.worlds import fingerprint

GOLDEN = Path(__file__).parent / "golden" / "fingerprint.json"
TOLERANCE = 1e-9
"""Relative; bytes of floats are promised within one family of CPUs only."""

TABLES = ("jobs", "events", "timeline")
PARTS = (*TABLES, "summary")

STOP_AFTER = 25
"""Decisions before a run is stopped, saved and restored."""
SITES = 3

NewWorld = Callable[[], World]

WORLDS: Mapping[str, Mapping[str, NewWorld]] = {
    "rigid": {
        "crowded": partial(busy_world, 30, partition="vc"),
        "failing": partial(failing_world, 30),
    },
    "elastic": {
        "crowded": partial(busy_elastic, 20, partition="vc"),
        "failing": partial(failing_elastic, 20),
        "stragglers": partial(failing_elastic, 20, 1),
        "pd_ors": partial(busy_elastic, 20, 2),
    },
    "bounded": {
        "crowded": partial(busy_bounded, 20),
        "failing": partial(failing_bounded, 20),
        "stragglers": partial(failing_bounded, 20, 1),
        "pd_ors": partial(busy_bounded, 20, 2, partition="vc"),
        "typed": lambda: with_types(busy_bounded(20)),
    },
    "chunked": {
        "crowded": partial(busy_chunks, 30, partition="vc"),
        "failing": partial(failing_chunks, 30),
        "fractional": partial(failing_chunks, 30, 1),
        "memory": partial(busy_chunks, 30, limited=True),
    },
    "measured": {
        "crowded": partial(busy_measured, 30),
        "failing": partial(failing_measured, 30),
    },
    "announced": {
        "crowded": partial(busy_announced, 30),
        "misreports": misreporting,
        "full": partial(busy_announced, 30, 2),
    },
}

OTHER_NUMBERS: Mapping[str, tuple[Mapping[str, object], ...]] = {
    "las": ({"limits_gpu_s": [60.0, 600.0]}, {"knob": 2.0}),
    "gittins": ({"limits_gpu_s": [60.0, 600.0]},),
    "batch": (
        {"order": "priority", "preempt": "lower_or_newer", "default_limit_s": 300.0, "reserve": 8},
        {"order": "priority", "preempt": "lower", "default_limit_s": 300.0, "grace_s": 60.0},
        {"placement": "pooled", "default_limit_s": 300.0},
    ),
    "a_online": (
        {"deadlines": "danger", "slack": 4.0, "preempt": True},
        {"exact_q": True},
        {"uploads": "ignored"},
    ),
    "drf": ({"most_workers": 2},),
    "tetris": ({"work_weight": 0.2},),
    "dorm": ({"theta1": 0.3, "theta2": 0.5},),
    "optimus": (
        {"least_stay_s": 120.0},
        {"speed_error": 0.2, "convergence_error": 0.2},
        {"young_factor": 0.5},
        {"least_stay_s": 120.0, "least_stay_by": "length"},
    ),
    "pd_ors": (
        {"price_span": 10.0},
        {"price_span": 10.0, "span_above_load": 1.0},
        {"quanta": 7},
        {"tries": 3},
    ),
    "oasis": ({"price_span": 10.0}, {"worker_share": 0.3}),
    "max_min": ({"fill": True, "reset_s": 0.0}, {"aware": False, "fill": True}),
    "hierarchical": ({"fifo": "a"},),
    "allox": ({"alpha": 0.5},),
    "posted_price": ({"eps": 0.0}, {"mu": 0.1}),
}
"""Settings of numbers that a run depends on; choices and switches are found by themselves."""

NEED_MORE = {
    *(("pd_ors", "constants", "declared"), ("oasis", "constants", "declared")),
}
"""Choices that want other parameters beside them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy with parameters in a world."""

    policy: str
    params: Mapping[str, object]
    kind: str
    world: str

    @property
    def name(self) -> str:
        """For the golden file."""
        settings = ",".join(f"{key}={value}" for key, value in self.params.items())
        return f"{self.policy}({settings}) {self.kind}/{self.world}"

    def new_policy(self) -> Policy:
        """An instance for one run."""
        return new_policy(self.policy, self.params)


@cache
def world_of(kind: str, name: str) -> World:
    """Made once: no run changes a world."""
    return WORLDS[kind][name]()


def cases() -> Iterator[Case]:
    """Every policy in every world of its kinds, and with every other choice in one of them."""
    for info in policy_infos():
        kinds = _kinds(new_policy(info.name))
        for kind in kinds:
            yield from (Case(info.name, {}, kind, world) for world in WORLDS[kind])
        for params in _settings(info.name):
            kind = "measured" if GPU_TYPE.name in params else kinds[-1]
            yield Case(info.name, params, kind, list(WORLDS[kind])[1])


def _kinds(policy: Policy) -> tuple[str, ...]:
    if policy.schedules in (CHUNKED, ANNOUNCED, MEASURED):
        return (policy.schedules,)
    if policy.bounded:
        return ("bounded",)
    return ("elastic", "bounded") if policy.schedules == ELASTIC else ("bounded", "rigid")


def _settings(policy: str) -> Iterator[Mapping[str, object]]:
    for parameter in describe_policy(policy).parameters:
        choices = (False, True) if parameter.kind == "bool" else parameter.choices
        for choice in choices:
            if choice != parameter.default and (policy, parameter.name, choice) not in NEED_MORE:
                yield {parameter.name: choice}
    yield from OTHER_NUMBERS.get(policy, ())


class _StopOnce:
    """Stops a run at a decision, keeps what it was, and lets it go on from there."""

    def __init__(self) -> None:
        self._decisions = 0
        self._saved: State | None = None

    def load(self) -> State | None:
        return self._saved

    def due(self) -> bool:
        self._decisions += 1
        return self._decisions == STOP_AFTER

    def save(self, state: State) -> None:
        self._saved = state

    def stopping(self) -> bool:
        return self._decisions == STOP_AFTER


def runs(case: Case) -> Iterator[tuple[str, RunResult]]:
    """The same run in every way there is: its results are to be the same bytes."""
    world, new = world_of(case.kind, case.world), case.new_policy
    yield "general loop", run_world(world, new(), loop="general")
    if case.params:
        return
    if why_general(world, new()) is None:
        yield "compiled loop", run_world(world, new())
    yield f"{SITES} sites", run_world(world, new(), sites=SITES, loop="general")
    keeper = _StopOnce()
    try:
        yield "not stopped", run_world(world, new(), sites=SITES, loop="general", keeper=keeper)
    except RunStoppedError:
        yield "restored", run_world(world, new(), sites=SITES, loop="general", keeper=keeper)


Record = dict[str, Any]


def record(result: RunResult) -> Record:
    """Whole numbers, names and nulls exactly, as a digest of each part; floats as numbers.

    A new column changes the digest of its table only, in the worlds of its kind of job. Figures of the
    summary that a run does not have are left out, so that a new one changes no other run. A column of floats
    is summed with weights between 1 and 2 that differ from row to row.
    """
    digests = {part: hashlib.sha256() for part in PARTS}
    floats: dict[str, float] = {}
    for table in TABLES:
        exact = digests[table]
        frame: pl.DataFrame = getattr(result, table)
        for column in frame.get_columns():
            exact.update(f"{table} {column.name} {column.dtype} {column.is_null().to_list()}\n".encode())
            if column.dtype.is_float():
                values = column.fill_null(0.0).to_numpy()
                weights = 1 + np.modf(np.arange(1, len(values) + 1) * math.sqrt(2))[0]
                floats[f"{table}.{column.name}"] = float(values @ weights)
            else:
                exact.update(json.dumps(column.cast(pl.String).to_list()).encode())
    for key, value in _leaves("summary", result.summary.to_dict()):
        if isinstance(value, float):
            floats[key] = value
        elif value is not None:
            digests["summary"].update(f"{key} {value!r}\n".encode())
    return {"exact": {part: each.hexdigest()[:16] for part, each in digests.items()}, "floats": floats}


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(f"{name}.{key}", inner)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _leaves(f"{name}.{i}", inner)
    else:
        yield name, value


def differences(expected: Record, found: Record) -> list[str]:
    """What of a run is not as recorded, in words."""
    wrong = [
        f"{part}: whole numbers, names or nulls"
        for part in PARTS
        if expected["exact"][part] != found["exact"][part]
    ]
    for key in sorted(expected["floats"].keys() | found["floats"].keys()):
        one, other = expected["floats"].get(key), found["floats"].get(key)
        same = None not in (one, other) and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        if not same:
            wrong.append(f"{key}: {one} recorded, {other} found")
    return wrong


def digest(result: RunResult) -> str:
    """SHA-256 of the exact bytes of a result."""
    return hashlib.sha256(json.dumps(fingerprint(result), sort_keys=True).encode()).hexdigest()


def main() -> int:
    """Compare with the golden file, renew it, or write digests of bytes."""
    parser = argparse.ArgumentParser(prog="python -m tests.fingerprint", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--renew", action="store_true", help="write the golden file anew")
    parser.add_argument("--bytes", type=Path, metavar="FILE", help="write digests of the exact bytes")
    chosen = parser.parse_args()
    golden: dict[str, Record] = {} if chosen.renew else json.loads(GOLDEN.read_text())
    found: dict[str, Record] = {}
    digests: dict[str, str] = {}
    wrong = 0
    for case in cases():
        for way, result in runs(case):
            digests[f"{case.name}, {way}"] = digest(result)
            found.setdefault(case.name, record(result))
        faults = [] if chosen.renew else differences(golden[case.name], found[case.name])
        if len({value for key, value in digests.items() if key.startswith(f"{case.name}, ")}) > 1:
            faults.append("the ways of running it differ in their bytes")
        wrong += bool(faults)
        for fault in faults:
            sys.stdout.write(f"{case.name}: {fault}\n")
    sys.stdout.write(f"{len(found)} cases, {len(digests)} runs, {wrong} differ\n")
    if chosen.renew:
        rows = (f"{json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
        GOLDEN.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    if chosen.bytes is not None:
        chosen.bytes.write_text(json.dumps(digests, indent=0) + "\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
