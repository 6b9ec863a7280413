"""The documentation site, built with --strict: links lead somewhere, search works from disk, pages fit."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from ray_sim import __version__, policy_api
from ray_sim.cli.app import COMMANDS
from tests.chromium import CATCH, answers_of

pytestmark = [pytest.mark.docs, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[1]
LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src"}
"""Elements that a browser loads something for, and the attribute that says from where."""

PROBE = """
<script>
const probe = () => {
  const found = [...document.querySelectorAll(".md-search-result__link")].map((link) => link.innerText);
  if (location.search && !found.length) { setTimeout(probe, 50); return; }
  const root = document.documentElement;
  parent.postMessage([window.name, {
    wide: root.scrollWidth, window: root.clientWidth, found, errors: window.failures,
    loaded: performance.getEntriesByType("resource").map((each) => each.name),
    paper: getComputedStyle(document.body).backgroundColor }], "*");
};
addEventListener("load", () => setTimeout(probe, 0));
</script>
"""


@dataclass
class Page(HTMLParser):
    """What a page of the site has: anchors, links, what it loads, and its text outside of code."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(LOADED.get(tag, "")):
            self.loads.append(given[LOADED[tag]])
        self._code += tag in ("code", "script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in ("code", "script", "style")

    def handle_data(self, data: str) -> None:
        if not self._code:
            self.text.append(data)


@cache
def page_at(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text())
    return page


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="the packages of requirements-docs.lock are absent: make docs-check")
    folder = tmp_path_factory.mktemp("site")
    # Not --quiet, which hides warnings from --strict too.
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(build, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> list[Path]:
    return sorted(set(site.rglob("*.html")) - {site / "404.html"})


def _leads_nowhere(page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if target.suffix != ".html":
        return not target.is_file()
    anchor = unquote(parts.fragment)
    return not target.is_file() or bool(anchor and anchor not in page_at(target).anchors)


def test_every_link_leads_to_a_page_and_an_anchor_of_the_site(pages: list[Path]) -> None:
    broken = [
        (page.name, link) for page in pages for link in page_at(page).links if _leads_nowhere(page, link)
    ]
    assert len(pages) > 100
    assert broken == []


def test_everything_that_a_page_loads_is_in_the_site(site: Path, pages: list[Path]) -> None:
    loads = [(page, address) for page in pages for address in page_at(page).loads]
    assert [(page.name, address) for page, address in loads if urlsplit(address).scheme] == []
    assert [(page.name, address) for page, address in loads if _leads_nowhere(page, address)] == []
    styles = "".join(style.read_text() for style in site.rglob("*.css"))
    assert [
        address for address in re.findall(r"url\(['\"]?(\w+:[^)]*)", styles) if address[:5] != "data:"
    ] == []


def test_tables_lists_and_links_are_no_longer_markdown(pages: list[Path]) -> None:
    # A forge shows some forms that the site's renderer takes for text, as a table right below a paragraph.
    left = re.compile(r"\|\s*:?-{3}|\]\(|^[*-] \w|:::", re.MULTILINE)
    found = [(page.name, left.findall("".join(page_at(page).text))) for page in pages]
    assert [(name, each) for name, each in found if each] == []


def test_the_site_shows_its_version_and_references_are_whole(site: Path) -> None:
    assert f"ray_sim {__version__}" in "".join(page_at(site / "index.html").text)
    commands = page_at(site / "reference/commands.html").anchors
    assert {f"ray-sim-{command.__name__.replace('_', '-')}" for command in COMMANDS} <= commands
    names = page_at(site / "reference/policy_api.html").anchors
    documented = [name for name in policy_api.__all__ if not isinstance(getattr(policy_api, name), int)]
    assert [name for name in documented if f"ray_sim.policy_api.{name}" not in names] == []
    assert "ray_sim.simulate" in page_at(site / "reference/python.html").anchors
    keys = page_at(site / "reference/summary.html")
    assert "ray_sim.model.result.Summary.jct_s" in keys.anchors
    assert "ray_sim.model.result.Summary.flat" not in keys.anchors  # a method is no key
    assert "instance-attribute" not in "".join(keys.text)


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in (REPOSITORY / "docs/notebooks").glob("*.ipynb"))
)
def test_notebooks_are_on_the_site_with_what_their_cells_show(site: Path, name: str) -> None:
    page = (site / f"notebooks/{name}.html").read_text()
    assert '<div class="output"><' in page
    assert f'src="{name}_0.png"' in page
    assert "Traceback" not in page


OPENED = {
    "index.html": "?q=certificate",
    "start.html": "",
    "workloads.html": "",
    "notebooks/first_study.html": "",
}
"""Pages that the browser opens, with their queries."""
WIDTHS = (1400, 400)
"""Widths of a screen and of a phone, in pixels."""


def probed(site: Path, browser: str, folder: Path, *, dark: bool) -> dict[str, dict[str, Any]]:
    """Answers of pages that are opened from disk, by page and width."""
    frames: dict[str, tuple[str, int]] = {}
    for name, query in OPENED.items():
        text = (site / name).read_text().replace("<head>", "<head>" + CATCH, 1)
        probe = Path(name).with_name(f"probe-{Path(name).name}").as_posix()
        (site / probe).write_text(text.replace("</body>", PROBE + "</body>"))
        frames |= {f"{name} {width}": (f"{probe}{query}", width) for width in WIDTHS}
    return answers_of(browser, folder / "profile", site, frames, dark=dark)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_fit_a_screen_and_a_phone_and_search_finds_certificates(
    dark: bool, site: Path, browser: str, tmp_path: Path
) -> None:
    answers = probed(site, browser, tmp_path, dark=dark)
    assert len(answers) == len(OPENED) * len(WIDTHS)
    for frame, found in answers.items():
        name, width = frame.split()
        assert found["errors"] == [], frame
        assert found["wide"] <= found["window"] <= int(width), frame
        assert [each for each in found["loaded"] if not each.startswith(("file:", "data:"))] == [], frame
        assert found["paper"] == ("rgb(30, 33, 41)" if dark else "rgb(255, 255, 255)"), frame
        assert ("Certificates" in " ".join(found["found"])) == bool(OPENED[name]), frame
