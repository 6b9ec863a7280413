"""Listings of what there is: version, world parameters, clusters, formats, and a completion for shells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ray_sim import __version__
from ray_sim.cli import main
from ray_sim.cli.console import print_table
from ray_sim.engine.kinds.base import JobKind
from ray_sim.engine.kinds.registry import JOB_KINDS
from ray_sim.engine.world_parameters import WORLD_PARAMETERS, check_heeded, heeding
from ray_sim.experiments.inputs.cluster_file import bundled_clusters
from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameters import resolve
from tests.command_line import answer, complaint, process
from tests.conftest import REPOSITORY
from workloads.formats.registry import all_formats, presets


def records(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, object]]:
    """The records that a command prints as JSON."""
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"ray-sim {__version__}\n"


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
    assert main(["policies", "posted_price"]) == 0
    options = capsys.readouterr().out
    assert "-w signal (none, partial, full)" in options
    assert "misreport (none, value, deadline, collapsed, gpus)" in options
    assert "Did you mean 'srtf'" in complaint(capsys, "policies", "srft")


def test_every_world_parameter_is_listed_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    listed = records(capsys, "worlds")
    assert [each["name"] for each in listed] == [each.name for each in WORLD]
    assert all(each["meaning"] and each["truths"] for each in listed)
    for kind in JOB_KINDS:
        own = {each["name"] for each in records(capsys, "worlds", kind.truth)}
        assert own == {each.name for each in WORLD if kind.truth in heeding(each)}
    assert "unknown truth 'announce'. Did you mean 'announced'?" in complaint(capsys, "worlds", "announce")


@pytest.mark.parametrize("kind", JOB_KINDS, ids=lambda kind: kind.truth)
def test_a_parameter_is_listed_for_the_truths_that_do_not_refuse_it(kind: JobKind) -> None:
    defaults = resolve("the world", WORLD_PARAMETERS, {"truth": kind.truth})
    for parameter in WORLD_PARAMETERS:
        if parameter.name == "truth":
            continue
        try:
            check_heeded({**defaults, parameter.name: "other than the default"})
            heeded = True
        except InvalidScenarioError:
            heeded = False
        assert heeded == (kind.truth in heeding(parameter)), parameter.name


def test_every_bundled_cluster_is_listed_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    listed = {each["name"]: each for each in records(capsys, "clusters")}
    assert listed.keys() == bundled_clusters().keys()
    assert all(each["purpose"] for each in listed.values())
    assert listed["pool-368"]["capacity"] == {"gpu": 368.0}
    assert main(["clusters"]) == 0
    assert "One pool of 368 GPUs, the size at which" in capsys.readouterr().out


def test_every_format_is_listed_with_a_page_that_exists(capsys: pytest.CaptureFixture[str]) -> None:
    listed = records(capsys, "formats")
    assert [each["name"] for each in listed] == list(all_formats())
    for each in listed:
        page, _, heading = str(each["page"]).partition("#")
        text = (REPOSITORY / page).read_text()
        named = heading if each["name"] in presets() else heading.replace("-", " ", 1).capitalize()
        assert not heading or f"# {named}\n" in text
        assert each["source"]
        assert each["files"]


def test_a_preset_is_shown_as_a_mapping_file_to_edit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["formats", "helios", "--show"]) == 0
    mine = tmp_path / "mine.yaml"
    mine.write_text(capsys.readouterr().out)
    assert mine.read_bytes() == presets()["helios"].read_bytes()
    sample = str(REPOSITORY / "workloads" / "samples" / "presets" / "helios.csv")
    for argv in (["helios"], ["csv", "--map", str(mine)]):
        assert answer(capsys, "convert", *argv, sample, "-o", str(tmp_path / "w.parquet"))["kept"] == 4


def test_only_a_preset_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert [each["name"] for each in records(capsys, "formats", "philly")] == ["philly"]
    assert main(["formats", "philly", "--show"]) == 2
    assert "--show: philly is no preset; name one of acme, " in capsys.readouterr().err
    assert main(["formats", "--show"]) == 2
    assert main(["formats", "slurm"]) == 2


@pytest.mark.slow
def test_a_shell_completes_the_names_of_commands() -> None:
    ended = process(_RAY_SIM_COMPLETE="complete_bash", COMP_WORDS="ray-sim cl", COMP_CWORD="1")
    assert ended.stdout.split() == ["clusters"]


def test_info_answers_for_another_number_of_servers(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer(capsys, "info", "pool-368@server.count=3")["capacity"] == {"gpu": 24.0}


@pytest.mark.parametrize(
    "argv",
    ["policies", "policies las", "policies pd_ors", "worlds", "clusters", "formats", "info philly", "--help"],
)
def test_listings_keep_to_the_width_of_the_terminal(
    argv: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(argv.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_a_table_that_is_too_wide_tells_equal_columns_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns, rows = ("policy", "completed", "mean JCT s"), [("fifo", 300, 20.5), ("sjf", 300, 7.0)]
    monkeypatch.setenv("COLUMNS", "80")
    print_table(columns, rows)
    printed = " ".join(capsys.readouterr().out.split())
    assert printed == "policy completed mean JCT s fifo 300 20.5 sjf 300 7"
    monkeypatch.setenv("COLUMNS", "16")
    print_table(columns, rows)
    table, told = capsys.readouterr().out.split("in all rows:")
    assert table.split() == ["mean", "JCT", "policy", "s", "fifo", "20.5", "sjf", "7"]
    assert told.split() == ["completed", "300"]
