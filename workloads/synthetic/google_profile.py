"""Statistics of Google's cluster trace of May 2011, as jobs of a training scheduler."""

from __future__ import annotations

from datetime import UTC, datetime

from workloads.synthetic.trace_profile import DurationClass, Profile

MOST_TASKS = 64
"""Jobs of more tasks are left out."""

_SUBMITTED = 914
"""Jobs that the window of the sizes submits, of any number of tasks."""

_SIZES = {
    1: 745,
    2: 24,
    3: 4,
    4: 2,
    5: 3,
    7: 4,
    9: 9,
    10: 3,
    11: 11,
    12: 1,
    13: 1,
    14: 8,
    16: 3,
    18: 2,
    20: 2,
    26: 1,
    28: 1,
    29: 1,
    30: 1,
    31: 4,
    32: 2,
    38: 6,
    40: 2,
    45: 1,
    46: 1,
    50: 14,
    60: 2,
}
"""The 858 jobs of at most `MOST_TASKS` tasks."""

_GAP_S = 3.750
"""Mean time between submissions of jobs of any number of tasks."""

GOOGLE = Profile(
    name="google",
    # Midnight of Monday 2011-05-02 in New York; the trace begins on the evening before, at 19:00.
    monday_utc=datetime(2011, 5, 2, 4, tzinfo=UTC),
    arrivals_per_s=sum(_SIZES.values()) / _SUBMITTED / _GAP_S,
    week=None,
    sizes=_SIZES,
    vcs=None,
    probabilities=(0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1),
    durations=(DurationClass(1, (1, 15.7, 26.4, 62.0, 176.5, 444.9, 1_698.6, 43_871, 931_616, 2_491_521)),),
)
"""ClusterData2011-2, J. Wilkes and C. Reiss: https://github.com/google/cluster-data (CC-BY 4.0).

A task counts as a GPU. Sizes: the jobs that part 0 of the task events submits after time 0, 83 minutes.
Rate and run times: all 500 parts of the job events, 29 days; the rate is that of the jobs of at most
`MOST_TASKS` tasks, whose share is that of part 0. A run time is from a job's first start to its last end,
over the 668,085 jobs with an end; shorter ones than a second count as one. Run times are drawn independently
of sizes, the rate is constant, and jobs come without bursts. docs/traces/google-2011.md says what that
leaves out, and how the numbers are measured.
"""
