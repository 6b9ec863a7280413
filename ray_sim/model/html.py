"""Small HTML tables for notebooks. They have no colours of their own, so they suit light and dark pages."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from ray_sim.model.text import shown

_LEFT = ' style="text-align:left;padding-right:1em"'
_RIGHT = ' style="text-align:right;padding-right:1em"'


def escaped(value: object) -> str:
    """A value as HTML text: without markup, credentials and characters that hide others."""
    return html.escape(shown(value))


def table_html(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[tuple[str, bool, bool]]], note: str = ""
) -> str:
    """A table as an HTML element.

    Parameters
    ----------
    columns : headings; empty for a table without a head
    rows : cells (text, whether it is a number, whether it is printed bold)
    """
    head = "".join(f"<th{_LEFT}>{escaped(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(_cell(*cell) for cell in row)}</tr>" for row in rows)
    return (
        f'<div style="overflow-x:auto"><p><b>{escaped(title)}</b></p><table style="color:inherit">'
        f"{f'<thead><tr>{head}</tr></thead>' if columns else ''}<tbody>{body}</tbody></table>"
        f"{f'<p>{escaped(note)}</p>' if note else ''}</div>"
    )


def facts_html(title: str, facts: Iterable[tuple[str, str]], note: str = "") -> str:
    """A table of labels and texts as an HTML element."""
    rows = (((label, False, False), (text, False, False)) for label, text in facts)
    return table_html(title, (), rows, note)


def _cell(text: str, is_number: bool, bold: bool) -> str:
    content = f"<b>{escaped(text)}</b>" if bold else escaped(text)
    return f"<td{_RIGHT if is_number else _LEFT}>{content}</td>"
