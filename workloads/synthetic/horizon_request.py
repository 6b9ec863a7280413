"""Options of jobs drawn from a training profile, and the check of options against the kind of draw.

Used by `ray-sim synth` and by scenario and sweep files. The names of options appear in provenance and error
messages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from pydantic import JsonValue

from ray_sim.model.errors import InvalidInputError
from ray_sim.model.units import MAX_TIME_S, seconds_to_us
from workloads.synthetic.arrivals import ArrivalKind
from workloads.synthetic.synth import SLOT_S, DrawRequest, check_jobs, check_slot


@dataclass(frozen=True, slots=True)
class HorizonRequest:
    """Options of a draw of jobs that are all submitted within a horizon.

    Raises
    ------
    InvalidInputError : a number out of range, or arrivals other than alternating and poisson
    """

    jobs: int
    """Number of jobs, 1 to `MAX_JOBS`."""
    horizon_s: float
    """Seconds from the first submission, >= `slot_s`; feasible jobs end within its whole slots."""
    arrivals: ArrivalKind = ArrivalKind.ALTERNATING
    """Alternating, or poisson: every instant of the horizon is equally likely."""
    slot_s: float = SLOT_S
    """Slot length in seconds, >= 1e-6, of alternating arrivals and of the test of feasibility."""
    feasible_only: bool = False
    """Whether an infeasible job is drawn again until it is feasible.

    A job is infeasible if its workers and parameter servers do not fit on the profile's reference servers, or
    if it cannot end by the horizon, even alone.
    """

    def __post_init__(self) -> None:
        check_jobs(self.jobs)
        if self.arrivals not in (ArrivalKind.ALTERNATING, ArrivalKind.POISSON):
            raise InvalidInputError(
                f"arrivals: must be alternating or poisson within a horizon, is {self.arrivals}"
            )
        check_slot(self.slot_s)
        if not self.slot_s <= self.horizon_s <= MAX_TIME_S:
            raise InvalidInputError(
                f"horizon: must be at least a slot (slot_s) of {self.slot_s:g} s and at most {MAX_TIME_S} s, "
                f"is {self.horizon_s:g}; take a longer horizon or shorter slots"
            )

    @property
    def slot_us(self) -> int:
        """Slot length in microseconds."""
        return int(seconds_to_us(self.slot_s))

    @property
    def slots(self) -> int:
        """Number T of whole slots in the horizon."""
        return int(seconds_to_us(self.horizon_s)) // self.slot_us

    def options(self) -> dict[str, JsonValue]:
        """Options as recorded in the provenance."""
        return asdict(self)


def request_of(
    *,
    whole: bool,
    jobs: int,
    load_scale: float = 1.0,
    arrivals: ArrivalKind | None = None,
    slot_s: float | None = None,
    horizon_s: float | None = None,
    feasible_only: bool = False,
) -> DrawRequest | HorizonRequest:
    """Options of a draw as a request; raises for an option that the kind of draw does not have.

    Parameters
    ----------
    whole : whether all columns of jobs are drawn from a training profile

    Raises
    ------
    InvalidInputError : an option is out of range or missing, or belongs to the other kind of draw
    """
    if not whole:
        for name, given in (("horizon", horizon_s is not None), ("feasible_only", feasible_only)):
            if given:
                raise InvalidInputError(
                    f"{name}: only for jobs drawn from a training profile, such as pd_ors; leave it out"
                )
        return DrawRequest(jobs, load_scale, arrivals, slot_s)
    if horizon_s is None:
        raise InvalidInputError(
            "horizon: is missing; jobs drawn from a training profile come within a horizon, such as "
            "--horizon 72000, or horizon_s in a file"
        )
    if load_scale != 1:
        raise InvalidInputError(
            "load_scale: the number of jobs and the horizon set the load; change one of the two instead"
        )
    slot = SLOT_S if slot_s is None else slot_s
    return HorizonRequest(jobs, horizon_s, arrivals or ArrivalKind.ALTERNATING, slot, feasible_only)
