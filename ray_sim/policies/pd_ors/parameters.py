"""Parameters of PD-ORS."""

from __future__ import annotations

from ray_sim.policies.shared.plan_at_arrival import IDLE, OPTIONS
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
    Parameter(
        "constants",
        "choice",
        "trace",
        "source of the lowest and highest prices. trace: all jobs of the run, also later ones; "
        "declared: the ranges declared_utility, declared_demand and declared_work",
        source="docs/models/pd_ors.md#prices; Yu et al., (12)-(14)",
        choices=("trace", "declared"),
    ),
    Parameter(
        "declared_utility",
        "floats",
        None,
        "least utility of a job that ends in the last slot, and the largest of any",
        source="docs/models/pd_ors.md#prices",
    ),
    Parameter(
        "declared_demand",
        "floats",
        None,
        "for each resource of the cluster the least total demand of a worker and a parameter server, over "
        "jobs that use it; 0 if none does",
        "the resource's own",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    Parameter(
        "declared_work",
        "floats",
        None,
        "least and largest work of a job: slots of one worker at the external rate, times the total demand "
        "of a worker and a parameter server, summed over resources",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    *OPTIONS,
    IDLE,
)
