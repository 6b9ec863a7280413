"""A single long run that is stopped or killed, and goes on from its snapshot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ray_sim.cli import main
from ray_sim.engine.snapshots import UnfitSnapshotError
from ray_sim.engine.states import State
from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.results import snapshot_file
from ray_sim.experiments.results.snapshot_file import SnapshotFile
from ray_sim.experiments.run_identity import HashedInputs, RunIdentity
from ray_sim.experiments.scenario import Scenario
from ray_sim.model.errors import InvalidInputError, RaySimError, RunStoppedError
from ray_sim.model.streams import Streams
from tests.command_line import RAY_SIM, environment
from tests.patience import until
from tests.proofs import instances
from workloads.store import write_workload
from workloads.synthetic.synth import synth

FILES = ("jobs.parquet", "events.parquet", "timeline.parquet", "summary.json")

SLOWLY = '''
import time
from pathlib import Path

from ray_sim.policies.fifo import Fifo


class Slowly(Fifo):
    """FIFO that says when it has come half-way, and waits there until it may go on."""

    name = "slowly"

    def order(self, world):
        return None

    def decide(self, view):
        if view.arrivals > 50 and not Path("go").exists():
            Path("waiting").touch()
            time.sleep(0.01)
        return super().decide(view)
'''


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_workload(*synth("philly", 100, 1), tmp_path / "week.parquet")
    (tmp_path / "slow.py").write_text(SLOWLY)
    return tmp_path


def command(*options: str) -> list[str]:
    run = ["run", "--workload", "week.parquet", "--cluster", "toy", "--policy", "slow:Slowly"]
    return [*run, "--snapshot-s", "0", "-o", "out", *options]


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*RAY_SIM, *command(*options)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def bytes_of(directory: str) -> dict[str, bytes]:
    return {name: Path(directory, name).read_bytes() for name in FILES}


ACTORS = ("--fleet", "actors", "--sites", "2")


@pytest.mark.slow
@pytest.mark.usefixtures("desk")
@pytest.mark.parametrize(
    ("number", "fleet"),
    [
        pytest.param(signal.SIGINT, (), marks=pytest.mark.long),
        (signal.SIGKILL, ()),
        pytest.param(signal.SIGKILL, ACTORS, marks=[pytest.mark.ray, pytest.mark.long]),
    ],
)
def test_a_run_that_was_stopped_or_killed_goes_on_with_the_same_bytes(
    number: signal.Signals, fleet: tuple[str, ...]
) -> None:
    snapshot = Path("out.snapshot.npz")
    process = start(*fleet)
    until(lambda: Path("waiting").exists() and snapshot.exists(), "the run is half-way")
    os.kill(process.pid, number)
    _, errors = process.communicate()
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    if number == signal.SIGINT:
        assert "of 100 jobs ended; go on with the same command and --resume" in errors
        assert "Traceback" not in errors
    assert snapshot.exists()
    assert not Path("out").exists()
    Path("go").touch()
    resumed = start(*fleet, "--resume", "--json")
    _, errors = resumed.communicate()
    assert resumed.returncode == 0, errors
    assert not snapshot.exists()
    decisions = json.loads(Path("out/timing.json").read_text())["decisions"]
    after = bytes_of("out")
    assert main(["run", *command()[1:-2], "-o", "whole"]) == 0
    assert after == bytes_of("whole")
    assert decisions < json.loads(Path("whole/timing.json").read_text())["decisions"]


def identity(**facts: object) -> RunIdentity:
    scenario = Scenario.model_validate({"workload": "week.parquet", "cluster": "toy"})
    return RunIdentity(scenario, facts, seed_free=True, policy_params={})


def test_a_snapshot_of_another_scenario_is_refused_and_one_of_other_code_left_aside(desk: Path) -> None:
    mine, edited = identity(seed=1, code_sha256="a"), identity(seed=1, code_sha256="b")
    said: list[str] = []
    SnapshotFile(desk / "out", mine, every_s=0).save({"x": np.arange(3)})
    own = SnapshotFile(desk / "out", mine, every_s=0, resume=True, say=said.append).load()
    assert own is not None
    assert own["x"].tolist() == [0, 1, 2]
    assert said == []
    assert SnapshotFile(desk / "out", mine, every_s=0).load() is None
    assert SnapshotFile(desk / "out", edited, every_s=0, resume=True, say=said.append).load() is None
    assert "is of other code; the run starts from the beginning" in said[0]
    with pytest.raises(InvalidInputError, match=r"out\.snapshot\.npz: is of another scenario"):
        SnapshotFile(desk / "out", identity(seed=2, code_sha256="a"), every_s=0, resume=True).load()


def test_a_snapshot_of_other_versions_is_used_and_said(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with monkeypatch.context() as then:
        then.setattr(snapshot_file, "versions", lambda: {"numpy": "2.0"})
        SnapshotFile(desk / "out", identity(), every_s=0).save({"x": np.arange(3)})
    assert SnapshotFile(desk / "out", identity(), every_s=0, resume=True, say=said.append).load() is not None
    assert "is of other versions: numpy 2.0; now numba " in said[0]


def test_no_changed_byte_of_a_snapshot_is_believed(desk: Path) -> None:
    SnapshotFile(desk / "out", identity(), every_s=0).save({"x": np.arange(3), "y": np.array([0.5])})
    file = SnapshotFile(desk / "out", identity(), every_s=0, resume=True)
    sound = file.path.read_bytes()
    bits = Streams(0).generator("snapshot").choice(8 * len(sound), size=instances(1000), replace=False)
    for bit in bits:
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << bit % 8
        file.path.write_bytes(damaged)
        try:
            state = file.load()
        except InvalidInputError:
            continue
        assert state is not None
        assert {name: array.tolist() for name, array in state.items()} == {"x": [0, 1, 2], "y": [0.5]}


@pytest.mark.slow
def test_a_damaged_snapshot_is_refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "out.snapshot.npz").write_bytes(b"PK not really")
    (desk / "go").touch()
    assert main(command("--resume")) == 2
    assert "out.snapshot.npz: is not a snapshot, or damaged; leave out --resume" in capsys.readouterr().err
    assert main(command()) == 0


@pytest.mark.slow
def test_a_snapshot_with_a_right_seal_that_no_run_has_kept_is_refused(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An array is missing, of another type or shape, or holds what no run leads to."""
    (desk / "go").touch()
    asked = iter([False] * 60)
    of_toy = {"workload": "week.parquet", "cluster": "toy", "policy": "slow:Slowly"}
    scenario = Scenario.model_validate(of_toy)
    of_run = HashedInputs().identify(scenario)
    keeper = SnapshotFile(desk / "out", of_run, every_s=0, stopping=lambda: next(asked, True))
    with pytest.raises(RunStoppedError):
        prepare(scenario).run(keeper=keeper)
    sound = SnapshotFile(desk / "out", of_run, every_s=0, resume=True).load()
    assert sound is not None

    def take_up(state: State) -> None:
        keeper.save(state)
        prepare(scenario).run(keeper=SnapshotFile(desk / "out", of_run, every_s=9, resume=True))

    some = [name for name in sound if not name.startswith("policy.")][::10]
    unfit = [{key: array for key, array in sound.items() if key != name} for name in some]
    unfit += [{**sound, name: np.array(["text"])} for name in some]
    unfit.append({**sound, "reason_texts": np.array([255], np.uint8), "reasons": np.array([[0, 1]])})
    for state in unfit:
        with pytest.raises(UnfitSnapshotError, match=r"does not fit this run \("):
            take_up(state)
    doubled = [{**sound, name: np.append(sound[name], sound[name])} for name in some]
    for state in [*doubled, {**sound, "scalars": np.full_like(sound["scalars"], 2**62)}]:
        with suppress(RaySimError):  # whatever it leads to, no other error
            take_up(state)
    capsys.readouterr()
    keeper.save(unfit[0])
    assert main(command("--resume")) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("error: ")
    assert "out.snapshot.npz: does not fit this run (" in told
    assert told.endswith("leave out --resume to start from the beginning")
