"""Pages of the site that are no file of docs/: from the package, files beside docs/, source files."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from docs.website import links
from docs.website.reference import commands_page, policy_api_page, python_page, summary_page

REPOSITORY = Path(__file__).parents[2]
LANGUAGES = {".py": "python", ".yaml": "yaml"}


def decisions_page() -> str:
    """The decisions with their titles, in order."""
    lines = ["# Decisions", "Reasons for design decisions, oldest first.", ""]
    for page in sorted((REPOSITORY / "docs/decisions").glob("*.md")):
        title = page.read_text().partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({page.name})")
    return "\n".join([*lines, ""])


GENERATED: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands_page,
    "reference/policy_api.md": policy_api_page,
    "reference/python.md": python_page,
    "reference/summary.md": summary_page,
    "decisions/index.md": decisions_page,
    **{site: (REPOSITORY / path).read_text for path, site in links.OUTSIDE.items()},
}
"""Page of the site: its content; beside these each source file that a page links to has a page."""


def code_page(path: str) -> str:
    """A page with a source file of the repository."""
    text = (REPOSITORY / path).read_text()
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    return f"# {path}\n\n{fence}{LANGUAGES.get(Path(path).suffix, 'text')}\n{text}{fence}\n"
