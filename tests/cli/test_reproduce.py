"""`ray-sim reproduce` from the figure file to the verdicts and the page."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.experiments.figures.file import read_figure
from ray_sim.experiments.figures.reproduce import figure_samples
from ray_sim.experiments.results.result_files import read_summary
from ray_sim.experiments.results.store import ResultStore
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.model.errors import UnknownNameError
from tests.command_line import answer, complaint

CLUSTER = "name: {0}\nservers:\n  - {{name: server, count: {1}, gpus: 8, cpus: 64, memory_gib: 512}}\n"
FIGURE = {
    "name": "by-servers",
    "workloads": [{"synth": {"profile": "philly", "jobs": 20, "load_scale": 0.3}}],
    "clusters": ["few.yaml", "many.yaml"],
    "policies": ["fifo", "srtf"],
    "seeds": {"count": 8},
    "figure": {
        "title": "Queueing <delay>",
        "source": "figure 1",
        "metric": "queue_s.mean",
        "x": {"of": "cluster", "label": "servers", "values": {"few.yaml": 1, "many.yaml": 200}},
        "y": {"label": "mean queueing delay", "unit": "s"},
        "published": {"facts": ["none waits"]},
    },
    "shape": [
        {"name": "none waits on many", "range": {"of": "fifo", "between": [-1, 1]}, "at": [200]},
        {
            "name": "SRTF waits on many",
            "range": {"of": "srtf", "between": [1, None]},
            "at": [200],
            "because": "all count",
        },
        {"name": "all count", "metric": "jobs", "range": {"of": "fifo", "between": [19, 21]}},
    ],
    "choices": [
        {
            "id": "C1",
            "ours": "many servers",
            "source": "the paper names no number",
            "alternatives": {"few": {"clusters": {"many.yaml": "few.yaml"}}},
        }
    ],
}
VERDICTS = ["depends on a choice", "depends on a choice", "appears"]
MISSING = {
    **FIGURE,
    "name": "trace",
    "workloads": ["trace.parquet"],
    "figure": {**FIGURE["figure"], "data": {"trace.parquet": "https://example.org/trace"}},  # type: ignore[dict-item]
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two figures, of which one lacks its data; the working directory is another one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    figures = tmp_path / "figures"
    figures.mkdir()
    for name, count in (("few", 1), ("many", 200)):
        (figures / f"{name}.yaml").write_text(CLUSTER.format(name, count))
    for name, content in (("mine", FIGURE), ("trace", MISSING)):
        (figures / f"{name}.yaml").write_text(json.dumps(content))
    return figures


@pytest.mark.ray
def test_figures_run_are_judged_and_resume(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(folder / "mine.yaml"), str(folder / "trace.yaml")]
    content = answer(capsys, "reproduce", *files, "-o", "out")
    mine, trace = content["figures"]
    assert [check["verdict"] for check in mine["checks"]] == VERDICTS
    assert [check["turned_by"] for check in mine["checks"]] == [["C1"], ["C1"], []]
    assert (mine["done"], mine["planned"], trace["done"], trace["checks"]) == (32, 32, 0, [])
    assert trace["answer"] == "Not run, as data is missing. trace.parquet: https://example.org/trace"

    # The point is the mean of the runs' summaries.
    store = ResultStore(Path("out"))
    _, entries = store.read_plan()
    here = [each for each in entries if each.policy == "fifo" and each.cluster == "few.yaml"]
    waits = [read_summary(store.run_directory(each.content_hash)).queue_s.mean for each in here]
    point = next(each for each in mine["points"] if each["series"] == "fifo" and each["x"] == 1)
    assert (point["mean"], point["seeds"]) == (pytest.approx(pl.Series(waits).mean()), 8)

    figure = read_figure("mine", folder / "mine.yaml", HashedInputs())
    (times,) = figure_samples(figure.cells, [1, 200], "timing.wall_s.simulate", store).paired(("fifo", (1,)))
    assert len(times) == 8
    with pytest.raises(UnknownNameError, match=r"queue_s\.mean"):
        figure_samples(figure.cells, [1, 200], "queue_s.mena", store)

    # Jobs of this kind have no utility, so the metric is null.
    for name, metric in (("unknown", "queue_s.mena"), ("null", "utility")):
        check = {"name": "so", "metric": metric, "range": {"of": "fifo", "between": [0, None]}}
        (folder / f"{name}.yaml").write_text(json.dumps({**FIGURE, "shape": [check]}))
    others = [str(folder / "unknown.yaml"), str(folder / "null.yaml")]
    told = answer(capsys, "reproduce", *others, files[0], "-o", "out", "--resume", code=2)
    unknown, null, again = told["figures"]
    where = "shape[0].metric, check 'so': "
    assert unknown["error"].startswith(f"{others[0]}: {where}unknown metric 'queue_s.mena'")
    assert null["error"] == f"{others[1]}: {where}metric 'utility' is null in all runs"
    assert [check["verdict"] for check in again["checks"]] == VERDICTS
    assert "Failed." in Path("out/reproduce.html").read_text()
    assert main(["reproduce", *files, "-o", "out", "--resume"]) == 0
    capsys.readouterr()

    page = Path("out/reproduce.html").read_text()
    assert "Queueing &lt;delay&gt;" in page
    assert "SRTF waits on many: depends on a choice, C1. C1, few: appears. Reason: all count: appears" in page
    assert "the paper names no number" in page
    assert f"ray-sim reproduce {files[0]}" in page
    assert str(folder) not in page.replace(f"ray-sim reproduce {folder}", "")
    assert main(["reproduce", files[0], "-o", "out", "--resume"]) == 0
    printed = capsys.readouterr()
    assert "32 of 32" in printed.out
    assert "none waits on many: depends on a choice, C1." in printed.out
    assert Path("out/mine.html").exists()


def test_a_figure_without_its_data_is_no_failure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", str(folder / "trace.yaml"), "-o", "out"]) == 0
    printed = capsys.readouterr()
    assert "not run: trace.parquet missing" in printed.out
    assert not Path("out").exists()


def test_figures_are_listed_with_cost_and_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", str(folder / "mine.yaml"), str(folder / "trace.yaml"), "--json"]) == 0
    mine, trace = json.loads(capsys.readouterr().out)
    assert (mine["figure"], mine["missing_data"]) == ("mine", {})
    assert (trace["figure"], trace["missing_data"]) == (
        "trace",
        {"trace.parquet": "https://example.org/trace"},
    )


def test_wrong_usage_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "name a figure, a system, or all" in complaint(capsys, "reproduce")
    assert "pd_ors/nothing" in complaint(capsys, "reproduce", "pd_ors/nothing")
    assert "nowhere.yaml: cannot be read" in complaint(capsys, "reproduce", "nowhere.yaml")


@pytest.mark.long
@pytest.mark.ray
def test_all_figures_run_quickly(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "all", "--quick", "-o", "quick", "--json"]) == 0
    for figure in json.loads(capsys.readouterr().out)["figures"]:
        assert figure["done"] == figure["planned"]
        assert figure["checks"] == []


PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(
    f"{name},1000,1024,1,{milli}\n" for name, milli in (("a", 600), ("b", 600), ("c", 600), ("d", 400))
)
STREAM = {
    "name": "stream",
    "workloads": [{"path": "w.parquet", "stream": {"order": "orders.csv"}}],
    "clusters": ["two.yaml"],
    "policies": [{"name": "fifo", "params": {"no_room": "reject", "placement": "best_fit"}}],
    "seeds": [1, 2],
    "figure": {
        "title": "In use",
        "source": "none",
        "metric": "packing.alloc",
        "x": {"of": "arrived_load", "label": "load", "values": {30: 30, 60: 60, 90: 90, 110: 110}},
        "y": {"label": "in use"},
        "series": {"best fit": {"policy.placement": "best_fit"}},
    },
    "shape": [{"name": "it rises", "monotone": {"of": "best fit", "direction": "rises"}}],
}


@pytest.mark.ray
def test_x_may_be_the_load_that_has_come_in_one_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # Two GPUs; a, b, c, d come in this order, 0.6, 1.2, 1.8, 2.2 GPUs in all, and c finds no room. Seed 2:
    # c, d, a, b, and b finds none, so that 0.6, 1.0, 1.6, 1.6 are in use when 30, 50, 80 and 110 % have
    # come; 60 and 90 % have no arrival near.
    (folder / "pods.csv").write_text(PODS)
    servers = "name: two\nservers: [{name: s, gpus: 2, cpus: 64, memory_gib: 64}]\n"
    (folder / "two.yaml").write_text(servers)
    orders = [
        f"l,{seed},pods,{pods}\nl,{seed},servers,0\n" for seed, pods in ((1, "0 1 2 3"), (2, "2 3 0 1"))
    ]
    (folder / "orders.csv").write_text("pod_list,seed,what,order\n" + "".join(orders))
    pods, jobs = str(folder / "pods.csv"), str(folder / "w.parquet")
    assert main(["convert", "gpu-pods", pods, "-o", jobs, "--keep-pending"]) == 0
    (folder / "stream.yaml").write_text(json.dumps(STREAM))
    capsys.readouterr()
    (figure,) = answer(capsys, "reproduce", str(folder / "stream.yaml"), "-o", "out")["figures"]
    assert figure["planned"] == 2
    assert {point["x"]: (point["mean"], point["seeds"]) for point in figure["points"]} == {
        30: (30.0, 2),
        60: (60.0, 1),
        90: (60.0, 1),
        110: (80.0, 2),
    }
