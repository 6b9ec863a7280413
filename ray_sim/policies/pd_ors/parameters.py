"""Parameters of PD-ORS."""

from __future__ import annotations

from ray_sim.policies.shared.declared_ranges import price_parameters
from ray_sim.policies.shared.planning_parameters import IDLE, OPTIONS
from ray_sim.policy_api import Parameter

PARAMETERS = (
    Parameter(
        "quanta",
        "int",
        None,
        "equal parts into which the work of a job is cut; with too few, long jobs are lost. none = "
        "max(40, 4 x slots of the horizon)",
        source="docs/models/pd_ors.md#schedule; Yu et al., algorithm 3, go sample by sample",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "round",
        "choice",
        "each",
        "each: fractions are rounded in every slot before slots are chosen; last: in chosen slots only",
        source="docs/models/pd_ors.md#cost-of-one-slot; each as Yu et al., algorithm 4",
        choices=("each", "last"),
    ),
    Parameter(
        "tries",
        "int",
        50,
        "number of roundings; the cheapest is used",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., algorithm 4: S",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "gain",
        "choice",
        "one",
        "factor on fractions before rounding. one: 1; packing: below 1, so that they likelier fit; covering: "
        "above 1, so that they are likelier enough",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        choices=("one", "packing", "covering"),
    ),
    Parameter(
        "delta",
        "float",
        0.5,
        "allowed probability of failure of packing and covering",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        minimum=0.0,
        exclusive=True,
        maximum=1.0,
    ),
    *price_parameters(
        "a worker and a parameter server together",
        "docs/models/pd_ors.md#prices",
        paper="; Yu et al., (12)-(14)",
    ),
    *OPTIONS,
    Parameter(
        "span_above_load",
        "float",
        0.0,
        "load above which price_span applies; below it L is as published. The load is the work of all jobs "
        "that can end over the capacity of all slots, the largest of any resource",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    IDLE,
)
