"""A change of code changes the identity of a run; a change of prose does not."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

from ray_sim.experiments.prepare import prepare
from ray_sim.experiments.run_identity import HashedInputs
from ray_sim.experiments.scenario import Scenario
from ray_sim.experiments.source_digest import (
    OUR_PACKAGES,
    OUTSIDE,
    code_sha256,
    covered_sources,
    imported_sha256,
    policy_sha256,
    without_prose,
)
from ray_sim.model.errors import InvalidInputError, InvalidScenarioError
from ray_sim.policies.registry import policy_class
from ray_sim.policies.sjf import Sjf
from tests.conftest import REPOSITORY


def test_the_digest_leaves_out_what_the_import_contract_keeps_from_runs() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (ours,) = (each for each in contracts if each["name"].startswith("Runs do not import what the digest"))
    assert ours["forbidden_modules"] == list(OUTSIDE)
    assert {"ray_sim.experiments.prepare", "ray_sim.policies"} <= set(ours["source_modules"])
    covered = {f"{package}/{path}" for package, path, _ in covered_sources()}
    assert {"ray_sim/policies/sjf.py", "ray_sim/kernels/core/replay.py", "workloads/store.py"} <= covered
    assert not {path for path in covered if path.startswith(("ray_sim/cli", "ray_sim/experiments/fanout"))}


def _without_texts(source: bytes) -> str:
    """The tree without docstrings, `summary` and `section` of classes, meanings and sources of parameters."""
    tree, empty = ast.parse(source), ast.Constant("")
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and _is_text(node.value):
            node.value = empty
        elif isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign | ast.AnnAssign) and _is_text(line.value):
                    target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
                    if isinstance(target, ast.Name) and target.id in ("summary", "section"):
                        line.value = empty
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Parameter":
            if _is_text(node.args[3]):
                node.args[3] = empty
            node.keywords = [
                keyword for keyword in node.keywords if keyword.arg != "source" or not _is_text(keyword.value)
            ]
    return ast.dump(tree)


def _is_text(value: ast.expr | None) -> bool:
    return isinstance(value, ast.JoinedStr) or (
        isinstance(value, ast.Constant) and isinstance(value.value, str)
    )


@pytest.mark.slow
def test_the_digest_leaves_out_all_help_texts_and_nothing_but_prose() -> None:
    for _, path, source in covered_sources():
        assert ast.dump(ast.parse(without_prose(source))) == _without_texts(source), path


def test_only_listings_read_the_texts_that_the_digest_leaves_out() -> None:
    readers = re.compile(
        r"(?:self|cls|policy|kind|rule|parameter|super\(\))\.(?:summary|section|meaning|source)\b"
    )
    found = {
        f"{package}/{path}"
        for package, path, source in covered_sources()
        if readers.search(without_prose(source).decode())
    }
    assert found == {
        "ray_sim/engine/kinds/elastic/jobs.py",  # passes a rule's texts on, to the next
        "ray_sim/engine/world_parameters.py",  # the help of `truth`
        "ray_sim/model/result.py",  # that of a run
        "ray_sim/model/parameters.py",
        "ray_sim/policies/registry.py",
    }


DESCRIBED = b"""class Sjf(Policy):
    section: ClassVar[str] = "docs/models/baselines.md#sjf"
    summary: ClassVar[str] = "shortest run time first"
    wake: ClassVar[str] = "arrival"
    parameters: ClassVar[tuple[Parameter, ...]] = (
        Parameter(
            "limits_s",
            "floats",
            (3600.0,),
            "limits of attained service, "
            "increasing",
            unit="s",
            source="Gu et al.",
            minimum=0.0,
        ),
        Parameter("order", "choice", "first", "order in a queue", choices=("first", "last")),
    )
"""


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("baselines.md#sjf", "sjf.md"),
        ('"shortest run time first"', '(\n        "the shortest # run time "\n        "\\"first\\""\n    )'),
        ('"limits of attained service, "\n            "increasing"', '"limits, increasing"'),
        ('"limits of attained service, "\n            "increasing"', 'f"limits up to {MOST}"'),
        ("Gu et al.", "Gu et al., NSDI 2019"),
        ("order in a queue", "the order"),
    ],
)
def test_a_changed_help_text_changes_nothing(text: str, other: str) -> None:
    reworded = DESCRIBED.decode().replace(text, other)
    assert reworded != DESCRIBED.decode()
    assert without_prose(reworded.encode()) == without_prose(DESCRIBED)


@pytest.mark.parametrize(
    ("code", "other"),
    [
        ("Policy", "Fifo"),
        ('"arrival"', '"review"'),
        ('"limits_s"', '"limit_s"'),
        ("3600.0", "360.0"),
        ('"s"', '"h"'),
        ("minimum=0.0", "minimum=1.0"),
        ('"first", "order', '"last", "order'),
        ('("first", "last")', '("last", "first")'),
    ],
)
def test_a_changed_parameter_changes_the_digest(code: str, other: str) -> None:
    assert without_prose(DESCRIBED.decode().replace(code, other).encode()) != without_prose(DESCRIBED)


def test_a_comment_a_docstring_and_an_empty_line_change_nothing_and_a_sign_does() -> None:
    source = b'"""Sort."""\n\ndef key(job):\n    """Shortest first."""\n    return job["#"]  # seconds\n'
    reworded = source.replace(b"Shortest", b"The shortest").replace(b"  # seconds", b"")
    reworded = reworded.replace(b"\n\n", b"\n\n\n# A key.\n")
    assert without_prose(reworded).replace(b" \n", b"\n") == without_prose(source).replace(b"  \n", b"\n")
    assert without_prose(source.replace(b"return job", b"return -job")) != without_prose(source)
    assert without_prose(source.replace(b'"#"', b'"#s"')) != without_prose(source)


@pytest.mark.slow
def test_a_changed_policy_of_ours_changes_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in OUR_PACKAGES:
        for name, path, source in covered_sources():
            if name == package:
                (tmp_path / package / path).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / package / path).write_bytes(source)
    for package in OUR_PACKAGES:
        monkeypatch.setitem(OUR_PACKAGES, package, tmp_path / package)
    digest = code_sha256.__wrapped__
    before = digest()
    assert before == code_sha256()  # of the original: where the source is does not matter
    sjf = tmp_path / "ray_sim" / "policies" / "sjf.py"
    sjf.write_text(sjf.read_text() + "\nKEY = -1\n")
    assert digest() != before
    assert policy_sha256(Sjf) is None


SOURCES = {
    "mine_a.py": "import os\nimport numpy\nfrom mine_kit import tools\n"
    "from ray_sim.policies.fifo import Fifo\nclass A(Fifo):\n    name = 'a'\n",
    "mine_kit/__init__.py": "",
    "mine_kit/tools.py": "from . import deep\nfrom .deep.well import WATER\n",
    "mine_kit/deep/__init__.py": "from .. import shallow\n",
    "mine_kit/deep/well.py": "WATER = 1\n",
    "mine_kit/shallow.py": "DEPTH = 1\n",
    "mine_kit/unused.py": "",
    "mine_b.py": "",
}


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    _forget_imports()


def _forget_imports() -> None:
    """As in a new process."""
    for name in [name for name in sys.modules if name.startswith("mine_")]:
        del sys.modules[name]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_policy_is_known_by_its_source_and_what_it_imports_from_its_folder(mine: Path, name: str) -> None:
    policy = policy_class("mine_a:A")
    before = policy_sha256(policy)
    (mine / name).write_text(SOURCES[name] + "# changed\n")
    _forget_imports()
    changed = policy_sha256(policy_class("mine_a:A")) != before
    assert changed == (name not in ("mine_kit/unused.py", "mine_b.py"))


def test_a_policy_edited_after_its_import_is_refused_until_it_is_imported_again(mine: Path) -> None:
    policy = policy_class("mine_a:A")
    before = policy_sha256(policy)
    (mine / "mine_kit" / "shallow.py").write_text("DEPTH = 2\n")
    with pytest.raises(InvalidInputError, match="mine_a:A: its files have changed since"):
        policy_sha256(policy)
    assert imported_sha256(policy) == before
    (mine / "mine_kit" / "shallow.py").write_text(SOURCES["mine_kit/shallow.py"])
    assert policy_sha256(policy) == before


def test_other_code_gives_another_content_hash_and_the_same_scenario_hash(at_desk: Path, mine: Path) -> None:
    with chdir(at_desk):
        scenario = Scenario.model_validate(
            {"workload": "week.parquet", "cluster": "small.yaml", "policy": "mine_a:A"}
        )
        before = HashedInputs().identify(scenario)
        (mine / "mine_kit" / "shallow.py").write_text("DEPTH = 2\n")
        _forget_imports()
        after = HashedInputs().identify(scenario)
    assert before.content_hash != after.content_hash
    assert before.scenario_hash == after.scenario_hash
    assert before.manifest()["code"] != after.manifest()["code"]


def test_a_worker_that_finds_other_files_than_were_planned_refuses_the_run(at_desk: Path, mine: Path) -> None:
    with chdir(at_desk):
        scenario = Scenario.model_validate(
            {"workload": "week.parquet", "cluster": "small.yaml", "policy": "mine_a:A"}
        )
        planned = prepare(scenario)
        assert planned.identity.facts["policy_source_sha256"]
        (mine / "mine_kit" / "shallow.py").write_text("DEPTH = 2\n")
        _forget_imports()  # as in a worker that starts after the edit
        with pytest.raises(InvalidScenarioError, match="'mine_a:A': its files on this machine are not those"):
            planned.run()
