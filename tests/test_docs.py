"""The documentation names only what exists: links, commands, options, parameters, files and Python names."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml

from docs.website.generated import GENERATED
from ray_sim.cli.app import application
from ray_sim.engine.world_parameters import WORLD_PARAMETERS
from ray_sim.environments import ENVIRONMENTS
from ray_sim.experiments.inputs.cluster_file import _Servers
from ray_sim.experiments.inputs.server_files import WORLD
from ray_sim.model.figures import all_figures
from ray_sim.model.result import Summary
from ray_sim.policies.registry import BUILT_IN, policy_class

REPOSITORY = Path(__file__).parents[1]
PAGES = [*(REPOSITORY / "docs").rglob("*.md"), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]
GUIDE = [page for page in PAGES if page.parent.name != "decisions"]
"""Without the decisions, which also tell what there was, and what there shall not be."""

_BUILT_IN = tuple(policy_class(name) for name in BUILT_IN)

OTHER_OPTIONS = frozenset(
    {
        *("--working-dir", "--runtime-env-json", "--submission-id", "--no-wait"),
        *("--require-hashes", "--no-deps", "--userns"),
    }
)
"""Of programs that the pages name beside ray-sim."""


def _each(pages: Sequence[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("page", sorted(pages), ids=lambda page: str(page.relative_to(REPOSITORY)))


def _without_code(text: str) -> str:
    fences_removed = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", fences_removed)


@cache
def _anchors(page: Path) -> frozenset[str]:
    """Anchors that GitHub gives the headings: small letters, no punctuation, hyphens for blanks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    )


@_each(PAGES)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", _without_code(page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in _anchors(file)):
            broken.append(target)
    assert broken == []


def _code(page: Path) -> list[str]:
    """Lines of code, and spans of code between backticks."""
    text = re.sub(r"\\\n +", "", page.read_text())  # a command that goes on in the next line
    indented = re.findall(r"^(?: {4}|  +)(\S.*)$", text, re.MULTILINE)
    fenced = "\n".join(re.findall(r"^```[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)).splitlines()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    spans = [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", prose)]
    return [*(line for line in [*indented, *fenced] if "`" not in line), *spans]


def _commands(page: Path) -> list[list[str]]:
    """Words of each `ray-sim COMMAND ...`, without comments."""
    starts = [line[line.index("ray-sim ") :] for line in _code(page) if "ray-sim " in line]
    return [shlex.split(start, comments=True) for start in starts]


@cache
def _options() -> dict[str, frozenset[str]]:
    """Options of each command."""
    group = typer.main.get_group(application())
    return {
        name: frozenset(["--help", *(option for each in command.params for option in each.opts)])
        for name, command in group.commands.items()
    }


def _linked(page: Path) -> set[Path]:
    """Pages that a page links to."""
    links = re.findall(r"\]\(([^)#\s]+\.md)", _without_code(page.read_text()))
    return {(page.parent / link).resolve() for link in links}


def _in_navigation(entry: object) -> list[str]:
    """Pages of a part of `nav` of mkdocs.yml."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(parts, Iterable)
    return [page for part in parts for page in _in_navigation(part)]


def test_the_sites_navigation_has_every_page_once_and_the_index_of_docs_leads_to_all() -> None:
    docs = REPOSITORY / "docs"
    listed = _in_navigation(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())["nav"])
    assert len(listed) == len(set(listed))
    written = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")}
    asked = {page for page in written if not page.startswith("decisions/")}
    assert asked - set(listed) == set()
    notebooks = {path.with_suffix(".md").relative_to(docs).as_posix() for path in docs.rglob("*.ipynb")}
    assert set(listed) - asked == (GENERATED.keys() - {"decisions/index.md"}) | notebooks
    indices = [docs / name for name in ("README.md", "models/README.md", "traces/README.md")]
    assert {docs / page for page in asked} - set(indices[:1]) <= set().union(*map(_linked, indices))


def test_the_gallery_shows_every_picture_with_the_command_that_draws_it() -> None:
    page = (REPOSITORY / "docs/gallery.md").read_text()
    sections = page.split("\n## ")[1:]
    pictures = [re.findall(r"!\[[^\]]+\]\(pictures/([^)]+)\)", section) for section in sections]
    assert sorted(name for names in pictures for name in names) == sorted(
        path.name for path in (REPOSITORY / "docs/pictures").iterdir()
    )
    assert [section for section in sections if not re.search(r"^ {4}\S", section, re.MULTILINE)] == []
    scripts = re.findall(r"^ {4}python (\S+\.py)", page, re.MULTILINE)
    assert [name for name in scripts if not list(REPOSITORY.glob(f"docs/**/{Path(name).name}"))] == []


@_each(GUIDE)
def test_every_command_and_option_exists(page: Path) -> None:
    unknown = []
    for words in _commands(page):
        name = words[1] if len(words) > 1 else "--help"
        known = _options().get(name)
        if known is None:
            unknown += [] if name.startswith("--") else [name]
            continue
        asked = [word.partition("=")[0].strip("[]") for word in words[2:] if re.match(r"\[?--?[a-z]", word)]
        unknown += [f"{name} {option}" for option in asked if option not in known]
    every = OTHER_OPTIONS.union(*_options().values())
    alone = {option for code in _code(page) for option in re.findall(r"^--[a-z-]+", code)}
    assert unknown == []
    assert alone <= every


def _named(pattern: str, page: Path) -> set[str]:
    return {name for code in _code(page) for name in re.findall(pattern, code)} - {"KEY"}


@_each(GUIDE)
def test_every_parameter_of_a_policy_or_of_the_world_exists(page: Path) -> None:
    in_policies = {parameter.name for policy in _BUILT_IN for parameter in policy.parameters}
    assert _named(r"-p (\w+)=", page) <= in_policies
    assert _named(r"-w (\w+)=", page) <= {parameter.name for parameter in WORLD}


def _pages_named(text: str) -> list[tuple[str, str]]:
    """Pages of the project in a text, as path and anchor."""
    return re.findall(r"(docs/[\w./-]+\.md)(?:#([\w-]+))?", text)


def test_every_policy_names_the_page_of_its_model_and_a_heading_on_it() -> None:
    wrong = []
    for policy in _BUILT_IN:
        [(path, anchor)] = _pages_named(policy.section) or [("", "")]
        page = REPOSITORY / path
        if page.parent != REPOSITORY / "docs/models" or not page.exists() or anchor not in _anchors(page):
            wrong.append((policy.name, policy.section))
    assert wrong == []


def test_every_parameter_names_a_page_and_a_heading_that_exist() -> None:
    of_policies = [parameter for policy in _BUILT_IN for parameter in policy.parameters]
    wrong = []
    for parameter in (*of_policies, *WORLD_PARAMETERS):
        pages = _pages_named(parameter.source)
        lost = [
            path
            for path, anchor in pages
            if not (REPOSITORY / path).exists() or anchor not in _anchors(REPOSITORY / path)
        ]
        if lost or not pages:
            wrong.append((parameter.name, parameter.source))
    assert wrong == []


def test_every_model_is_in_the_index_of_models() -> None:
    index = REPOSITORY / "docs/models/README.md"
    linked = re.findall(r"^\| \[(\w+\.md)\]", index.read_text(), re.MULTILINE)
    assert sorted(linked) == sorted(page.name for page in index.parent.glob("*.md") if page != index)


def test_every_example_that_a_test_cites_is_worked_on_a_page_of_a_model() -> None:
    sources = "".join(file.read_text() for file in (REPOSITORY / "tests").rglob("*.py"))
    pages = [*(REPOSITORY / "docs/models").glob("*.md"), REPOSITORY / "docs/certificates.md"]
    models = "".join(page.read_text() for page in pages)
    cited = set(re.findall(r"[Ee]xample (\d\.[A-Z])\b", sources))
    assert cited <= set(re.findall(r"\*\*Example (\d\.[A-Z])\b", models))
    assert cited


@pytest.mark.parametrize("name", ["docs/glossary.md", "docs/policies.md"])
def test_a_page_refers_to_headings_and_not_to_numbers_of_sections(name: str) -> None:
    assert re.findall(r"\bsections? \d[\d.]*", (REPOSITORY / name).read_text()) == []


def test_the_glossary_is_in_order_and_tells_where_to_read_on() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$", (REPOSITORY / "docs/glossary.md").read_text(), re.MULTILINE
    )[1:]
    terms = [term for term, _, _ in rows]
    assert terms == sorted(terms, key=str.lower)
    assert [term for term, meaning, more in rows if not meaning.endswith(".") or "](" not in more] == []
    asked = {
        "truth",
        "gap",
        "bound",
        "certificate",
        "knob",
        "vc",
        "site",
        "fleet",
        "kind of job",
        "partition",
    }
    assert asked <= set(terms)


def test_every_world_parameter_is_on_the_page_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \|", (REPOSITORY / "docs/engine.md").read_text(), re.MULTILINE)
    told = dict(rows)
    defaults = {each.name: each.default for each in WORLD_PARAMETERS} | {"availability": None}
    shown = {name: "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
             for name, value in defaults.items()}  # fmt: skip
    assert {name: told.get(name) for name in shown} == shown


def test_every_key_of_a_cluster_file_is_on_its_page() -> None:
    table = re.findall(r"^\|([^|]*)\|", (REPOSITORY / "docs/clusters.md").read_text(), re.MULTILINE)
    told = re.findall(r"(\w+)`", " ".join(table))
    assert set(_Servers.model_fields) <= set(told)


def test_every_number_of_a_summary_is_explained_on_some_page() -> None:
    told = set(re.findall(r"`(\w+)`", "".join(page.read_text() for page in GUIDE)))
    names = {each.name for each in fields(Summary)} - {"figures"} | all_figures({}).keys()
    assert sorted(names - told) == []


def test_every_command_takes_json_as_the_guide_says() -> None:
    assert [name for name, options in _options().items() if "--json" not in options] == []


def test_every_policy_is_listed() -> None:
    text = (REPOSITORY / "docs/policies.md").read_text()
    listed = re.findall(r"^\| \[?`(\w+)`", text, re.MULTILINE)
    assert set(BUILT_IN) <= set(listed)


@_each(GUIDE)
def test_every_file_of_the_project_that_is_named_exists(page: Path) -> None:
    folders = "ray_sim|workloads|tests|docs|jobs|benchmarks|cluster_specs"
    named = {name for code in _code(page) for name in re.findall(rf"^((?:{folders})/[\w./-]+)$", code)}
    named -= ENVIRONMENTS.keys()
    assert [name for name in sorted(named) if not (REPOSITORY / name).exists()] == []


@_each(GUIDE)
def test_every_python_name_exists(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "docs/examples")  # these files import each other
    unknown = []
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module:
                if node.module.startswith("ray_sim.learning"):
                    pytest.importorskip("torch", reason="torch is not installed")
                module = importlib.import_module(node.module)
                unknown += [each.name for each in node.names if not hasattr(module, each.name)]
    for name in _named(r"^((?:ray_sim|workloads)(?:\.\w+){2,})$", page):  # tags of MLflow have two parts
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            unknown.append(name)
    assert unknown == []
