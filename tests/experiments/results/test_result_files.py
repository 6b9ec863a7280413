"""Result files of a run: the same tables for the same run, written as a whole, checked when read."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

from ray_sim.experiments.results.result_directories import (
    prepare_target,
    remove_leftovers,
    replace_files,
    write_files,
)
from ray_sim.experiments.results.result_files import check_result, encode_result, read_manifest, read_result
from ray_sim.model.errors import InvalidInputError
from ray_sim.model.figures import GangFigures
from tests.results_by_hand import three_jobs

MANIFEST = {"content_hash": "ab" * 32, "seed": 0}


def test_a_written_run_reads_back_equal(tmp_path: Path) -> None:
    result = three_jobs()
    write_files(tmp_path / "run", encode_result(result, MANIFEST))
    back = read_result(tmp_path / "run")
    for name in ("jobs", "events", "timeline"):
        assert_frame_equal(getattr(back, name), getattr(result, name))
    assert back.summary == replace(result.summary, figures=GangFigures())  # a run of gangs without restarts
    assert (back.loop, back.loop_reason) == ("compiled", None)


def test_a_result_of_format_6_reads_with_the_columns_that_it_had_not_as_nulls(tmp_path: Path) -> None:
    result = three_jobs()
    earlier = replace(result, jobs=result.jobs.drop("user", "rho"))
    write_files(tmp_path / "earlier", encode_result(earlier, MANIFEST | {"format": 6}))
    assert read_manifest(tmp_path / "earlier")["format"] == 6
    assert_frame_equal(read_result(tmp_path / "earlier").jobs, result.jobs)


def test_only_timing_differs_between_two_writings_of_one_run() -> None:
    slow = encode_result(three_jobs(), MANIFEST, {"simulate": 2.0})
    fast = encode_result(three_jobs(), MANIFEST, {"simulate": 1.0})
    assert {name for name in slow if slow[name] != fast[name]} == {"timing.json"}


def test_the_manifest_holds_the_sha256_of_every_file_but_timing(tmp_path: Path) -> None:
    write_files(tmp_path / "run", encode_result(three_jobs(), MANIFEST))
    digests = read_manifest(tmp_path / "run")["files"]
    assert digests == {
        name: hashlib.sha256((tmp_path / "run" / name).read_bytes()).hexdigest()
        for name in ("jobs.parquet", "events.parquet", "timeline.parquet", "summary.json")
    }


def test_a_new_result_replaces_an_old_one_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_files(tmp_path / "run", encode_result(three_jobs(last_jct_s=40.0), MANIFEST))
    write_files(tmp_path / "run", encode_result(three_jobs(last_jct_s=30.0), MANIFEST))
    assert read_result(tmp_path / "run").summary.jct_s.mean == 20.0  # (10 + 30) / 2
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_directory_that_is_no_result_is_never_overwritten(tmp_path: Path) -> None:
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter.tex").write_text("years of work")
    with pytest.raises(InvalidInputError, match=r"thesis: exists and is not a result"):
        write_files(precious, encode_result(three_jobs(), MANIFEST))
    assert (precious / "chapter.tex").read_text() == "years of work"


def test_an_empty_directory_is_filled(tmp_path: Path) -> None:
    write_files(tmp_path, encode_result(three_jobs(), MANIFEST))
    assert read_manifest(tmp_path)["content_hash"] == "ab" * 32


def test_an_unwritable_place_is_named_and_left_clean(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(InvalidInputError, match=r"run: cannot be written"):
        write_files(blocker / "run", encode_result(three_jobs(), MANIFEST))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_result_of_another_format_is_refused(tmp_path: Path) -> None:
    write_files(tmp_path / "run", encode_result(three_jobs(), MANIFEST))
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    with pytest.raises(InvalidInputError, match=r"result format 99"):
        read_manifest(tmp_path / "run")


class KilledError(BaseException):
    """Stands for `kill -9`: after it no change of a file succeeds."""


def _killed_after(changes: int, patch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Let this many changes of files succeed, and no more; returns whether another was tried."""
    tried = 0

    def counted(change: Callable[..., object]) -> Callable[..., object]:
        def change_or_die(*args: object, **options: object) -> object:
            nonlocal tried
            tried += 1
            if tried > changes:
                raise KilledError
            return change(*args, **options)

        return change_or_die

    for name in ("mkdir", "replace", "rmdir", "unlink", "write_bytes"):
        patch.setattr(Path, name, counted(getattr(Path, name)))

    def rmtree(path: Path, ignore_errors: bool) -> None:
        for file in sorted(path.glob("*")):
            file.unlink()
        if path.exists():
            path.rmdir()

    patch.setattr(shutil, "rmtree", rmtree)
    return lambda: tried > changes


@pytest.mark.parametrize("mend", [lambda run: remove_leftovers(run.parent), prepare_target])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new_result(
    tmp_path: Path, mend: Callable[[Path], None]
) -> None:
    # 1 new directory, 6 files, 1 refused rename, 1 rename of the old result, 1 of the new one: 10 changes.
    # Then 1 refused rename, 1 rename and 7 removals of the old result.
    old, new = (encode_result(three_jobs(last_jct_s=jct_s), MANIFEST) for jct_s in (40.0, 30.0))
    means = []
    for changes in count():
        run = tmp_path / str(changes) / "run"
        write_files(run, old)
        with pytest.MonkeyPatch.context() as patch:
            killed = _killed_after(changes, patch)
            with suppress(KilledError):
                replace_files(run, new)
        mend(run)
        check_result(run)
        means.append(read_result(run).summary.jct_s.mean)
        if not killed():
            break
    assert means == [25.0] * 10 + [20.0] * 10  # (10 + 40) / 2 of the old result, (10 + 30) / 2 of the new one
