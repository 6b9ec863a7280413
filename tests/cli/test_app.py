"""The command line: what it prints for people and machines, and how it takes a mistake."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.cli.app import COMMANDS
from ray_sim.cli.options import OPTIONS
from ray_sim.experiments.scenario import AuditSpec, Scenario, Spec, TrimSpec, WorkloadSpec
from tests.command_line import RAY_SIM, WEEK, answer, complaint, python
from tests.conftest import REPOSITORY
from tests.proofs import quick_first


def test_every_option_of_a_scenario_has_its_place_in_the_model() -> None:
    keys: dict[str, type[Spec]] = {"workload": WorkloadSpec, "trim": TrimSpec, "audit": AuditSpec}
    for place, _ in OPTIONS.values():
        section, _, key = place.partition(".")
        assert section in Scenario.model_fields
        assert not key or key in keys[section].model_fields


@pytest.mark.parametrize("command", [each.__name__.replace("_", "-") for each in COMMANDS])
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    printed = capsys.readouterr().out
    assert f"Example: ray-sim {command}" in " ".join(printed.split())
    assert "--json" in printed


def test_help_loads_nothing_heavy() -> None:
    # The budget of 0.3 s is kept by importing none of these before a command runs.
    heavy = ["polars", "numpy", "numba", "ray", "mlflow", "matplotlib", "pydantic"]
    program = "import sys; from ray_sim.cli import main; main(['--help'])"
    program += f"; print([name for name in {heavy} if name in sys.modules])"
    assert python("-c", program).splitlines()[-1] == "[]"


@pytest.mark.slow
def test_a_run_becomes_a_report(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=2", "-o", "las")
    told = answer(capsys, "report", "las", "-o", "report.html")
    assert (told["report"], told["kind"], told["done"]) == ("report.html", "run", 1)
    assert "las(knob=2) on small.yaml" in Path("report.html").read_text()
    assert main(["report", "las", "-o", "again.html"]) == 0
    assert "again.html" in capsys.readouterr().out
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()


def test_a_report_of_what_is_no_result_or_to_where_nothing_can_be_is_refused(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "small.yaml: not a result" in complaint(capsys, "report", "small.yaml", "-o", "r.html")
    assert "does not exist" in complaint(capsys, "report", str(desk), "-o", "none/r.html")


def test_compare_takes_runs_and_says_what_is_wrong(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for policy in ("fifo", "sjf"):
        answer(capsys, "run", *WEEK, "--policy", policy, "-o", policy)
    told = answer(capsys, "compare", "fifo", "sjf", "--metric", "queue_s.mean", "--by", "size")
    assert (told["metric"], told["runs"], told["lower_is_better"]) == ("queue_s.mean", 2, True)
    assert "Did you mean 'sjf'" in complaint(capsys, "compare", "fifo", "sjf", "--baseline", "sjff")
    assert "nothing to compare" in complaint(capsys, "compare", "fifo")
    assert "holds neither a run" in complaint(capsys, "compare", "nowhere")


@pytest.mark.parametrize(
    ("options", "part"),
    quick_first(
        [
            (["--workload", "nowhere.parquet"], "nowhere.parquet: no such file"),
            (["--policy", "srft"], "Did you mean 'srtf'"),
            (["--policy", "las", "-p", "knob=much"], "knob: must be a number, got 'much'"),
            (["-p", "knob"], "-p knob: expected key=value"),
            (["-p", "knob=2"], "unknown parameter of policy fifo 'knob'"),
            (["-w", "horizon_s=0"], "horizon_s: must be above 0"),
            (["--partition", "vcs"], "partition"),
            (["--seed", "x"], "--seed"),
            (["--window", "5"], "--window"),
            (["--window", "9", "5"], "workload.window: FROM must be below TO"),
            (["--window", "1e9", "2e9"], "week.parquet: window: no job is submitted from 1000000000 to"),
            (["--unsuccessful", "drop"], "week.parquet: unsuccessful jobs cannot be dropped"),
            (["--unsuccessful", "cut"], "workload.unsuccessful: must be 'keep' or 'drop'"),
            (["--load-scale", "0"], "workload.load_scale: must be >= 1e-06"),
            (["--resample", "weeks"], "workload.resample: must be 'days'"),
            (["--warm-up", "-1"], "trim.warm_up_s: must be >= 0"),
            (["--warm-up", "1e9"], "trim: no job is submitted between a warm-up of 1e+09 s"),
            (["--colour", "red"], "--colour"),
        ],
        2,
    ),
)
def test_a_wrong_option_is_exit_code_2_and_says_which(
    desk: Path, capsys: pytest.CaptureFixture[str], options: list[str], part: str
) -> None:
    assert part in complaint(capsys, "run", *WEEK, *options)


def test_no_cluster_is_a_missing_key(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cluster: is missing" in complaint(capsys, "run", "--workload", "week.parquet")


def test_output_is_refused_before_the_work(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept").mkdir()
    Path("kept/thesis.tex").write_text("")
    assert "is not a result of ray-sim" in complaint(capsys, "run", *WEEK, "-o", "kept")
    Path("kept/sweep.json").write_text("{}")
    assert "holds the results of a sweep" in complaint(capsys, "run", *WEEK, "-o", "kept")
    assert "is a file" in complaint(capsys, "run", *WEEK, "-o", "small.yaml")
    assert "cannot be written" in complaint(capsys, "run", *WEEK, "-o", "small.yaml/run")


def test_a_sweep_file_that_is_missing_or_wrong_is_exit_code_2(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nowhere.yaml" in complaint(capsys, "sweep", "nowhere.yaml")
    Path("s.yaml").write_text("name: s\npolicies: [fofi]\n")
    assert "3 problems" in complaint(capsys, "sweep", "s.yaml")
    assert "not the results of a sweep" in complaint(capsys, "log", str(desk))


LONG = "x" * 300
"""A name that no file system takes."""


@pytest.mark.parametrize(
    "argv",
    [
        ["info", LONG],
        ["report", LONG, "-o", "report.html"],
        ["compare", LONG],
        ["run", *WEEK, "-o", LONG],
        ["synth", "philly", "-n", "5", "-o", LONG],
        ["convert", "csv", "small.yaml", "-o", LONG],
    ],
    ids=lambda argv: argv[0],
)
def test_a_name_that_the_system_refuses_is_named(
    desk: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    said = complaint(capsys, *argv)
    assert LONG in said
    assert said.endswith(": File name too long; check the path\n")


def test_a_folder_that_must_not_be_searched_is_named(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **follow: bool) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "stat", refuse)  # root, who may run the tests, is refused nothing
    assert complaint(capsys, "info", "run") == "error: run: Permission denied; check the path\n"


def test_a_working_directory_that_is_gone_is_named(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = desk / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    said = complaint(
        capsys, "run", "--workload", str(desk / "week.parquet"), "--cluster", str(desk / "small.yaml")
    )
    assert said == "error: the working directory is gone; change to one that exists\n"


@pytest.mark.parametrize("out", ["", "nowhere", "loop", "\udcff.parquet"])
def test_no_output_goes_to_a_name_that_is_none_or_leads_nowhere(
    desk: Path, capsys: pytest.CaptureFixture[str], out: str
) -> None:
    Path("nowhere").symlink_to("unmounted/file")
    Path("loop").symlink_to("loop")
    Path("jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,9000,8\n")
    reason = {"": "is a folder", "\udcff.parquet": "the name is no UTF-8"}.get(
        out, "is a symbolic link to nothing"
    )
    for argv in (
        ["convert", "csv", "jobs.csv"],
        ["synth", "philly", "-n", "5"],
        ["synth", "--like", "week.parquet", "-n", "5"],
        ["enrich", "week.parquet", "--profile", "pd_ors"],
        ["failures", "toy", "--mtbf-s", "900", "--repair-s", "9", "--until-s", "9000"],
        ["links", "toy", "--every-s", "900", "--length-s", "9", "--bandwidth", "0.5", "--until-s", "9000"],
        ["interference", "harmony_types", "--samples", "10"],
    ):
        assert reason in complaint(capsys, *argv, "-o", out)
    assert Path("nowhere").is_symlink()
    assert Path("loop").is_symlink()


def test_a_trace_whose_name_is_no_text_is_refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\udcff.csv"  # the byte 0xff
    Path(name).write_text("submit_s,duration_s,num_gpus\n0,9000,8\n")
    said = complaint(capsys, "convert", "csv", name, "-o", "jobs.parquet")
    assert said == "error: \\udcff.csv: the name is no UTF-8 text; rename it\n"


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(desk: Path) -> None:
    # The pipe is closed before the command writes its first word.
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*RAY_SIM, "policies"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY
    )
    os.close(writing)
    assert "Traceback" not in ended.stderr


def _many(desk: Path) -> Path:
    """A sweep of 1,002 configurations."""
    content = "{name: many, workloads: [{synth: {profile: philly, jobs: 5}}], clusters: [pool-368], "
    file = desk / "many.yaml"
    file.write_text(content + "policies: [fifo, sjf, srtf], seeds: {count: 334}}")
    return file


@pytest.mark.slow
def test_a_large_sweep_needs_a_yes_where_nobody_can_be_asked(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    said = complaint(capsys, "sweep", str(_many(desk)), "-o", str(desk / "many"))
    assert "many.yaml: 1,002 configurations, more than 1,000; shorten an axis, or say --yes" in said
    assert not (desk / "many").exists()


@pytest.mark.slow
def test_a_large_sweep_asks_on_a_terminal(desk: Path) -> None:
    """On a pseudo-terminal, as in a person's shell."""
    ours, theirs = os.openpty()
    command = [*RAY_SIM, "sweep", str(_many(desk)), "-o", str(desk / "many")]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY) as asking:
        os.close(theirs)
        shown = ""
        while "Run them all? [y/N]" not in shown:
            shown += os.read(ours, 1000).decode()
        os.write(ours, b"n\n")
        assert asking.wait() == 1
    os.close(ours)
    assert "1,002 configurations" in shown
    assert not (desk / "many").exists()
