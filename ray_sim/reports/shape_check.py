"""Checks of a figure file: a statement about the shape of a figure each."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ray_sim.reports.shape_samples import Comparison, Samples, X
from ray_sim.reports.statements import STATEMENTS, At, Runs, Statement, checked, each_once
from ray_sim.user_code import load, users_code


class Check(BaseModel):
    """One statement about a figure: its name, a function, and the function's arguments under its name."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, allow_inf_nan=False)

    name: Annotated[str, Field(min_length=1)]
    """The statement as a sentence."""
    at: At = "every"
    metric: str | None = None
    """Metric in place of the figure's."""
    published: str | None = None
    """What the paper says, in a few words or numbers."""
    because: str | None = None
    """Name of another check of the figure, which tells by its runs why this one does not appear."""

    @model_validator(mode="after")
    def _one_statement(self) -> Self:
        given = list(self.model_extra or {})
        if len(given) != 1 or not (":" in given[0] or given[0] in STATEMENTS):
            known = f"{', '.join(STATEMENTS)}, module:FUNCTION"
            raise ValueError(f"expected one of {known}; found {' and '.join(given) or 'none'}")
        if isinstance(self.at, list):
            each_once(self.at)
        if self.at == []:
            raise ValueError("`at`: must name at least one x, got []")
        return self

    @property
    def statement(self) -> str:
        """Name of the function."""
        return next(iter(self.model_extra or {}))

    def compare(
        self, samples: Samples, series: Sequence[str], xs: Sequence[X], *, lower: bool
    ) -> list[Comparison]:
        """Comparisons of the statement.

        Parameters
        ----------
        samples : values of the check's metric
        series, xs : all of the figure, in order
        lower : whether lower values of the metric are better

        Raises
        ------
        ValidationError, ValueError : the arguments, the series or the values of x do not fit
        InvalidInputError : a function of the user's cannot be loaded, or fails
        """
        runs = Runs(samples, series, xs, self.at, -1.0 if lower else 1.0)
        name, given = self.statement, (self.model_extra or {})[self.statement]
        function: Statement = STATEMENTS.get(name) or load("statement", name, callable)
        if not isinstance(given, dict):
            given = {list(inspect.signature(function).parameters)[1]: given}
        with users_code(f"statement '{name}' failed", passes=ValueError):
            return list(checked(function)(runs, **given))
