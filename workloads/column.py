"""Description of a workload column, and limits that several columns share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

MAX_COUNT = 2**20
"""The most GPUs, cores, tasks or attempts a row may have; more is a broken trace."""

MAX_GIB = 2**30
"""The most memory or disk a task may have."""

MAX_NORM = 2**10
"""The most of a resource measured in the trace's largest machines that a task may have."""

MAX_MB = 2**30
"""Largest model in MB; also the largest bandwidth in Mbit/s."""

MAX_WHOLE = 2**52
"""The largest order or priority; whole numbers up to here survive a floating-point reader."""


class ColumnOrigin(StrEnum):
    """Origin of a column's values."""

    TRACE = "trace"
    """Measured: the trace has it, or it is null."""
    PROFILE = "profile"
    """Training of the job, measured or drawn; a workload may lack these columns."""


@dataclass(frozen=True, slots=True)
class TextForm:
    """Required form of the texts of a column."""

    wanted: str
    parse: Callable[[str], object]
    """Raises ValueError for another text."""
    faults_of_all: Callable[[pl.Series], Mapping[int, str]] | None = None
    """Errors of `parse` for many texts at once, by index; None where parsing one by one is fast enough."""

    def fault(self, text: str) -> str | None:
        """What is wrong with the text; None where it has the form."""
        try:
            self.parse(text)
        except ValueError as error:
            return str(error)
        return None

    def allows(self, text: str) -> bool:
        """Whether the text has the form."""
        return self.fault(text) is None

    def wrong(self, texts: pl.Series) -> list[str]:
        """Those of the texts that lack the form."""
        if self.faults_of_all is None:
            return [text for text in texts if not self.allows(text)]
        return texts.gather(sorted(self.faults_of_all(texts))).to_list()


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, dtype, meaning, allowed values."""

    name: str
    dtype: pl.DataType
    meaning: str
    null: str | None = None
    """Meaning of a null; None where nulls are not allowed."""
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    layer: ColumnOrigin = ColumnOrigin.TRACE
    choices: tuple[str, ...] = ()
    """Allowed texts; empty where any text is allowed."""
    form: TextForm | None = None
    """Required form of the texts; None for any text."""

    def holds(self, text: str) -> bool:
        """Whether a column of texts may hold this one."""
        if self.choices:
            return text in self.choices
        return self.form is None or self.form.allows(text)

    @property
    def wanted_text(self) -> str:
        """Description of the allowed texts, for error messages."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return "a text" if self.form is None else self.form.wanted

    @property
    def is_number(self) -> bool:
        """Whether the column holds numbers, within `minimum` and `maximum`."""
        return self.dtype != pl.String()

    @property
    def is_whole(self) -> bool:
        """Whether the numbers are whole."""
        return self.dtype == pl.Int64()
