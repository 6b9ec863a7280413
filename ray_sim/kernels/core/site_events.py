"""Columns of the events that sites report, one row each. Kernels write and read them."""

from __future__ import annotations

EVENT_CODE, EVENT_JOB, EVENT_UNIT = range(3)
"""The kind of event, the job, and its unit: the number of a part of the job."""

EVENT_COLUMNS = 5
"""The kind of job gives the last two a meaning."""
