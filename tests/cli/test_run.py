"""The command run, by options and by scenario files."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.experiments.results.stored_runs import read_run_manifest
from ray_sim.kernels.compile import COMPILING
from tests.command_line import WEEK, answer, complaint, process
from workloads.store import write_workload
from workloads.synthetic.synth import synth

CHUNKED = """submit_s,duration_s,num_gpus,chunks,epochs,minibatches_per_chunk,minibatch_s,gradient_mb,\
bandwidth_mbps,upload_edge_s,upload_cloud_s
0,1,1,2,20,58,10,0,100,3600,36000
5,1,1,1,20,58,3,0,100,3600,36000
"""


EDGE = "name: edge\nservers:\n  - {name: edge, gpus: 4, kind: edge, workers: 1, ps: 2}\n"


@pytest.mark.slow
def test_run_simulates_jobs_in_chunks(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # One worker, slots of an hour, uploads of one. J1: chunks of 20 x 58 x 10 = 11,600 s = 4 slots, from
    # slot 1 on. J2: 3480 s = 1 slot, dispatched at 5 s, uploaded within slot 1: it takes slot 2, and J1's
    # first chunk goes on in 3 to 5, its second in 6 to 9.
    Path("chunks.csv").write_text(CHUNKED)
    Path("edge.yaml").write_text(EDGE)
    answer(capsys, "convert", "csv", "chunks.csv", "-o", "chunks.parquet")
    run = [
        "run",
        "--workload",
        "chunks.parquet",
        "--cluster",
        "edge.yaml",
        "--policy",
        "chunk_spt",
        "-p",
        "preempt=true",
    ]
    told = answer(capsys, *run, "-w", "truth=a_online", "-w", "slot_s=3600", "-o", "out")
    assert told["summary"]["preemptions"] == 1
    assert told["summary"]["stalled_s"] == 0
    jobs = pl.read_parquet("out/jobs.parquet").select("start_s", "finish_s").rows()
    assert jobs == [(3600, 10 * 3600), (2 * 3600, 3 * 3600)]
    assert main(["report", "out", "-o", "out.html"]) == 0
    assert main(["info", "out"]) == 0


@pytest.mark.slow
def test_run_and_info_say_what_prices_did(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = "gpus: 8, cpus: 72, memory_gib: 192, disk_gib: 500"
    Path("servers.yaml").write_text(f"name: ten\nservers:\n  - {{name: s, count: 10, {server}}}\n")
    synth = "synth pd_ors -n 20 --horizon 72000 --feasible-only --seed 1 -o e.parquet"
    answer(capsys, *synth.split())
    run = "run --workload e.parquet --cluster servers.yaml --policy pd_ors -w truth=pd_ors -w slot_s=3600"
    world = [*run.split(), "-w", "horizon_s=72000"]
    assert main([*world, "-o", "wide"]) == 0
    assert "warning: policy pd_ors: ln(U/L) is " in capsys.readouterr().err
    assert main(["info", "wide"]) == 0
    assert "warning: policy pd_ors: ln(U/L) is " in capsys.readouterr().err
    told = answer(capsys, *world, "-p", "price_span=10", "-o", "narrow")
    assert told["summary"]["policy_figures"]["price_span"] == pytest.approx(10)
    [warning] = told["summary"]["policy_warnings"]
    assert "refused by price" in warning


@pytest.mark.slow
def test_run_warns_once_and_before_the_run_of_a_horizon_that_no_job_meets(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = "gpus: 8, cpus: 72, memory_gib: 192, disk_gib: 500"
    Path("servers.yaml").write_text(f"name: two\nservers:\n  - {{name: s, count: 2, {server}}}\n")
    synth = "synth pd_ors -n 20 --horizon 72000 --feasible-only --seed 1 -o e.parquet"
    answer(capsys, *synth.split())
    run = "run --workload e.parquet --cluster servers.yaml --policy pd_ors -w truth=placement -w slot_s=3600"
    assert main([*run.split(), "-w", "horizon_s=7200", "-o", "out"]) == 0
    text = "warning: policy pd_ors: none of 20 jobs can earn utility by the horizon"
    assert capsys.readouterr().err.count(text) == 1


def test_run_says_what_a_chunked_world_needs(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chunked = ["-w", "truth=a_online", "-w", "slot_s=60"]
    told = complaint(capsys, "run", *WEEK, "--policy", "chunk_spt", *chunked)
    assert "minibatch_s: is missing" in told
    assert "is for chunked jobs, but truth=rigid has rigid jobs" in complaint(
        capsys, "run", *WEEK, "--policy", "chunk_fifo"
    )


def test_run_names_its_directory_by_policy_and_hash(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = answer(capsys, "run", *WEEK, "--policy", "sjf", "-p", "placement=pooled")
    assert told["directory"] == f"runs/sjf-{str(told['hash'])[:16]}"
    assert {path.name for path in Path(str(told["directory"])).iterdir()} == {
        "jobs.parquet",
        "events.parquet",
        "timeline.parquet",
        "summary.json",
        "timing.json",
        "manifest.json",
    }


def test_a_label_stands_in_the_manifest_and_leaves_the_hash_alone(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.yaml").write_text("workload: week.parquet\ncluster: small.yaml\npolicy: las\nlabel: short\n")
    named, other = answer(capsys, "run", "s.yaml"), answer(capsys, "run", "s.yaml", "--policy", "sjf")
    assert read_run_manifest(Path(str(named["directory"]))).policy_label == "short"
    assert read_run_manifest(Path(str(other["directory"]))).policy_label == "sjf"  # not the label of las
    plain = answer(capsys, "run", *WEEK, "--policy", "las", "--label", "least", "-o", "plain")
    assert plain["hash"] == named["hash"]
    assert read_run_manifest(Path("plain")).policy_label == "least"


@pytest.mark.slow
def test_a_scenario_file_and_options_say_the_same(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(
        "workload: week.parquet\ncluster: small.yaml\npolicy: las\n"
        "params: {knob: 2}\nworld: {restart_cost_s: 1}\n"
    )
    by_options = answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=2", "-w", "restart_cost_s=1")
    assert answer(capsys, "run", "s.yaml")["hash"] == by_options["hash"]
    beside = answer(capsys, "run", "s.yaml", "-p", "knob=3")
    assert (
        beside["hash"]
        == answer(capsys, "run", *WEEK, "--policy", "las", "-p", "knob=3", "-w", "restart_cost_s=1")["hash"]
    )


@pytest.mark.slow
def test_a_realisation_and_a_trim_can_be_given_by_options(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.yaml").write_text(
        "workload: {path: week.parquet, window: [0, 40000], resample: days, load_scale: 1.5}\n"
        "cluster: small.yaml\ntrim: {warm_up_s: 600, cool_down_s: 60}\nseed: 2\n"
    )
    realised = ["--window", "0", "40000", "--resample", "days", "--load-scale", "1.5", "--seed", "2"]
    options = [*WEEK, *realised, "--warm-up", "600", "--cool-down", "60", "--unsuccessful", "keep"]
    told = answer(capsys, "run", *options, "-o", "trimmed")
    assert answer(capsys, "run", "s.yaml")["hash"] == told["hash"]
    assert main(["info", "trimmed"]) == 0
    printed = capsys.readouterr().out
    assert "simulated, not counted" in printed
    assert "left out, outside the window" in printed
    for before_the_file in (["--warm-up", "1"], ["--seed", "3"]):
        assert answer(capsys, "run", "s.yaml", *before_the_file)["hash"] != told["hash"]


SWEEP = "name: s\nworkloads: [{path: w.parquet}]\nclusters: [pool-368]\npolicies: [a_online]\nseeds: [0]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "run --workload w.parquet --cluster pool-368 --policy a_online",
        pytest.param("sweep s.yaml", marks=pytest.mark.long),
    ],
)
def test_a_command_says_that_it_compiles_before_it_does(desk: Path, command: str) -> None:
    # The policy is refused when the world is set up, for which the first kernels are compiled.
    write_workload(*synth("philly", 5, 1), Path("w.parquet"))
    Path("s.yaml").write_text(SWEEP)
    ended = process(*command.split(), code=2, NUMBA_CACHE_DIR=str(desk / "cache"))
    # On a busy machine a command has said already that it is at work.
    first, *rest = [line for line in ended.stderr.splitlines() if " so far)" not in line]
    assert first == COMPILING
    assert "policy a_online is for chunked jobs" in "".join(rest)


IDLE = """from ray_sim.policy_api import Decision, Policy

class Idle(Policy):
    def decide(self, view):
        return Decision()
"""


def test_run_warns_of_jobs_that_the_policy_left_waiting(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("idle_policy.py").write_text(IDLE)
    assert main(["run", *WEEK, "--policy", "idle_policy:Idle", "-o", "out"]) == 0
    told = capsys.readouterr().err
    assert "warning: 30 of 30 jobs are unfinished (stalled): the policy left jobs waiting" in told
    assert '"policy_warnings": null' in Path("out/summary.json").read_text()
    assert main(["run", *WEEK, "--policy", "fifo", "-o", "fifo"]) == 0
    assert "stalled" not in capsys.readouterr().err
