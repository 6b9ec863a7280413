"""Links of pages in docs/, which a forge resolves in the repository, as links within the site."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

PICTURES = (".png", ".svg")
OUTSIDE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the site that are not in docs/, by their path in the repository."""
FOLDERS = {"docs/decisions": "decisions/index.md", "docs/traces": "traces/README.md"}
"""Pages of the site that stand for a folder of the repository."""

_CODE_OR_LINK = re.compile(r"(^ *```.*?^ *```$|`[^`]*`)|\]\(([^)\s]+)\)", re.MULTILINE | re.DOTALL)


def in_repository(page: str) -> str:
    """Path in the repository of a page of the site."""
    outside = {site: path for path, site in OUTSIDE.items()}
    return outside.get(page, f"docs/{page}")


def in_site(path: str) -> str:
    """Page or picture of the site that shows a file or folder of the repository.

    Source files have a page of their own under ``code/``, see `is_code`.
    """
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path in FOLDERS:
        return FOLDERS[path]
    if path.endswith(".ipynb"):
        path = path.removesuffix(".ipynb") + ".md"
    inside = path.startswith("docs/") and path.endswith((".md", *PICTURES))
    return path.removeprefix("docs/") if inside else f"code/{path}.md"


def is_code(path: str) -> bool:
    """Whether a file of the repository is shown as source code."""
    return in_site(path).startswith("code/")


def targets(markdown: str, page: str) -> list[str]:
    """Paths in the repository that a page links to, in order, without anchors."""
    found: list[str] = []

    def note(path: str) -> str:
        found.append(path)
        return path

    _rewrite(markdown, page, note)
    return found


def for_site(markdown: str, page: str) -> str:
    """The text of a page with its relative links leading to pages of the site."""
    return _rewrite(
        markdown, page, lambda path: posixpath.relpath(in_site(path), posixpath.dirname(page) or ".")
    )


def _rewrite(markdown: str, page: str, new: Callable[[str], str]) -> str:
    """Replace each relative link outside of code by ``new(path in the repository)``; anchors stay."""
    folder = posixpath.dirname(in_repository(page))

    def replaced(match: re.Match[str]) -> str:
        link = match[2]
        if link is None or "://" in link or link.startswith("#"):
            return match[0]
        path, hash_sign, anchor = link.partition("#")
        return f"]({new(posixpath.normpath(posixpath.join(folder, path)))}{hash_sign}{anchor})"

    return _CODE_OR_LINK.sub(replaced, markdown)
