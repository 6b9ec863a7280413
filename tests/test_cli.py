"""The command line: what it prints for people and machines, and how it takes a mistake."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from workloads.store import write_workload
from workloads.synthetic.synth import synth

WEEK = ["--workload", "week.parquet", "--cluster", "small.yaml"]
RAY_SIM = [sys.executable, "-c", "import sys; from ray_sim.cli import main; sys.exit(main())"]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a workload of 30 jobs and a cluster of 8 GPUs."""
    monkeypatch.chdir(tmp_path)
    write_workload(*synth("philly", 30, seed=1, load_scale=0.05), tmp_path / "week.parquet")
    (tmp_path / "small.yaml").write_text("name: small\nservers:\n  - {name: gpu, count: 2, gpus: 4}\n")
    return tmp_path


def _answer(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> dict[str, object]:
    assert main([*argv, "--json"]) == code
    content = json.loads(capsys.readouterr().out)
    assert isinstance(content, dict)
    return content


def _complaint(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 2) -> str:
    assert main(list(argv)) == code
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return printed.err


@pytest.mark.parametrize(
    "command",
    [
        "convert",
        "synth",
        "enrich",
        "info",
        "policies",
        "run",
        "sweep",
        "log",
        "report",
        "diff",
        "compare",
        "check-policy",
        "bench",
    ],
)
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
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "[]"


def test_convert_counts_rows_by_reason(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,5,1,-3\nc,6,2,20\n")
    report = _answer(capsys, "convert", "csv", "jobs.csv", "-o", "out.parquet")
    assert (report["read"], report["kept"]) == (3, 2)
    assert sum(report["rejected"].values()) == 1  # type: ignore[attr-defined]  # JSON
    assert main(["convert", "csv", "jobs.csv", "-o", "out.parquet"]) == 0
    assert "rows kept" in capsys.readouterr().out


def test_synth_and_info_agree_on_the_number_of_jobs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _answer(capsys, "synth", "philly", "-n", "25", "--seed", "3", "-o", "drawn.parquet")
    assert _answer(capsys, "info", "drawn.parquet", "--cluster", "small.yaml")["jobs"] == 25


ENRICH = ["enrich", "week.parquet", "-o", "training.parquet", "--seed", "3"]


def test_enrich_draws_how_jobs_train_and_says_so(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _answer(capsys, *ENRICH, "--profile", "pd_ors")
    assert (told["read"], told["kept"], told["infeasible"]) == (30, 30, {})
    below = told["outside_range"]["samples below"]  # type: ignore[index]  # JSON
    assert 0 < below <= 30
    trained = pl.read_parquet("training.parquet")
    assert trained["sample_s"].null_count() == 0
    assert int((trained["samples"] < 20_000).sum()) == below
    assert main([*ENRICH, "--profile", "pd_ors"]) == 0
    assert f"outside the range, samples below  {below} (" in capsys.readouterr().out
    assert _answer(capsys, "run", "--workload", "training.parquet", "--cluster", "small.yaml", "-o", "out")


def test_enrich_leaves_out_what_fits_no_server(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tiny.yaml").write_text("name: tiny\nservers: [{name: a, gpus: 2, cpus: 4}]\n")
    feasible = ["--profile", "optimus_nine_models", "--cluster", "tiny.yaml", "--feasible-only"]
    # A worker takes 2 cores, a parameter server 3 or 4: nobody's fit into 4 cores.
    told = _complaint(capsys, *ENRICH, *feasible)
    assert "none of 30 jobs is feasible" in told
    assert not Path("training.parquet").exists()
    told_all = _answer(capsys, *ENRICH, *feasible[:-1])
    assert told_all["infeasible"] == {"the cluster is too small": 30}


def test_enrich_lists_its_profiles_and_names_a_wrong_one(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["enrich", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*("harmony_types", "jsac_edge_cloud", "optimus_nine_models", "pd_ors", "pd_ors_mix")]
    assert "Did you mean 'pd_ors'" in _complaint(capsys, *ENRICH, "--profile", "pdors")
    Path("own.yaml").write_text("name: own\ncolumns: {sample_s: -1}\n")
    assert "columns.sample_s: must be a number from" in _complaint(capsys, *ENRICH, "--profile", "own.yaml")


def test_synth_fits_a_workload_and_says_how_well(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    like = ["synth", "--like", "week.parquet", "-n", "60", "-o", "like.parquet"]
    told = _answer(capsys, *like, "--arrivals", "poisson", "--load-scale", "2")
    assert (told["like"], told["arrivals"], told["jobs"]) == ("week.parquet", "poisson", 60)
    assert set(told["ks"]) == {"num_gpus", "duration_s", "inter_arrival_s"}  # type: ignore[call-overload]  # JSON
    assert main(like) == 0
    assert "KS distance, duration_s" in capsys.readouterr().out
    assert _answer(capsys, "info", "like.parquet")["jobs"] == 60
    assert "either a PROFILE" in _complaint(capsys, *like, "philly")
    assert "either a PROFILE" in _complaint(capsys, "synth", "-n", "5", "-o", "x.parquet")
    assert "Did you mean 'poisson'" in _complaint(capsys, *like, "--arrivals", "posson")


DRAW = ["synth", "pd_ors", "-n", "50", "--seed", "1", "-o", "drawn.parquet"]


def test_synth_draws_whole_jobs_within_a_horizon(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    within = [*DRAW, "--horizon", "72000"]
    told = _answer(capsys, *within, "--feasible-only")
    assert (told["profile"], told["arrivals"], told["jobs"]) == ("pd_ors", "alternating", 50)
    infeasible = told["infeasible"]["it cannot end by the horizon"]  # type: ignore[index]  # JSON
    assert told["feasible_share"] == (50 - infeasible) / 50
    assert told["redraws"] >= infeasible
    assert _answer(capsys, "info", "drawn.parquet")["jobs"] == 50
    first = Path("drawn.parquet").read_bytes()
    assert main([*within, "--feasible-only"]) == 0
    assert "feasible as first drawn" in capsys.readouterr().out
    assert Path("drawn.parquet").read_bytes() == first
    assert _answer(capsys, *within)["redraws"] == 0
    assert _answer(capsys, *within, "--arrivals", "poisson", "--slot-s", "600")["slot_s"] == 600


def test_synth_says_what_is_wrong_with_a_draw(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    within = [*DRAW, "--horizon", "72000"]
    assert "horizon: is missing" in _complaint(capsys, *DRAW)
    assert "horizon: must be at least a slot" in _complaint(capsys, *DRAW, "--horizon", "60")
    assert "load_scale: the number of jobs and the horizon set the load" in _complaint(
        capsys, *within, "--load-scale", "2"
    )
    assert "arrivals: must be alternating or poisson" in _complaint(capsys, *within, "--arrivals", "diurnal")
    other = ["-n", "5", "-o", "drawn.parquet", "--horizon", "72000"]
    assert "horizon: only for jobs drawn from" in _complaint(capsys, "synth", "philly", *other)
    told = _complaint(capsys, "synth", "pdors", *other)
    assert "Did you mean 'pd_ors'" in told
    assert told.rstrip().endswith("pd_ors_mix, philly")
    assert "columns.num_workers: is missing" in _complaint(capsys, "synth", "harmony_types", *other)
    assert "nowhere.yaml" in _complaint(capsys, "synth", "nowhere.yaml", *other)
    assert not Path("drawn.parquet").exists()


def test_info_knows_a_cluster_and_a_run(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _answer(capsys, "info", "small.yaml")["servers"] == 2
    _answer(capsys, "run", *WEEK, "-o", "fifo")
    told = _answer(capsys, "info", "fifo")
    assert told["summary"] == json.loads(Path("fifo/summary.json").read_text())
    assert main(["info", "fifo"]) == 0
    assert "JCT s, mean" in capsys.readouterr().out


def test_info_deals_out_the_blocks_of_models(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = ["--profile", "optimus_nine_models", "--seed", "1"]
    _answer(capsys, "enrich", "week.parquet", "-o", "nine.parquet", *profile)
    assert "blocks" in _answer(capsys, "info", "nine.parquet", "--blocks", "10")
    assert main(["info", "nine.parquet", "--blocks", "10"]) == 0
    assert "blocks of resnet-50" in capsys.readouterr().out
    assert "week.parquet has no column blocks" in _complaint(capsys, "info", "week.parquet", "--blocks", "2")
    assert "only with a workload" in _complaint(capsys, "info", "small.yaml", "--blocks", "2")


def test_policies_lists_parameters_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--json"]) == 0
    listed = {policy["name"]: policy for policy in json.loads(capsys.readouterr().out)}
    assert {"fifo", "sjf", "srtf", "las"} <= set(listed)
    assert {"name", "section", "parameters"} <= set(listed["las"])
    page = "docs/models/baselines.md#las-tiresias-2dlas"
    assert listed["las"]["section"].startswith(page)
    assert main(["policies", "las"]) == 0
    told = capsys.readouterr().out
    assert "limits_gpu_s" in told
    assert page in told


CHUNKED = """submit_s,duration_s,num_gpus,chunks,epochs,minibatches_per_chunk,minibatch_s,gradient_mb,\
bandwidth_mbps,upload_edge_s,upload_cloud_s
0,1,1,2,20,58,10,0,100,3600,36000
5,1,1,1,20,58,3,0,100,3600,36000
"""
EDGE = "name: edge\nservers:\n  - {name: edge, gpus: 4, kind: edge, workers: 1, ps: 2}\n"


def test_run_simulates_jobs_in_chunks(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One worker, slots of an hour, uploads of one. J1: chunks of 20 x 58 x 10 = 11,600 s = 4 slots, from
    # slot 1 on. J2: 3480 s = 1 slot, dispatched at 5 s, uploaded within slot 1: it takes slot 2, and J1's
    # first chunk goes on in 3 to 5, its second in 6 to 9.
    Path("chunks.csv").write_text(CHUNKED)
    Path("edge.yaml").write_text(EDGE)
    _answer(capsys, "convert", "csv", "chunks.csv", "-o", "chunks.parquet")
    run = ["run", "--workload", "chunks.parquet", "--cluster", "edge.yaml", "--policy", "chunk_spt"]
    told = _answer(capsys, *run, "-w", "truth=a_online", "-w", "slot_s=3600", "-o", "out")
    assert told["summary"]["preemptions"] == 1  # type: ignore[index]  # JSON
    assert told["summary"]["stalled_s"] == 0  # type: ignore[index]  # JSON
    jobs = pl.read_parquet("out/jobs.parquet").select("start_s", "finish_s").rows()
    assert jobs == [(3600, 10 * 3600), (2 * 3600, 3 * 3600)]
    assert main(["report", "out", "-o", "out.html"]) == 0
    assert main(["info", "out"]) == 0


def test_run_and_info_warn_where_prices_span_too_much(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = "gpus: 8, cpus: 72, memory_gib: 192, disk_gib: 500"
    Path("servers.yaml").write_text(f"name: ten\nservers:\n  - {{name: s, count: 10, {server}}}\n")
    synth = "synth pd_ors -n 20 --horizon 72000 --feasible-only --seed 1 -o e.parquet"
    _answer(capsys, *synth.split())
    run = "run --workload e.parquet --cluster servers.yaml --policy pd_ors -w truth=pd_ors -w slot_s=3600"
    world = [*run.split(), "-w", "horizon_s=72000"]
    assert main([*world, "-o", "wide"]) == 0
    assert "warning: policy pd_ors: ln(U/L) is " in capsys.readouterr().err
    assert main(["info", "wide"]) == 0
    assert "warning: policy pd_ors: ln(U/L) is " in capsys.readouterr().err
    told = _answer(capsys, *world, "-p", "price_span=10", "-o", "narrow")
    assert told["summary"]["policy_figures"] == {"price_span": pytest.approx(10)}  # type: ignore[index]  # JSON
    assert told["summary"]["policy_warnings"] is None  # type: ignore[index]  # JSON


def test_run_says_what_a_chunked_world_needs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunked = ["-w", "truth=a_online", "-w", "slot_s=60"]
    told = _complaint(capsys, "run", *WEEK, "--policy", "chunk_spt", *chunked)
    assert "minibatch_s: is missing" in told
    assert "dispatches chunks of jobs" in _complaint(capsys, "run", *WEEK, "--policy", "chunk_fifo")


def test_run_names_its_directory_by_policy_and_hash(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = _answer(capsys, "run", *WEEK, "--policy", "sjf", "-p", "placement=pooled")
    assert told["directory"] == f"runs/sjf-{str(told['hash'])[:16]}"
    assert {path.name for path in Path(str(told["directory"])).iterdir()} == {
        "jobs.parquet",
        "events.parquet",
        "timeline.parquet",
        "summary.json",
        "timing.json",
        "manifest.json",
    }


def test_a_scenario_file_and_options_say_the_same(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(
        "workload: week.parquet\ncluster: small.yaml\npolicy: las\n"
        "params: {knob: 2}\nworld: {restart_cost_s: 1}\n"
    )
    by_options = _answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=2", "-w", "restart_cost_s=1")
    assert _answer(capsys, "run", "s.yaml")["hash"] == by_options["hash"]
    beside = _answer(capsys, "run", "s.yaml", "-p", "knob=3")
    assert (
        beside["hash"]
        == _answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=3", "-w", "restart_cost_s=1")["hash"]
    )


def test_a_realisation_and_a_trim_can_be_given_by_options(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.yaml").write_text(
        "workload: {path: week.parquet, window: [0, 40000], resample: days, load_scale: 1.5}\n"
        "cluster: small.yaml\ntrim: {warm_up_s: 600, cool_down_s: 60}\nseed: 2\n"
    )
    realised = ["--window", "0", "40000", "--resample", "days", "--load-scale", "1.5", "--seed", "2"]
    options = [*WEEK, *realised, "--warm-up", "600", "--cool-down", "60", "--unsuccessful", "keep"]
    told = _answer(capsys, "run", *options, "-o", "trimmed")
    assert _answer(capsys, "run", "s.yaml")["hash"] == told["hash"]
    assert main(["info", "trimmed"]) == 0
    printed = capsys.readouterr().out
    assert "simulated, not counted" in printed
    assert "left out, outside the window" in printed
    for before_the_file in (["--warm-up", "1"], ["--seed", "3"]):
        assert _answer(capsys, "run", "s.yaml", *before_the_file)["hash"] != told["hash"]


def test_convert_counts_what_is_outside_the_window(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("jobs.csv").write_text("job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,5,1,3\nc,6,2,20\n")
    report = _answer(capsys, "convert", "csv", "jobs.csv", "-o", "out.parquet", "--window", "5", "6")
    assert (report["read"], report["kept"], report["outside_window"]) == (3, 1, 2)
    assert main(["convert", "csv", "jobs.csv", "-o", "out.parquet", "--window", "5", "6"]) == 0
    assert "rows outside the window" in capsys.readouterr().out
    assert "window: FROM" in _complaint(
        capsys, "convert", "csv", "jobs.csv", "-o", "o.parquet", "--window", "6", "5"
    )


def test_a_run_becomes_a_report(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=2", "-o", "las")
    told = _answer(capsys, "report", "las", "-o", "report.html")
    assert (told["report"], told["kind"], told["done"]) == ("report.html", "run", 1)
    assert "las(knob=2) on small.yaml" in Path("report.html").read_text()
    assert main(["report", "las", "-o", "again.html"]) == 0
    assert "again.html" in capsys.readouterr().out
    assert Path("again.html").read_bytes() == Path("report.html").read_bytes()


def test_a_report_of_what_is_no_result_or_to_where_nothing_can_be_is_refused(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "small.yaml: not a result" in _complaint(capsys, "report", "small.yaml", "-o", "r.html")
    assert "does not exist" in _complaint(capsys, "report", str(desk), "-o", "none/r.html")


def test_diff_is_silent_on_equal_runs_and_fails_on_others(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for sites in ("1", "2"):
        _answer(capsys, "run", *WEEK, "--sites", sites, "-o", f"sites{sites}")
    assert _answer(capsys, "diff", "sites1", "sites2")["same"] is True
    _answer(capsys, "run", *WEEK, "--policy", "sjf", "-o", "sjf")
    told = _answer(capsys, "diff", "sites1", "sjf", code=1)
    assert told["compared"] == 30
    assert main(["diff", "sites1", "sjf"]) == 1
    assert "first differences" in capsys.readouterr().out


def test_diff_shows_a_microsecond(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("here.csv").write_text("job_id,start_s,finish_s\na,0,30000\n")
    Path("there.csv").write_text("job_id,start_s,finish_s\na,0,30000.000001\n")
    assert main(["diff", "here.csv", "there.csv"]) == 1
    assert "30,000.000001" in capsys.readouterr().out


def test_compare_takes_runs_and_says_what_is_wrong(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for policy in ("fifo", "sjf"):
        _answer(capsys, "run", *WEEK, "--policy", policy, "-o", policy)
    told = _answer(capsys, "compare", "fifo", "sjf", "--metric", "queue_s.mean", "--by", "size")
    assert (told["metric"], told["runs"], told["lower_is_better"]) == ("queue_s.mean", 2, True)
    assert "Did you mean 'sjf'" in _complaint(capsys, "compare", "fifo", "sjf", "--baseline", "sjff")
    assert "nothing to compare" in _complaint(capsys, "compare", "fifo")
    assert "holds neither a run" in _complaint(capsys, "compare", "nowhere")


def test_a_missing_workload_is_named(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.parquet" in _complaint(
        capsys, "run", "--workload", "nowhere.parquet", "--cluster", "small.yaml"
    )


def test_a_misspelt_policy_gets_a_suggestion(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'srtf'" in _complaint(capsys, "run", *WEEK, "--policy", "srft")
    assert "Did you mean 'srtf'" in _complaint(capsys, "policies", "srft")


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--policy", "las", "-p", "knob=much"], "knob: must be a number, got 'much'"),
        (["-p", "knob"], "-p knob: expected key=value"),
        (["-p", "knob=2"], "unknown parameter of policy fifo 'knob'"),
        (["-w", "horizon_s=0"], "horizon_s: must be above 0"),
        (["--partition", "vcs"], "partition"),
        (["--seed", "x"], "--seed"),
        (["--window", "5"], "--window"),
        (["--window", "9", "5"], "workload.window: FROM must be below TO"),
        (
            ["--window", "1e9", "2e9"],
            "week.parquet: window: no job is submitted from 1000000000 to",
        ),
        (["--unsuccessful", "drop"], "week.parquet: unsuccessful jobs cannot be dropped"),
        (["--unsuccessful", "cut"], "workload.unsuccessful: must be 'keep' or 'drop'"),
        (["--load-scale", "0"], "workload.load_scale: must be >= 1e-06"),
        (["--resample", "weeks"], "workload.resample: must be 'days'"),
        (["--warm-up", "-1"], "trim.warm_up_s: must be >= 0"),
        (["--warm-up", "1e9"], "trim: no job is submitted between a warm-up of 1e+09 s"),
        (["--colour", "red"], "--colour"),
    ],
)
def test_a_wrong_option_is_exit_code_2_and_says_which(
    desk: Path, capsys: pytest.CaptureFixture[str], options: list[str], part: str
) -> None:
    assert part in _complaint(capsys, "run", *WEEK, *options)


def test_no_cluster_is_a_missing_key(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cluster: is missing" in _complaint(capsys, "run", "--workload", "week.parquet")


def test_output_is_refused_before_the_work(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kept").mkdir()
    Path("kept/thesis.tex").write_text("")
    assert "is not a result of ray-sim" in _complaint(capsys, "run", *WEEK, "-o", "kept")
    assert "is a file" in _complaint(capsys, "run", *WEEK, "-o", "small.yaml")
    assert "cannot be written" in _complaint(capsys, "run", *WEEK, "-o", "small.yaml/run")


def test_a_sweep_file_that_is_missing_or_wrong_is_exit_code_2(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "nowhere.yaml" in _complaint(capsys, "sweep", "nowhere.yaml")
    Path("s.yaml").write_text("name: s\npolicies: [fofi]\n")
    assert "3 problems" in _complaint(capsys, "sweep", "s.yaml")
    assert "not the results of a sweep" in _complaint(capsys, "log", str(desk))


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
    complaint = _complaint(capsys, *argv)
    assert LONG in complaint
    assert complaint.endswith(": File name too long; check the path\n")


def test_a_folder_that_must_not_be_searched_is_named(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **follow: bool) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "stat", refuse)  # root, who may run the tests, is refused nothing
    assert _complaint(capsys, "info", "run") == "error: run: Permission denied; check the path\n"


def test_a_working_directory_that_is_gone_is_named(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = desk / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    complaint = _complaint(
        capsys, "run", "--workload", str(desk / "week.parquet"), "--cluster", str(desk / "small.yaml")
    )
    assert complaint == "error: the working directory is gone; change to one that exists\n"


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
    ):
        assert reason in _complaint(capsys, *argv, "-o", out)
    assert Path("nowhere").is_symlink()
    assert Path("loop").is_symlink()


def test_a_trace_whose_name_is_no_text_is_refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "\udcff.csv"  # the byte 0xff
    Path(name).write_text("submit_s,duration_s,num_gpus\n0,9000,8\n")
    complaint = _complaint(capsys, "convert", "csv", name, "-o", "jobs.parquet")
    assert complaint == "error: \\udcff.csv: the name is no UTF-8 text; rename it\n"


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(desk: Path) -> None:
    # The pipe is closed before the command writes its first word.
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*RAY_SIM, "policies"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
    )
    os.close(writing)
    assert "Traceback" not in ended.stderr


def _many(desk: Path) -> Path:
    """A sweep of 1,002 configurations."""
    content = "{name: many, workloads: [{synth: {profile: philly, jobs: 5}}], clusters: [pool-368], "
    file = desk / "many.yaml"
    file.write_text(content + "policies: [fifo, sjf, srtf], seeds: {count: 334}}")
    return file


def test_a_large_sweep_needs_a_yes_where_nobody_can_be_asked(
    desk: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    complaint = _complaint(capsys, "sweep", str(_many(desk)), "-o", str(desk / "many"))
    assert "many.yaml: 1,002 configurations, more than 1,000; shorten an axis, or say --yes" in complaint
    assert not (desk / "many").exists()


@pytest.mark.slow
def test_a_large_sweep_asks_on_a_terminal(desk: Path) -> None:
    """On a pseudo-terminal, as in a person's shell."""
    ours, theirs = os.openpty()
    command = [*RAY_SIM, "sweep", str(_many(desk)), "-o", str(desk / "many")]
    repository = Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=repository) as asking:
        os.close(theirs)
        shown = ""
        while "Run them all? [y/N]" not in shown:
            shown += os.read(ours, 1000).decode()
        os.write(ours, b"n\n")
        assert asking.wait() == 1
    os.close(ours)
    assert "1,002 configurations" in shown
    assert not (desk / "many").exists()


def test_bench_lists_its_benchmarks_with_how_long_they_take(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--json"]) == 0
    listed = {each["name"]: each["rough_s"] for each in json.loads(capsys.readouterr().out)}
    assert {"replay", "startup", "growth", "overhead", "crash"} <= set(listed)
    assert min(listed.values()) > 0
    assert main(["bench", "--list", "replay"]) == 0
    assert "growth" not in capsys.readouterr().out


@pytest.mark.slow
def test_bench_writes_figures_and_compares_them_with_those_of_before(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["bench", "replay", "-o", "before.json", "--json"])
    told = json.loads(capsys.readouterr().out)
    missed = [row for row in told["benchmarks"]["replay"]["rows"] if row["result"] == "FAILED"]
    assert code == (1 if missed else 0)
    assert json.loads(Path("before.json").read_text()) == told
    first, second, *_ = told["benchmarks"]["replay"]["rows"]
    first |= {"value": first["value"] * 100}  # jobs per second
    second |= {"case": "another"}
    told["machine"]["cores"] = 10_000
    Path("before.json").write_text(json.dumps(told))
    assert main(["bench", "replay", "--against", "before.json"]) == 1
    printed = capsys.readouterr()
    assert "before.json is of ANOTHER MACHINE" in printed.out
    assert "cores: 10000 then" in printed.out
    assert "  replay.fifo.jobs_per_cpu_s\n" in printed.out.partition("worse than")[2]
    assert "replay.another.times_bare: only in before.json" in printed.out
    assert "replay (1 of 1): takes about" in printed.err


def test_bench_refuses_what_it_cannot_use_before_it_measures(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("odd.json").write_text('{"mean": 3}')
    complaint = _complaint(capsys, "bench", "phases", "--against", "odd.json")
    assert "odd.json: 3 problems" in complaint
    assert "expected what `ray-sim bench -o FILE` writes" in complaint
    assert "none.json: cannot be read" in _complaint(capsys, "bench", "phases", "--against", "none.json")
    assert "folder none does not exist" in _complaint(capsys, "bench", "phases", "-o", "none/b.json")
    assert "Did you mean 'phases'" in _complaint(capsys, "bench", "phase")


def test_info_warns_of_a_queue_that_cannot_drain_and_draws_for_any_terminal(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("jobs.csv").write_text("submit_s,duration_s,num_gpus\n0,9000,8\n3600,9000,8\n7200,3600,16\n")
    _answer(capsys, "convert", "csv", "jobs.csv", "-o", "jobs.parquet")
    told = _answer(capsys, "info", "jobs.parquet", "-c", "small.yaml")
    # 40 GPU-hours of the jobs that fit, on 8 GPUs in 2 h; the job of 16 never does.
    assert told["load"]["whole"]["resources"]["gpu"]["offered_load"] == 2.5  # type: ignore[index]  # JSON
    assert told["load"]["whole"]["never_fit"] == 1  # type: ignore[index]  # JSON
    assert len(told["warnings"]) == 2  # type: ignore[arg-type]  # JSON
    ended = subprocess.run(
        [*RAY_SIM, "info", str(desk / "jobs.parquet"), "-c", str(desk / "small.yaml")],
        capture_output=True,
        check=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert b"warning: cluster small: offered load 2.50 (gpu), so the queue cannot drain" in ended.stderr
    assert b"########" in ended.stdout
