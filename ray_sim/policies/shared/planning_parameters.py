"""Parameters of policies that plan at arrival."""

from __future__ import annotations

from ray_sim.policy_api import Parameter

UNFINISHED = Parameter(
    "unfinished",
    "choice",
    "leave",
    "action when a job is not done at the end of its plan, e.g. if it trains slower than planned. leave: "
    "none; extend: plan the rest of the work like an arriving job, at the current prices",
    choices=("leave", "extend"),
    source="docs/models/pd_ors.md#what-the-paper-leaves-out",
)
REPLAN = Parameter(
    "replan",
    "choice",
    "none",
    "action when servers are lost. none: plans stay, on the remaining servers; failed: plans on lost servers "
    "are cancelled and the rest of the work is planned again; no plan uses lost servers",
    choices=("none", "failed"),
    source="docs/models/pd_ors.md#what-the-paper-leaves-out",
)
IDLE = Parameter(
    "idle",
    "choice",
    "leave",
    "use of capacity that no plan uses in a slot. leave: it stays idle; give: admitted jobs get more workers "
    "and parameter servers, in job order, if they train faster with them",
    choices=("leave", "give"),
    source="docs/models/pd_ors.md#what-the-paper-leaves-out",
)
PRICE_SPAN = Parameter(
    "price_span",
    "float",
    None,
    "upper bound of ln(U / L): L is raised to meet it, so that prices rise before servers are nearly full. "
    "none = the published L",
    minimum=1.0,
    source="docs/models/pd_ors.md#prices",
)
SPEEDS = Parameter(
    "speeds",
    "choice",
    "world",
    "speeds by which plans are made. world: lower bounds by the world's step-time rule and servers, for a "
    "job alone; published: the form of Yu et al. on servers of speed 1, as truth=pd_ors",
    source="docs/models/pd_ors.md#speeds",
    choices=("world", "published"),
)
RECORD = Parameter(
    "record",
    "bool",
    False,
    "whether the timeline has `primal`, the utility of all plans so far, and `dual`, all payoffs so far plus "
    "the cost of all servers at their prices",
    source="docs/models/pd_ors.md#properties-to-check; the dual is never below the primal",
)
OPTIONS = (SPEEDS, PRICE_SPAN, UNFINISHED, REPLAN, RECORD)
"""Parameters of all policies that plan at arrival."""
