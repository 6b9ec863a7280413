"""Hook of mkdocs: the site's name has the version of the package, and anchors are those of a forge."""

from __future__ import annotations

import re
from typing import Any

from ray_sim import __version__


def on_config(config: Any) -> Any:
    """Add the version to the site's name, and GitHub's rule for anchors to the table of contents."""
    config.site_name = f"{config.site_name} {__version__}"
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    return config


def anchor(heading: str, separator: str) -> str:
    """Anchor of a heading as forges make it: small letters, no punctuation, hyphens for blanks."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)
