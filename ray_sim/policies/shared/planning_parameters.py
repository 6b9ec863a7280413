"""Parameters of policies that plan at arrival.

pd_ors has one market in each partition, and oasis two. Lowest and highest prices may come from declared
ranges of jobs, in place of the jobs of the whole trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.units import FloatArray
from ray_sim.policy_api import Parameter
from ray_sim.solvers.planning.market import Ranges

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


def price_parameters(sold: str, source: str, *, lists: str = "", paper: str = "") -> tuple[Parameter, ...]:
    """Parameters of a policy whose lowest and highest prices come from the trace or from declared ranges.

    Parameters
    ----------
    sold : tasks whose demand counts
    source : heading that defines the policy's prices
    lists : meaning of several lists of numbers, if the policy takes them
    paper : place of the prices in the paper, appended to ``source``
    """
    return (
        Parameter(
            "constants",
            "choice",
            "trace",
            "source of the lowest and highest prices. trace: all jobs of the run, also later ones; "
            "declared: the ranges declared_utility, declared_demand and declared_work",
            source=f"{source}{paper}",
            choices=("trace", "declared"),
        ),
        Parameter(
            "declared_utility",
            "floats",
            None,
            "least utility of a job that ends in the last slot, and the largest of any",
            source=source,
        ),
        Parameter(
            "declared_demand",
            "floats",
            None,
            f"for each resource of the cluster the least demand of {sold}, over jobs that use it; 0 if none "
            f"does{lists}",
            "the resource's own",
            source=source,
            minimum=0.0,
        ),
        Parameter(
            "declared_work",
            "floats",
            None,
            f"least and largest work of a job: slots of one worker at the external rate, times the demand of "
            f"{sold}, summed over resources{lists}",
            source=source,
            minimum=0.0,
        ),
    )


@dataclass(frozen=True, slots=True)
class DeclaredRanges:
    """Values of the declared parameters, not yet checked."""

    utility: Sequence[float] | None
    demand: Sequence[float] | None
    work: Sequence[float] | None

    def of_markets(self, policy: str, resources: Sequence[str], markets: Sequence[str]) -> list[Ranges]:
        """Ranges of each market of a partition.

        Parameters
        ----------
        policy : its name, for messages
        resources : names of the cluster's
        markets : name of each market; demand and work may be declared once for all, or for each in turn

        Raises
        ------
        InvalidScenarioError : a range is missing or has the wrong number of values
        """
        utility = _lists(policy, "declared_utility", self.utility, ("least", "largest"), ())[0]
        demand = _lists(policy, "declared_demand", self.demand, resources, markets)
        work = _lists(policy, "declared_work", self.work, ("least", "largest"), markets)
        return [
            Ranges((float(utility[0]), float(utility[1])), least, (float(of_market[0]), float(of_market[1])))
            for least, of_market in zip(demand, work, strict=True)
        ]


def _lists(
    policy: str, name: str, given: Sequence[float] | None, each: Sequence[str], markets: Sequence[str]
) -> list[FloatArray]:
    """One list of numbers per market, at least one; a single one given serves all markets.

    Parameters
    ----------
    each : names of the numbers of one list
    """
    number, found = max(len(markets), 1), 0 if given is None else len(given)
    if given is None or found not in (len(each), len(each) * number):
        lists = f", or those of {' and then those of '.join(markets)}" if number > 1 else ""
        raise InvalidScenarioError(
            f"policy {policy}: constants=declared needs {len(each)} numbers in {name} ({', '.join(each)})"
            f"{lists}; got {found or 'none'}"
        )
    lists_given = np.array(given, dtype=np.float64).reshape(-1, len(each))
    return list(np.broadcast_to(lists_given, (number, len(each))))
