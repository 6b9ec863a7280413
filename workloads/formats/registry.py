"""The trace formats by name: the only module that knows all of them."""

from __future__ import annotations

from ray_sim.model.errors import UnknownNameError
from workloads.formats.csv import table as csv_table
from workloads.formats.google import trace2011, trace2019
from workloads.formats.own import own_format
from workloads.formats.philly import csv as philly_csv
from workloads.formats.philly import log as philly_log
from workloads.formats.pods import pod_list
from workloads.trace_format import TraceFormat

FORMATS: dict[str, TraceFormat] = {
    trace_format.name: trace_format
    for trace_format in (
        csv_table.FORMAT,
        trace2011.FORMAT,
        trace2019.FORMAT,
        pod_list.FORMAT,
        philly_log.FORMAT,
        philly_csv.FORMAT,
    )
}
"""Every trace format by its name."""


def find_format(name: str) -> TraceFormat:
    """Trace format of a name in `FORMATS`, or of a user's own as `module:NAME`.

    Raises
    ------
    UnknownNameError : no such format
    InvalidInputError : the user's own cannot be imported, or is none
    """
    if ":" in name:
        return own_format(name)
    if name not in FORMATS:
        raise UnknownNameError("trace format", name, FORMATS)
    return FORMATS[name]
