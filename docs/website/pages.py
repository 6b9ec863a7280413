"""Hook of mkdocs: adds the generated pages, and leads links to them."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File

from docs.website import links
from docs.website.generated import GENERATED, REPOSITORY, code_page
from docs.website.notebook_pages import notebook_files


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages, and a page for each source file that some page links to."""
    for name, content in GENERATED.items():
        files.append(File.generated(config, name, content=content()))
    for notebook in sorted((REPOSITORY / "docs/notebooks").glob("*.ipynb")):
        for name, shown in notebook_files(notebook).items():
            files.append(File.generated(config, f"notebooks/{name}", content=shown))
    linked = {
        path
        for page in files.documentation_pages()
        for path in links.targets(page.content_string, page.src_uri)
    }
    for path in sorted(linked):
        if not links.is_code(path) or not (REPOSITORY / path).is_file():
            continue  # mkdocs reports a link that leads nowhere
        files.append(File.generated(config, links.in_site(path), content=code_page(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Lead links to files of the repository to the pages that show them."""
    if page.file.src_uri.startswith("code/"):
        return markdown
    return links.for_site(markdown, page.file.src_uri)
