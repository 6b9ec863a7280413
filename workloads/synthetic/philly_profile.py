"""Published statistics of the Philly trace."""

from __future__ import annotations

from datetime import UTC, datetime

from workloads.synthetic.trace_profile import DurationClass, Profile, WeekShape

PHILLY = Profile(
    name="philly",
    # Midnight of Monday 2017-10-30 in Los Angeles; summer time ends on the Sunday of that week.
    monday_utc=datetime(2017, 10, 30, 7, tzinfo=UTC),
    arrivals_per_s=109_532 / 11_178_853,
    week=WeekShape(weekend_rate=0.47, daily_amplitude=0.3, daily_peak_h=3.4),
    sizes={
        1: 95_462,
        2: 2_469,
        4: 5_227,
        6: 1,
        7: 2,
        8: 5_353,
        12: 12,
        16: 775,
        20: 1,
        24: 34,
        32: 194,
        48: 2,
    },
    vcs={
        "6214e9": 51_258,
        "11cb48": 19_048,
        "6c71a0": 14_783,
        "b436b2": 9_031,
        "ee9e8c": 5_452,
        "103959": 2_677,
        "0e4a51": 2_465,
        "7f04ca": 1_461,
        "ed69ec": 1_400,
        "2869ce": 956,
        "e13805": 938,
        "51b7ef": 63,
    },
    probabilities=(0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1),
    durations=(
        DurationClass(1, (1, 6, 30, 62, 122, 1_117, 2_716, 8_512, 135_404, 863_786, 3_256_045)),
        DurationClass(2, (2, 2, 5, 11, 16, 21, 76, 72_361, 526_030, 1_463_703, 2_582_803)),
        DurationClass(4, (3, 5, 36, 138, 772, 17_431, 89_422, 184_426, 906_798, 2_416_865, 2_750_674)),
        DurationClass(8, (1, 2, 33, 216, 1_881, 23_683, 173_288, 352_409, 1_066_894, 2_655_194, 4_628_226)),
        DurationClass(16, (1, 1, 4, 69, 608, 28_475, 110_052, 252_560, 891_298, 1_710_643, 1_710_643)),
    ),
)
"""Microsoft's Philly cluster, late 2017: https://github.com/msr-fiddle/philly-traces (CC-BY 4.0),
Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters, ATC 2019.

Rate, sizes, VCs, and the shape of day and week (in US Pacific local time): the 109,532 jobs of 129
days that the PCS artifact (NSDI 2024) published. Run times: quantiles over the 82,247 jobs that the
Sia artifact (SOSP 2023) published, by number of GPUs. Size, VC and run time given size are drawn
independently, and the trace's bursts are not modelled.
"""
