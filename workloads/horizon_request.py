"""What is asked of a draw of whole jobs, and which options make sense for which draw."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import MAX_TIME_S, US_PER_S, seconds_to_us
from workloads.arrivals import ArrivalKind
from workloads.synth import SLOT_S, Request


@dataclass(frozen=True, slots=True)
class HorizonRequest:
    """What is asked of a draw of jobs that all come within a horizon.

    Raises
    ------
    InvalidInputError : a number out of range, or arrivals that such jobs cannot have
    """

    jobs: int
    """>= 1."""
    horizon_s: float
    """>= `slot_s`; its T whole slots count, from the first submission on."""
    arrivals: ArrivalKind = ArrivalKind.ALTERNATING
    """Or poisson: any instant is as likely."""
    slot_s: float = SLOT_S
    """Of alternating arrivals, and by which it is judged who can end by the horizon; >= 1e-6."""
    feasible_only: bool = False
    """Whether an infeasible job is drawn again."""

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InvalidInputError(f"jobs: must be at least 1, is {self.jobs}")
        if self.arrivals not in (ArrivalKind.ALTERNATING, ArrivalKind.POISSON):
            raise InvalidInputError(
                f"arrivals: must be alternating or poisson within a horizon, is {self.arrivals}"
            )
        if not 1 / US_PER_S <= self.slot_s <= MAX_TIME_S:
            raise InvalidInputError(f"slot_s: must be from 0.000001 to {MAX_TIME_S}, is {self.slot_s:g}")
        if not self.slot_s <= self.horizon_s <= MAX_TIME_S:
            raise InvalidInputError(
                f"horizon: must be at least a slot (slot_s) of {self.slot_s:g} s and at most {MAX_TIME_S} s, "
                f"is {self.horizon_s:g}; take a longer horizon or shorter slots"
            )

    @property
    def slot_us(self) -> int:
        """As simulated time has it."""
        return int(seconds_to_us(self.slot_s))

    @property
    def slots(self) -> int:
        """T."""
        return int(seconds_to_us(self.horizon_s)) // self.slot_us

    def options(self) -> dict[str, JsonValue]:
        """As the provenance has it."""
        return {
            "jobs": self.jobs,
            "horizon_s": self.horizon_s,
            "arrivals": self.arrivals,
            "slot_s": self.slot_s,
            "feasible_only": self.feasible_only,
        }


def request_of(
    *,
    whole: bool,
    jobs: int,
    load_scale: float = 1.0,
    arrivals: ArrivalKind | None = None,
    slot_s: float | None = None,
    horizon_s: float | None = None,
    feasible_only: bool = False,
) -> Request | HorizonRequest:
    """What is asked of a draw, by options of which some make sense for one kind of draw only.

    Parameters
    ----------
    whole : whether whole jobs are drawn, from a training profile

    Raises
    ------
    InvalidInputError : an option is out of range, is missing, or makes no sense here
    """
    if not whole:
        for name, given in (("horizon", horizon_s is not None), ("feasible_only", feasible_only)):
            if given:
                raise InvalidInputError(
                    f"{name}: only for jobs drawn from a training profile, such as pd_ors; leave it out"
                )
        return Request(jobs, load_scale, arrivals, slot_s)
    if horizon_s is None:
        raise InvalidInputError(
            "horizon: is missing; jobs drawn from a training profile come within a horizon, such as "
            "--horizon 72000, or horizon_s in a file"
        )
    if load_scale != 1:
        raise InvalidInputError(
            "load_scale: the load is that of so many jobs within the horizon; change one of the two instead"
        )
    slot = SLOT_S if slot_s is None else slot_s
    return HorizonRequest(jobs, horizon_s, arrivals or ArrivalKind.ALTERNATING, slot, feasible_only)
