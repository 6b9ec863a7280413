"""Availability and links of servers: read exactly, refused by line, drawn with the right means."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from ray_sim import simulate
from ray_sim.cli import main
from ray_sim.experiments.inputs.server_changes import (
    Spans,
    draw_failures,
    draw_links,
    read_availability,
    read_links,
    write_failures,
    write_links,
)
from ray_sim.experiments.inputs.server_files import ServerFiles, with_server_files
from ray_sim.model.errors import InvalidClusterError, InvalidScenarioError
from tests.command_line import complaint
from tests.worlds import cluster_of

CLUSTER = cluster_of([1, 1])


def table(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "servers.csv"
    path.write_text("\n".join(["time_s,server,event", *lines, ""]))
    return path


def test_lines_in_any_order_happen_by_time_and_at_one_instant_as_written(tmp_path: Path) -> None:
    lines = ["7,s0,fail", "3.5,s1,remove", "7,s0,repair", "5,s1,add"]
    found = read_availability(table(tmp_path, *lines), CLUSTER)
    assert found.time_us.tolist() == [3_500_000, 5_000_000, 7_000_000, 7_000_000]
    assert found.server.tolist() == [1, 1, 0, 0]
    assert found.up.tolist() == [False, True, False, True]
    assert found.at_first(2).tolist() == [True, True]


def test_a_server_whose_first_event_adds_it_is_not_there_before(tmp_path: Path) -> None:
    found = read_availability(table(tmp_path, "3,s1,add"), CLUSTER)
    assert found.at_first(2).tolist() == [True, False]


def test_a_table_without_lines_changes_nothing(tmp_path: Path) -> None:
    found = read_availability(table(tmp_path), CLUSTER)
    assert len(found.time_us) == 0
    assert found.at_first(2).tolist() == [True, True]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["3,s9,fail"], "line 2: server: the cluster has no 's9'; its servers are s0, s1"),
        (["x,s0,fail"], "line 2: time_s: must be a number from 0 to 68719476736, got 'x'"),
        (["1_0,s0,fail"], "line 2: time_s: must be a number"),
        (["-1,s0,fail"], "line 2: time_s: must be a number"),
        (["nan,s0,fail"], "line 2: time_s: must be a number"),
        (["1,s0,explode"], "line 2: event: must be one of add, repair, remove, fail, got 'explode'"),
        (["1,s0"], "line 2: has not 3 cells"),
        (["1,s0,fail", "2,s0,remove"], "line 3: server 's0' is not there then"),
        (["1,s0,repair", "2,s0,add"], "line 3: server 's0' is already there then"),
        (["1,s0,fail", "x,s9,no"], "3 problems"),
    ],
)
def test_what_breaks_the_rules_is_named_by_line(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InvalidClusterError, match=message):
        read_availability(table(tmp_path, *lines), CLUSTER)


def test_other_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "servers.csv"
    path.write_text("time,server,event\n")
    with pytest.raises(InvalidClusterError, match="expected the columns time_s, server, event, got time"):
        read_availability(path, CLUSTER)


@pytest.mark.slow
def test_drawn_failures_have_the_means_asked_for_and_come_back_from_their_file(tmp_path: Path) -> None:
    # 2,000 servers for 1,000 h: failures come once in 100 + 10 h per server, so about 18,000 of them.
    cluster = cluster_of([1.0] * 2000)
    hour = 3600.0
    drawn = draw_failures(cluster, 100 * hour, 10 * hour, 0, 1000 * hour, seed=4)
    failed = drawn.time_us[~drawn.up]
    # A renewal process: standard error of the count is about 1 %.
    assert len(failed) == pytest.approx(2000 * 1000 / 110, rel=0.05)
    order = np.lexsort((drawn.time_us, drawn.server))
    times, up = drawn.time_us[order], drawn.up[order]
    repairs = times[up] - times[~up]
    assert repairs.mean() / 1e6 == pytest.approx(10 * hour, rel=0.05)
    write_failures(tmp_path / "failures.csv", cluster, drawn)
    again = read_availability(tmp_path / "failures.csv", cluster)
    assert all(
        np.array_equal(getattr(again, name), getattr(drawn, name)) for name in ("time_us", "server", "up")
    )


def test_a_server_fails_alike_in_a_larger_cluster() -> None:
    small = draw_failures(cluster_of([1.0] * 2), 100, 10, 0, 1000, seed=4)
    large = draw_failures(cluster_of([1.0] * 5), 100, 10, 0, 1000, seed=4)
    both = large.server < 2
    assert np.array_equal(large.time_us[both], small.time_us)
    other = draw_failures(cluster_of([1.0] * 2), 100, 10, 0, 1000, seed=5)
    assert not np.array_equal(other.time_us, small.time_us)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a week of synthetic jobs and a table of failures."""
    monkeypatch.chdir(tmp_path)
    assert main(["synth", "philly", "-n", "400", "--seed", "1", "-o", "week.parquet"]) == 0
    options = ["--mtbf-s", "2e5", "--repair-s", "2e4", "--until-s", "1e6", "-o", "failures.csv"]
    assert main(["failures", "toy", *options]) == 0
    return tmp_path


RUN = ["run", "--workload", "week.parquet", "--cluster", "toy", "-w", "checkpoint_s=600"]


@pytest.mark.usefixtures("desk")
def test_a_run_with_failures_repeats_byte_for_byte_in_either_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for place in ("one", "two"):
        assert main([*RUN, "-w", "availability=failures.csv", "--policy", "las", "-o", place]) == 0
    assert main([*RUN, "--policy", "las", "-o", "without"]) == 0
    capsys.readouterr()
    for name in ("jobs.parquet", "events.parquet", "timeline.parquet", "summary.json"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    summary = json.loads(Path("one/summary.json").read_text())
    jobs = pl.read_parquet("one/jobs.parquet")
    assert summary["interruptions"] == jobs["interruptions"].sum() > 0
    assert summary["restarts"] >= summary["interruptions"] * (jobs["status"] == "completed").all()
    assert json.loads(Path("without/summary.json").read_text())["interruptions"] == 0
    assert simulate(
        "week.parquet", "toy", "las", world={"availability": "failures.csv", "checkpoint_s": 600}
    ).jobs.equals(jobs)


@pytest.mark.usefixtures("desk")
def test_the_content_of_the_table_identifies_a_run_not_its_path(capsys: pytest.CaptureFixture[str]) -> None:
    Path("same.csv").write_bytes(Path("failures.csv").read_bytes())
    lines = Path("failures.csv").read_text().splitlines()
    Path("other.csv").write_text("\n".join([*lines[:-2], ""]))
    hashes = []
    for name in ("failures.csv", "same.csv", "other.csv"):
        assert main([*RUN, "-w", f"availability={name}", "-o", name.removesuffix(".csv")]) == 0
        hashes.append(
            json.loads(Path(name.removesuffix(".csv"), "manifest.json").read_text())["content_hash"]
        )
    capsys.readouterr()
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.usefixtures("desk")
def test_a_table_for_another_cluster_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    other = [*RUN, "-w", "availability=failures.csv"]
    other[other.index("toy")] = "pool-368"
    assert main(other) == 2
    assert "failures.csv: " in (errors := capsys.readouterr().err)
    assert "the cluster has no" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--mtbf-s": "0"}, "--mtbf-s: must be above 0"),
        ({"--repair-s": "-3"}, "--repair-s: must be above 0"),
        ({"--until-s": "0"}, "must be rising"),
    ],
)
def test_impossible_draws_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], message: str
) -> None:
    options = {
        "--mtbf-s": "10",
        "--repair-s": "1",
        "--until-s": "100",
        "-o": str(tmp_path / "f.csv"),
    } | change
    assert message in complaint(
        capsys, "failures", "toy", *[text for pair in options.items() for text in pair]
    )


def test_more_failures_than_can_be_drawn_are_refused() -> None:
    # 1 server, 2^36 s / (1 s + 1 s): 3.4e10 failures, spans without the server.
    with pytest.raises(InvalidScenarioError, match=r"--mtbf-s 1 --repair-s 1: about 3\.44e\+10 spans"):
        draw_failures(cluster_of([1]), 1, 1, 0, 2**36, seed=0)


def test_drawn_links_come_back_from_their_file(tmp_path: Path) -> None:
    servers = cluster_of([4, 4])
    drawn = draw_links(servers, Spans(1000.0, 100.0, 0.0, 20_000.0), 0.25, seed=3)
    write_links(tmp_path / "links.csv", servers, drawn)
    read = with_server_files(servers, ServerFiles(links=str(tmp_path / "links.csv"))).links
    assert read is not None
    for column in ("time_us", "server", "bandwidth"):
        assert np.array_equal(getattr(read, column), getattr(drawn, column))
    # Some twenty spans a server, each a slow begin and a nominal end; the streams of servers differ.
    for server in (0, 1):
        own = drawn.bandwidth[drawn.server == server]
        assert own[::2].tolist() == [0.25] * (len(own) // 2)
        assert own[1::2].tolist() == [1.0] * (len(own) // 2)
    assert 20 <= len(drawn) // 2 <= 60


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("5,s0,0", "line 2: bandwidth: must be a number from 1e-06 to 1, got '0'"),
        ("5,s0,1.5", "bandwidth: must be a number"),
        ("5,s0,nan", "bandwidth: must be a number"),
        ("5,nobody,0.5", "server: the cluster has no 'nobody'"),
        ("-1,s0,0.5", "time_s: must be a number from 0"),
        ("5,s0", "line 2: has not 3 cells"),
    ],
)
def test_faults_of_links_are_named_by_line(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text(f"time_s,server,bandwidth\n{line}\n")
    with pytest.raises(InvalidClusterError, match=r"links\.csv") as failure:
        read_links(path, cluster_of([4]))
    assert fault in str(failure.value)


def test_bandwidths_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(InvalidScenarioError, match=r"--bandwidth: must be from 1e-06 to 1, got 2"):
        draw_links(cluster_of([4]), Spans(10, 10, 0, 100), 2.0, seed=0)
    with pytest.raises(InvalidScenarioError, match=r"--every-s: must be above 0"):
        draw_links(cluster_of([4]), Spans(0, 10, 0, 100), 0.5, seed=0)
