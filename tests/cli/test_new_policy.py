"""Policies to start from: written once, under a name that can be imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from ray_sim.cli import main
from ray_sim.cli.new_policy import starter
from ray_sim.contract.suite import check_policy
from ray_sim.model.errors import InvalidInputError
from tests.command_line import answer

EXAMPLES = Path(__file__).parents[2] / "docs/examples"


def test_the_page_shows_the_file_of_level_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)  # where the file is: elsewhere the name may be that of an installed module
    assert starter("time_slices", 3) == (EXAMPLES / "time_slices.py").read_text()


def test_a_file_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    told = answer(capsys, "new-policy", "my_policy", "--level", "1")
    assert told["policy"] == "my_policy:MyPolicy"
    assert "class MyPolicy(PriorityPolicy):" in (tmp_path / "my_policy.py").read_text()
    assert main(["new-policy", "my_policy"]) == 2
    assert "my_policy.py: cannot be written: File exists; choose another NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "told"),
    [("queue", "a module of this name is installed"), ("My-Policy", "lower-case"), ("class", "lower-case")],
)
def test_a_name_that_cannot_be_imported_is_refused(name: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        starter(name, 2)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 2])
def test_starters_keep_the_contract(level: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"starter_{level}"
    (tmp_path / f"{name}.py").write_text(starter(name, level))
    monkeypatch.syspath_prepend(tmp_path)
    outcomes = check_policy(f"{name}:Starter{level}")
    assert [(each.name, each.detail) for each in outcomes if each.failed] == []
