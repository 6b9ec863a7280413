"""No command deletes or overwrites what is not its own earlier output."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ray_sim.cli import main
from ray_sim.experiments.conversion import write_cluster
from ray_sim.experiments.inputs.cluster_file import load_cluster
from ray_sim.experiments.results.result_directories import replace_files
from ray_sim.experiments.results.result_files import encode_result, read_manifest
from ray_sim.model.errors import InvalidInputError
from tests.results_by_hand import three_jobs
from workloads.files import is_signed, signed
from workloads.store import read_frame

RUN = ["run", "--workload", "week.parquet", "--cluster", "small.yaml", "--policy", "fifo", "-o", "out"]


@pytest.fixture
def here(at_desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with links to the desk's workload and cluster."""
    for name in ("week.parquet", "small.yaml"):
        (tmp_path / name).symlink_to(at_desk / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    capsys.readouterr()
    assert main(list(command)) == 2
    return capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("name", ["notes.md", "plots/cdf.png", "jobs.parquet.bak", ".hidden"])
def test_a_run_never_takes_a_users_file_with_it(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(RUN) == 0
    assert main(RUN) == 0  # its own result it may replace
    mine = here / "out" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("a week of work")
    error = refused(capsys, *RUN)
    assert f"{Path('out', name.split('/')[0])}: is no file of a result" in error
    assert "move it elsewhere or choose another -o" in error
    assert mine.read_text() == "a week of work"
    with pytest.raises(InvalidInputError, match="is no file of a result"):  # also if it came meanwhile
        replace_files(here / "out", encode_result(three_jobs(), {"content_hash": "a"}))
    assert mine.read_text() == "a week of work"
    assert read_manifest(here / "out")["policy"] == "fifo"


OUTPUTS = {
    "w.parquet": ["synth", "philly", "-n", "20", "-o"],
    "e.parquet": ["enrich", "week.parquet", "--profile", "pd_ors", "-o"],
    "f.csv": ["failures", "small.yaml", "--mtbf-s", "1e4", "--repair-s", "60", "--until-s", "1e5", "-o"],
    "r.html": ["report", "out", "-o"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_file_that_is_not_ours_is_refused_and_ours_is_replaced(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(RUN) == 0
    command = [*OUTPUTS[name], name]
    (here / name).write_text("mine")
    assert f"{name}: is there already and not as ray-sim wrote it" in refused(capsys, *command)
    assert (here / name).read_text() == "mine"
    (here / name).unlink()
    assert main(command) == 0
    first = (here / name).read_bytes()
    assert main(command) == 0
    assert (here / name).read_bytes() == first


def test_a_text_of_ours_that_was_edited_is_the_users(here: Path) -> None:
    cluster = load_cluster("small.yaml")
    write_cluster(cluster, here / "c.yaml")
    write_cluster(cluster, here / "c.yaml")
    edited = (here / "c.yaml").read_text().replace("gpus: 4", "gpus: 8")
    (here / "c.yaml").write_text(edited)
    with pytest.raises(InvalidInputError, match=r"c.yaml: is there already and not as ray-sim wrote it"):
        write_cluster(cluster, here / "c.yaml")
    assert (here / "c.yaml").read_text() == edited
    assert load_cluster("c.yaml").capacity.sum() == 2 * load_cluster("small.yaml").capacity.sum()


def test_a_signature_is_of_every_byte_before_it(tmp_path: Path) -> None:
    sound = signed(b"a\nb\n")
    for index in range(len(b"a\nb\n")):
        (tmp_path / "f").write_bytes(sound[:index] + b"x" + sound[index + 1 :])
        assert not is_signed(tmp_path / "f")
    added = (b"# more\n", b"\n", b"x", b"1,2\n# more\n")
    begun = sound.replace(b"# written", b"mine # written")
    for edited in (*(sound + text for text in added), begun, sound[:-1], sound.replace(b"\n", b"\r\n")):
        (tmp_path / "f").write_bytes(edited)
        assert not is_signed(tmp_path / "f")
    (tmp_path / "f").write_bytes(sound)
    assert is_signed(tmp_path / "f")
    assert not is_signed(tmp_path / "f", b"<!-- ", b" -->")
    assert not is_signed(tmp_path / "none")


@pytest.mark.slow
def test_a_result_that_was_changed_is_not_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == 0
    assert main(RUN) == 0  # ours, as we wrote it
    edited = (here / "out" / "summary.json").read_text() + " "
    (here / "out" / "summary.json").write_text(edited)
    assert "out: is not as ray-sim wrote it, so it is not replaced" in refused(capsys, *RUN)
    assert (here / "out" / "summary.json").read_text() == edited


def test_the_wall_clock_figures_of_another_run_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(RUN) == 0
    other = [*RUN[:-1], "other", "--policy", "sjf"]
    assert main(other) == 0
    (here / "out" / "timing.json").write_bytes((here / "other" / "timing.json").read_bytes())
    assert "timing.json: of another run; run the scenario again" in refused(capsys, "info", "out")


def test_a_link_is_no_place_for_a_result(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "there").mkdir()
    (here / "out").symlink_to("there")
    assert "out: is a symbolic link; name the directory itself" in refused(capsys, *RUN)


TRACE = "submit,gpus,seconds\n0,1,60\n5,1,{}\n"
MAP = "columns: {submit_s: submit, num_gpus: gpus, duration_s: seconds}\n"


def _convert(*options: str) -> list[str]:
    return ["convert", "csv", "t.csv", "--map", "m.yaml", "-o", "w.parquet", *options]


@pytest.mark.slow
def test_convert_overwrites_neither_other_files_nor_its_own_rejects_unseen(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "m.yaml").write_text(MAP)
    (here / "t.csv").write_text(TRACE.format("soon"))
    rejects = here / "w.parquet.rejects.parquet"
    assert main(_convert()) == 0
    assert pl.read_parquet(rejects).height == 1
    (here / "t.csv").write_text(TRACE.format(60))
    assert main(_convert()) == 0
    assert not rejects.exists()  # of the conversion before
    rejects.write_text("mine")
    assert "w.parquet.rejects.parquet: is there already" in refused(capsys, *_convert())
    assert rejects.read_text() == "mine"
    assert "week.parquet: is there already" in refused(capsys, *_convert("--rejects", "week.parquet"))
    assert "t.csv: is a source, and would be overwritten" in refused(capsys, *_convert("--rejects", "t.csv"))
    assert "m.yaml: is there already" in refused(capsys, *_convert("--cluster-out", "m.yaml"))
    assert read_frame(here / "week.parquet").height == 40


def test_no_input_is_overwritten_by_what_is_made_of_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (here / "week.parquet").read_bytes()
    for command in (
        ["enrich", "week.parquet", "-o", "week.parquet", "--profile", "pd_ors"],
        ["synth", "-n", "20", "--like", "week.parquet", "-o", "week.parquet"],
    ):
        assert "week.parquet: is a source, and would be overwritten" in refused(capsys, *command)
    assert (here / "week.parquet").read_bytes() == before


def test_figures_of_the_benchmarks_replace_figures_only(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "figures.json").write_text(json.dumps({"mine": 1}))
    assert "figures.json: is there already" in refused(capsys, "bench", "replay", "-o", "figures.json")
