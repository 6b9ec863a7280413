"""Number of seeds that `ray-sim compare` needs for a verdict, checked before a sweep."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ray_sim.experiments.sweep_entries import Entry
from ray_sim.reports.statistics import pairs_needed


def seeds_warning(entries: Iterable[Entry]) -> str | None:
    """One line of warning if the seeds of a sweep are too few for any verdict, else None.

    Only places (workload, cluster, setting) with two policies count, one of which depends on its seed.
    """
    places: dict[tuple[str, str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for entry in entries:
        seeds = places[entry.workload, entry.cluster, entry.setting][entry.policy]
        if entry.seed is not None:
            seeds.add(entry.seed)
    short = []
    for policies in places.values():
        count = max(len(seeds) for seeds in policies.values())
        needed = pairs_needed(max(1, len(policies) - 1))
        if len(policies) > 1 and 0 < count < needed:
            short.append((needed, len(policies), count))
    if not short:
        return None
    needed, compared, count = max(short)
    return (
        f"{count} seed{'s are' if count > 1 else ' is'} too few for `ray-sim compare` to tell {compared} "
        f"policies apart at 5 %: {needed} needed, e.g. seeds: {{count: {needed}}}"
    )
