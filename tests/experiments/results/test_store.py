"""The store of a sweep: complete results only, one sweep at a time, nobody else's files."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ray_sim.experiments.results.result_directories import StoreFullError
from ray_sim.experiments.results.result_files import encode_result
from ray_sim.experiments.results.store import STORE_FORMAT, ConfigurationOutcome, ResultStore
from ray_sim.experiments.sweep_entries import Entry
from ray_sim.model.errors import InvalidInputError
from tests.conftest import REPOSITORY
from tests.results_by_hand import three_jobs

HASH = "ab" * 32
ENTRY = Entry(HASH, "week", "small", "", "fifo", None, "5" * 64)
OTHER = Entry("cd" * 32, "week", "small", "", "sjf", None, "6" * 64)


def _put(store: ResultStore) -> None:
    store.put(HASH, encode_result(three_jobs(), {"content_hash": HASH}))


def _refuse(root: Path, name: str, told: str) -> None:
    """The store does not let a sweep of this name write."""
    with pytest.raises(InvalidInputError, match=told), ResultStore(root).writing(name):
        pass


def test_a_result_is_there_once_it_is_put(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    assert not store.has(HASH)
    _put(store)
    assert store.has(HASH)
    assert [row.summary.completed for row in store.rows([ENTRY, OTHER])] == [2]


def test_a_result_under_anothers_directory_is_not_taken_for_it(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    _put(store)
    assert not store.has(HASH[:16] + "0" * 48)  # the same directory name, another run


def test_a_half_written_result_does_not_count_and_is_cleared(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    _put(store)
    torn = tmp_path / "runs" / f".{HASH[:16]}.{'0' * 32}.tmp"
    store.run_directory(HASH).rename(torn)
    kept = tmp_path / "runs" / ".notes"
    kept.mkdir()
    assert not store.has(HASH)
    store.write_plan("test", [ENTRY])
    with store.writing("test"):
        assert not torn.exists()
        assert kept.exists()


def test_the_plan_and_the_outcomes_come_back(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.write_plan("test", [ENTRY, OTHER])
    _put(store)
    store.write_failures([ConfigurationOutcome(OTHER, "no luck")])
    name, entries = store.read_plan()
    assert (name, entries) == ("test", [ENTRY, OTHER])
    assert store.outcomes(entries) == [ConfigurationOutcome(ENTRY), ConfigurationOutcome(OTHER, "no luck")]


def test_only_one_sweep_writes_at_a_time(tmp_path: Path) -> None:
    with ResultStore(tmp_path / "s").writing("test"):
        ResultStore(tmp_path / "s").write_plan("test", [])
        _refuse(tmp_path / "s", "test", "another sweep is writing here")


def test_a_worker_sees_whether_the_store_is_in_its_reach(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "s")
    assert not store.in_reach()
    with store.writing("test"):
        assert store.in_reach()
        (tmp_path / "s").rename(tmp_path / "elsewhere")  # as on a host that does not have it
        assert not store.in_reach()


def test_the_results_of_another_sweep_are_not_mixed_in(tmp_path: Path) -> None:
    ResultStore(tmp_path).write_plan("first", [])
    _refuse(tmp_path, "second", "holds the results of sweep 'first'")


def test_a_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    _refuse(tmp_path, "test", r"not the results of a sweep: it holds thesis\.tex, which stays")


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"name": "x", "entries": [{"policy": 3}]}'])
def test_a_damaged_plan_is_named(tmp_path: Path, damage: str) -> None:
    (tmp_path / "sweep.json").write_text(damage)
    with pytest.raises(InvalidInputError, match=str(tmp_path)):
        ResultStore(tmp_path).read_plan()


def test_a_store_of_another_format_is_refused(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    store.write_plan("test", [ENTRY])
    plan = json.loads((tmp_path / "sweep.json").read_text())
    assert plan["format"] == STORE_FORMAT
    (tmp_path / "sweep.json").write_text(json.dumps(plan | {"format": STORE_FORMAT + 1}))
    with pytest.raises(
        InvalidInputError, match=r"sweep\.json: written by another version .* choose another -o"
    ):
        store.read_plan()
    _refuse(tmp_path, "test", "another version")
    del plan["format"]
    (tmp_path / "sweep.json").write_text(json.dumps(plan))
    with pytest.raises(InvalidInputError, match=r"sweep\.json: changed since it was written"):
        store.read_plan()


def test_a_sweep_killed_before_its_plan_was_written_can_begin_again(tmp_path: Path) -> None:
    with ResultStore(tmp_path / "s").writing("test"):
        pass
    (tmp_path / "s" / ".sweep.json.tmp").write_text("{")
    with ResultStore(tmp_path / "s").writing("test"):
        ResultStore(tmp_path / "s").write_plan("test", [ENTRY])
    assert ResultStore(tmp_path / "s").read_plan() == ("test", [ENTRY])


def test_a_full_disk_leaves_the_old_result_and_nothing_half_written(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    _put(store)
    largest = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, largest[1]))  # bytes: less than any Parquet file has
    try:
        with pytest.raises(StoreFullError, match="make room"):
            _put(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, largest)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [HASH[:16]]
    assert store.damaged([ENTRY]) == []


HOLD = """
import sys
from pathlib import Path
from ray_sim.experiments.results.store import ResultStore

with ResultStore(Path(sys.argv[1])).writing("test"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_sweep_in_another_process_holds_the_store_until_it_ends_even_by_kill(tmp_path: Path) -> None:
    store = tmp_path / "s"
    command = [sys.executable, "-c", HOLD, str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        _refuse(store, "test", "another sweep is writing here; wait for it")
        holder.kill()
    with ResultStore(store).writing("test"):
        pass
