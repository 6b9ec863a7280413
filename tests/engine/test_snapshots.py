"""A snapshot whose values no run leads to never crashes a run: it is refused, or the run ends."""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ray_sim.engine.run import run_world
from ray_sim.engine.snapshots import UnfitSnapshotError
from ray_sim.engine.states import State
from ray_sim.model.errors import RunStoppedError
from ray_sim.model.result import RunResult
from ray_sim.model.streams import Streams
from ray_sim.policies.registry import create_policy
from tests.fingerprint import record, world_of
from tests.proofs import instances, proofs

REPOSITORY = Path(__file__).parents[2]


class Setting(NamedTuple):
    """A run that is stopped after some decisions."""

    kind: str
    world: str
    policy: str
    params: Mapping[str, object]
    sites: int
    decisions: int


SETTINGS = (
    Setting("rigid", "failing", "fifo", {}, 1, 40),
    Setting("rigid", "failing", "fifo", {}, 2, 40),
    Setting("rigid", "failing", "las", {"limits_gpu_s": [60.0, 600.0], "knob": 2.0}, 1, 40),
    Setting("elastic", "stragglers", "optimus", {}, 1, 8),
    Setting("bounded", "failing", "pd_ors", {"unfinished": "extend"}, 1, 6),
    Setting("bounded", "failing", "oasis", {}, 1, 6),
    Setting("chunked", "failing", "a_online", {"deadlines": "danger", "slack": 4.0}, 2, 40),
    Setting("chunked", "failing", "chunk_las", {}, 1, 40),
    Setting("announced", "crowded", "posted_price", {"mu": 0.1}, 1, 20),
    Setting("announced", "misreports", "posted_price", {"failure_oracle": "exact"}, 1, 20),
    Setting("announced", "crowded", "value_density", {}, 1, 20),
)


class Keeper:
    """Stops a run after a number of decisions, or lets it go on from a state."""

    def __init__(self, stop_after: int = 0, state: State | None = None) -> None:
        self._stop_after, self.state, self._decisions = stop_after, state, 0

    def load(self) -> State | None:
        return self.state

    def due(self) -> bool:
        self._decisions += 1
        return self.stopping()

    def save(self, state: State) -> None:
        self.state = state

    def stopping(self) -> bool:
        return self._decisions == self._stop_after


def run(of: Setting, keeper: Keeper) -> RunResult:
    world, policy = world_of(of.kind, of.world), create_policy(of.policy, of.params)
    return run_world(world, policy, sites=of.sites, loop="general", keeper=keeper)


def sound_state(of: Setting) -> State:
    keeper = Keeper(of.decisions)
    with suppress(RunStoppedError):
        run(of, keeper)
    assert keeper.state is not None, f"{of} ends before"
    return keeper.state


class Case(NamedTuple):
    """A change of one array of a state."""

    setting: int
    array: str
    change: str
    everywhere: bool


CHANGES = ("huge", "negative", "shifted")


def changed(array: np.ndarray, case: Case, draw: np.random.Generator) -> np.ndarray:
    """The array with other values, everywhere or in three places, as far as its type has them."""
    wide, largest = array.astype(np.int64), np.iinfo(array.dtype).max
    wrong = {"huge": np.full_like(wide, 2**62), "negative": -1 - np.abs(wide), "shifted": wide + 10**6}
    where = np.arange(array.size) if case.everywhere else draw.integers(0, array.size, 3)
    new = array.copy()
    new.flat[where] = np.minimum(wrong[case.change], largest).astype(array.dtype).flat[where]
    return new


def cases() -> Iterator[tuple[Case, State]]:
    for number in range(0, len(SETTINGS), 5 if proofs() == "few" else 1):
        setting = SETTINGS[number]
        state = sound_state(setting)
        run(setting, Keeper(state=state))
        for name, array in state.items():
            if array.dtype.kind in "iu" and array.size:
                for change in CHANGES:
                    yield from ((Case(number, name, change, every), state) for every in (False, True))


def try_cases(count: int) -> None:
    """The child: try some of the cases, drawn, or all, and print what becomes of them."""
    found = list(cases())
    chosen = range(len(found))
    if count < len(found):
        chosen = np.sort(Streams(0).generator("cases").choice(len(found), count, replace=False)).tolist()
    refused = 0
    for i in chosen:
        case, state = found[i]
        faulthandler.dump_traceback_later(120, exit=True)
        sys.stdout.write(f"{SETTINGS[case.setting]} {case}\n")
        sys.stdout.flush()
        new = changed(state[case.array], case, Streams(0).generator("places", i))
        try:
            record(run(SETTINGS[case.setting], Keeper(state={**state, case.array: new})))
        except UnfitSnapshotError:
            refused += 1
    sys.stdout.write(f"{len(chosen)} cases, {refused} refused, {len(chosen) - refused} ran to their end\n")


def test_no_snapshot_with_wrong_numbers_crashes_a_run() -> None:
    """Not its process either: the last case that a child prints is the one in which it died."""
    path = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH")]))
    child = subprocess.run(
        [sys.executable, "-c", f"from {__name__} import try_cases; try_cases({instances(10**6, 100)})"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, "\n".join([*child.stdout.splitlines()[-1:], child.stderr])
    assert child.stdout.endswith("ran to their end\n")
