"""Warnings of policies, which Python would print with the line of code that gave them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


@contextmanager
def told_warnings(tell: Callable[[str], None]) -> Iterator[None]:
    """Give the text of each warning of a policy (`UserWarning`) to `tell`; others are shown as usual."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is UserWarning:
                tell(str(message))
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield
