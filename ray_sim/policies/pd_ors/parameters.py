"""Parameters of PD-ORS."""

from __future__ import annotations

from ray_sim.policies.shared.plan_at_arrival import IDLE, OPTIONS
from ray_sim.policy_api import Parameter

PARAMETERS = (
    Parameter(
        "quanta",
        "int",
        None,
        "equal parts into which the work of a job is cut; with too few, long jobs are lost. none = 4 for "
        "each slot of the horizon, and at least 40",
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
        "roundings of which the cheapest is taken",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., algorithm 4: S",
        minimum=1,
        maximum=1_000_000,
    ),
    Parameter(
        "gain",
        "choice",
        "one",
        "what fractions are multiplied by before they are rounded. one: nothing; packing: less, so that they "
        "likelier fit; covering: more, so that they are likelier enough",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        choices=("one", "packing", "covering"),
    ),
    Parameter(
        "delta",
        "float",
        0.5,
        "chance of a failure that packing and covering allow for",
        source="docs/models/pd_ors.md#cost-of-one-slot; Yu et al., (31) and (32)",
        minimum=0.0,
        exclusive=True,
        maximum=1.0,
    ),
    Parameter(
        "constants",
        "choice",
        "trace",
        "from what the ends of the prices come. trace: all jobs of the run, also those still to come; "
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
        "for each resource of the cluster the least that a worker and a parameter server take together, of "
        "jobs that use it; 0 where none does",
        "the resource's own",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    Parameter(
        "declared_work",
        "floats",
        None,
        "least and largest work of a job: slots of one worker at the external rate, times what a worker and "
        "a parameter server take together, summed over resources",
        source="docs/models/pd_ors.md#prices",
        minimum=0.0,
    ),
    *OPTIONS,
    IDLE,
)
