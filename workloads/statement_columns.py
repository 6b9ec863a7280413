"""Optional columns of a workload: statements of work of its jobs, true and reported."""

from __future__ import annotations

import numpy as np
import polars as pl

from ray_sim.model.outlook import OUTLOOK_FORM, outlook_faults, parse_outlook
from ray_sim.model.units import MAX_TIME_S, FloatArray, IntArray, seconds_to_us, us_to_seconds
from ray_sim.model.value_function import VALUE_FORM, parse_value, value_faults
from workloads.column import MAX_COUNT, Column, ColumnOrigin, TextForm

_VALUE = TextForm(VALUE_FORM, parse_value, value_faults)
_OUTLOOK = TextForm(OUTLOOK_FORM, parse_outlook, outlook_faults)


def _text(name: str, meaning: str, null: str, form: TextForm) -> Column:
    return Column(name, pl.String(), meaning, null, layer=ColumnOrigin.PROFILE, form=form)


STATEMENT_COLUMNS: tuple[Column, ...] = (
    Column(
        "birth_s",
        pl.Float64(),
        "Announcement of the job, in the trace's own time; at most `submit_s`, at which it arrives.",
        "announced at submission",
        "s",
        -MAX_TIME_S,
        MAX_TIME_S,
        ColumnOrigin.PROFILE,
    ),
    _text(
        "value",
        "Worth of a completion by seconds after `birth_s`, such as deadline 40 3600; see below.",
        "the workload does not say",
        _VALUE,
    ),
    _text(
        "outlook",
        "Distribution of arrival and run time at `birth_s`, such as 0:60:0.5 0:600:0.5; see below.",
        "the workload does not say",
        _OUTLOOK,
    ),
    _text("reported_value", "What the owner reports in place of `value`.", "the truth", _VALUE),
    _text("reported_outlook", "What the owner reports in place of `outlook`.", "the truth", _OUTLOOK),
    Column(
        "reported_gpus",
        pl.Float64(),
        "What the owner reports in place of `num_gpus`.",
        "the truth",
        "GPU",
        0,
        MAX_COUNT,
        ColumnOrigin.PROFILE,
    ),
)


def births_s(submit_s: FloatArray, lead_us: IntArray) -> FloatArray:
    """(J,) births such that a run sees each submission exactly so many microseconds after the birth.

    Parameters
    ----------
    submit_s : (J,)
    lead_us : (J,) >= 0
    """
    births: FloatArray = np.minimum(us_to_seconds(seconds_to_us(submit_s) - lead_us), submit_s)
    return births
