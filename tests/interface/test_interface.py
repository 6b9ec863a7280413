"""`import ray_sim as rs`: its functions do what the commands do, and raise what these print."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ray_sim as rs
from ray_sim.cli import main
from ray_sim.experiments.results.result_files import MANIFEST, PLAN, checksummed_json
from ray_sim.interface.studies import plain
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError, UnknownNameError
from ray_sim.policies.sjf import Sjf
from tests.command_line import answer, python
from tests.results_by_hand import three_jobs
from tests.stored_by_hand import store_run, store_sweep

TABLE = "job_id,submit_s,num_gpus,duration_s\na,0,1,10\nb,0,1,20\nc,3,9,5\nd,x,1,1\n"


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Three jobs and a rejected row; on the cluster toy, of 2 x 4 GPUs, c never fits."""
    (tmp_path / "jobs.csv").write_text(TABLE)
    rs.convert("csv", tmp_path / "jobs.csv", tmp_path / "w.parquet")
    return tmp_path / "w.parquet"


def test_a_conversion_counts_its_rows(workload: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = rs.convert(
        "csv", [workload.with_name("jobs.csv")], str(workload), rejects=workload.with_name("r.parquet")
    )
    assert (report.read, report.kept, sum(report.rejected.values())) == (4, 3, 1)
    assert report.rejects == workload.with_name("r.parquet")
    assert capsys.readouterr() == ("", "")
    assert "rows kept" in report._repr_html_()


def test_an_error_has_the_text_that_the_command_prints(
    workload: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = str(workload.with_name("jobs.csv")), str(workload.with_name("o.parquet"))
    for format_name, rows in (("cvs", "task"), ("csv", "jobs")):
        with pytest.raises(UnknownNameError) as caught:
            rs.convert(format_name, source, out, rows=rows)
        assert main(["convert", format_name, source, "-o", out, "--rows", rows]) == 2
        assert capsys.readouterr().err == f"error: {caught.value}\n"


def test_load_tells_workloads_runs_and_sweeps_apart(workload: Path, tmp_path: Path) -> None:
    loaded = rs.load(workload)
    assert isinstance(loaded, rs.Workload)
    assert loaded.jobs["job_id"].to_list() == ["a", "b", "c"]
    run = rs.load(str(store_run(tmp_path / "run")))
    assert isinstance(run, rs.RunResult)
    assert run.jobs.equals(three_jobs().jobs)
    sweep = rs.load(store_sweep(tmp_path / "sweep"))
    assert isinstance(sweep, rs.SweepResults)
    assert (sweep.name, sweep.runs["policy"].to_list()) == ("demo", ["fifo", "sjf"])


def test_what_cannot_be_loaded_is_named_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=rf"holds no results; .*{MANIFEST}.*{PLAN}"):
        rs.load(tmp_path)
    with pytest.raises(InvalidInputError, match=r"jobs.csv: is no Parquet file"):
        rs.load(tmp_path / "jobs.csv")
    with pytest.raises(InvalidInputError, match="no such file"):
        rs.load(tmp_path / "none.parquet")


def test_results_of_another_version_are_refused_with_both_numbers(tmp_path: Path) -> None:
    for name, path in ((MANIFEST, store_run(tmp_path / "run")), (PLAN, store_sweep(tmp_path / "sweep"))):
        content = json.loads((path / name).read_text())
        (path / name).write_bytes(checksummed_json({**content, "format": 1}))
        with pytest.raises(InvalidInputError, match=r"format 1, this version (reads|has) \d"):
            rs.load(path)


def test_a_sweep_gives_its_runs_by_policy_and_seed(tmp_path: Path) -> None:
    sweep = rs.load(store_sweep(tmp_path / "sweep"))
    assert isinstance(sweep, rs.SweepResults)
    assert sweep.result("sjf").jobs.equals(three_jobs().jobs)
    assert sweep.result("sjf", seed=0, workload="week/days").summary.jobs == 3
    assert "2 of 4 done, 1 failed" in sweep._repr_html_()
    lines = repr(sweep).splitlines()
    assert lines[0].endswith("2 of 4 done, 1 failed")
    assert [line.split()[0] for line in lines[1:4]] == ["policy", "fifo", "sjf"]
    with pytest.raises(InvalidInputError, match="no finished run has policy='las'"):
        sweep.result("las")
    with pytest.raises(InvalidInputError, match="no finished run has policy='sjf', seed=1"):
        sweep.result("sjf", seed=1)
    with pytest.raises(InvalidInputError, match="cluster='toy'"):
        sweep.result("sjf", cluster="toy")


def test_a_loaded_workload_runs_as_its_file_does(workload: Path) -> None:
    loaded = rs.load(workload)
    assert isinstance(loaded, rs.Workload)
    result = rs.simulate(loaded, "toy")
    # a and b start at once; c asks for 9 of 8 GPUs.
    assert result.jobs["jct_s"].to_list() == [10.0, 20.0, None]
    assert result.jobs.equals(rs.simulate(workload, "toy").jobs)
    assert plain({"workloads": [loaded]}) == {"workloads": [str(workload)]}
    table = loaded.table(("gpu",))
    assert result.jobs.equals(rs.simulate(table, rs.load_cluster("toy")).jobs)


def test_a_scenario_runs_as_by_the_command(
    workload: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workload.parent)
    Path("scenario.yaml").write_text("workload: w.parquet\ncluster: toy\npolicy: srtf\n")
    finished = rs.run("scenario.yaml", "python", snapshot_s=0)
    assert (
        answer(capsys, "run", "scenario.yaml", "-o", "command", "--snapshot-s", "0")["hash"]
        == finished.identity.content_hash
    )
    assert finished.directory == Path("python")
    by_name = [
        {each.name: each.read_bytes() for each in Path(name).iterdir()} for name in ("python", "command")
    ]
    python, command = by_name
    assert {name for name in {*python, *command} if python[name] != command[name]} <= {"timing.json"}
    assert finished.result.jobs.equals(rs.simulate("w.parquet", "toy", "srtf").jobs)
    with pytest.raises(InvalidScenarioError, match="clustre"):
        rs.run({"workload": "w.parquet", "clustre": "toy"})


def test_a_workload_is_described_with_its_load(workload: Path) -> None:
    loaded = rs.load(workload)
    assert isinstance(loaded, rs.Workload)
    info = rs.describe(loaded, "toy")
    assert info.to_dict() == rs.describe(workload, rs.load_cluster("toy")).to_dict()
    markup = info._repr_html_()
    assert "jobs that can never fit" in markup
    assert "median 10 s" in markup
    assert loaded._repr_html_() in rs.describe(workload)._repr_html_()


def test_results_in_memory_are_compared_by_label(workload: Path) -> None:
    one = rs.simulate(workload, "toy")
    report = rs.compare({"fifo": one, "sjf": rs.simulate(workload, "toy", policy="sjf")})
    assert report.groups[0].jobs is not None
    assert report.groups[0].jobs.same == 2
    with pytest.raises(InvalidInputError, match="have no names: expected a mapping"):
        rs.compare(one, one)  # type: ignore[arg-type]  # the mistake that is tested
    with pytest.raises(InvalidInputError, match="expected one mapping"):
        rs.compare({"fifo": one, "sjf": one}, by=["size"])


def test_results_on_disk_are_compared_as_by_the_command(tmp_path: Path, workload: Path) -> None:
    for policy in ("fifo", "sjf"):
        command = ["run", "--workload", str(workload), "--cluster", "toy", "--policy", policy]
        assert main([*command, "-o", str(tmp_path / policy), "--json"]) == 0
    report = rs.compare(tmp_path / "fifo", str(tmp_path / "sjf"), baseline="fifo")
    assert [each.policy for each in report.groups[0].comparison.policies] == ["sjf"]
    assert report.groups[0].jobs is not None
    assert report.groups[0].jobs.same == 2


def test_a_report_of_a_result_in_memory_lacks_only_what_inputs_tell(tmp_path: Path) -> None:
    rs.report(three_jobs(), tmp_path / "memory.html")
    loaded = rs.load(store_sweep(tmp_path / "sweep"))
    assert isinstance(loaded, rs.SweepResults)
    written = rs.report(loaded, str(tmp_path / "loaded.html"))
    assert (written.kind, written.done, written.failed, written.missing) == ("sweep", 2, 1, 1)
    assert "the run is not stored with its inputs" in (tmp_path / "memory.html").read_text()
    with pytest.raises(InvalidInputError, match="does not exist"):
        rs.report(three_jobs(), tmp_path / "none" / "page.html")


def test_a_mapping_may_hold_paths_ranges_numbers_of_numpy_and_classes() -> None:
    content = {
        "workloads": [{"path": Path("w.parquet"), "load_scale": np.float64(2.0)}],
        "policies": (Sjf,),
        "seeds": range(3),
        "world": {"slot_s": np.array([600, 1200])},
    }
    assert plain(content) == {
        "workloads": [{"path": "w.parquet", "load_scale": 2.0}],
        "policies": ["ray_sim.policies.sjf:Sjf"],
        "seeds": [0, 1, 2],
        "world": {"slot_s": [600, 1200]},
    }


def test_a_class_that_other_processes_cannot_import_is_refused_with_the_way_out() -> None:
    class Local(Sjf):
        name = "local"

    with pytest.raises(InvalidScenarioError, match=r"%%writefile my_policies.py.*'my_policies:Local'"):
        plain({"policies": [Local]})


def test_every_problem_of_a_mapping_is_reported_with_its_dotted_path() -> None:
    content: dict[str, Any] = {
        "name": "s",
        "workloads": ["none.parquet"],
        "clusters": ["toy"],
        "policies": ["fifoo"],
    }
    with warnings.catch_warnings(), pytest.raises(InvalidScenarioError) as caught:
        rs.sweep({**content, "seeds": 5})
    text = str(caught.value)
    assert text.startswith("the sweep:")
    for part in ("workloads[0]", "policies[0]", "fifoo", "seeds"):
        assert part in text


def test_a_plan_names_the_choice_that_it_does_not_take() -> None:
    scenario = {"workload": {"synth": {"profile": "philly", "jobs": 5}}, "cluster": "toy"}
    with pytest.raises(InvalidScenarioError, match=r"toy.count=9:1: expected FROM:TO"):
        rs.plan(scenario, "p95_jct_s<9", {"toy.count": (9, 1)})
    with pytest.raises(UnknownNameError, match="jct"):
        rs.plan(scenario, "jctt_s.p95<9", {"toy.count": "1:9"})


def test_public_names_exist_are_offered_for_completion_and_load_nothing_heavy_before_they_are_used() -> None:
    assert [name for name in rs.__all__ if not hasattr(rs, name)] == []
    heavy = ("polars", "numpy", "numba", "matplotlib", "ray", "mlflow", "IPython")
    code = "import sys, ray_sim; print({*ray_sim.__all__} <= {*dir(ray_sim)}, HEAVY & {*sys.modules})"
    code = code.replace("HEAVY", repr({*heavy}))
    assert python("-c", code) == "True set()\n"


def test_a_class_in_place_of_a_policy_is_refused_with_the_way_out(workload: Path) -> None:
    with pytest.raises(InvalidScenarioError, match=r"found the class Sjf; call it, as in Sjf\(\)"):
        rs.simulate(workload, "toy", policy=Sjf)  # type: ignore[arg-type]  # the mistake that is tested
