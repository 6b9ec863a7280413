"""Reasons of waits by a replay of the events that is too simple to be wrong."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from ray_sim.engine.kinds.chunked.facts import ChunkFacts
from ray_sim.engine.world import World
from ray_sim.model.result import RunResult
from tests.naive_placement import DEFINITIONS, Gang, choice_of_both, some_choice_holds


def held_by_role(result: RunResult) -> list[tuple[int, Counter[tuple[str, int, str]]]]:
    """Tasks by job, role and server after each instant, from the events alone."""
    held: Counter[tuple[str, int, str]] = Counter()
    after = []
    columns = result.events.select("time_s", "event", "job_id", "server", "role", "count")
    for time_s, instant in groupby(columns.iter_rows(), key=lambda row: row[0]):
        for (kind, job), rows in groupby(instant, key=lambda row: (row[1], row[2])):
            if kind in ("start", "move", "stop", "finish", "evict", "lose"):
                for each in [key for key in held if key[0] == job]:
                    del held[each]
            if kind in ("start", "move"):
                held.update({(job, int(row[4] == "ps"), row[3]): row[5] for row in rows})
        after.append((round(time_s * 1e6), held.copy()))
    return after


def naive_free(world: World, result: RunResult) -> dict[int, tuple[list[int], list[bool]]]:
    """Free milli-GPUs of every server after each instant, and whether it is there, from the events."""
    there = dict(zip(world.cluster.server_names, world.there.tolist(), strict=True))
    size = dict(zip(world.cluster.server_names, world.cluster.capacity[:, 0].tolist(), strict=True))
    demand = dict(zip(world.table.job_id, world.arrays.demand[:, :, 0].tolist(), strict=True))
    rows = [(round(row[0] * 1e6), row[1], row[3]) for row in result.events.iter_rows()]
    found = {}
    for time_us, held in held_by_role(result):
        for _, event, server in (row for row in rows if row[0] == time_us):
            if event in ("server_down", "server_up"):
                there[server] = event == "server_up"
        free = {name: size[name] * there[name] for name in size}
        for (job, role, server), tasks in held.items():
            free[server] -= demand[job][role] * tasks
        found[time_us] = list(free.values()), list(there.values())
    return found


def accepted(world: World, job: int) -> set[int]:
    """Servers of a job's partition with a type that it accepts; any type if it has no GPU."""
    arrays, cluster, texts = world.arrays, world.cluster, world.table.gpu_types
    text = None if texts is None or not arrays.demand[job, :, 0].any() else texts[job]
    types = None if text is None else text.split("|")
    here = [s for s in range(len(cluster)) if arrays.server_part[s] == arrays.job_part[job]]
    return {s for s in here if types is None or cluster.gpu_type[s] in types}


def naive_reason(
    world: World, job: int, free: list[int], there: list[bool], *, rule: str | None, behind: bool
) -> str:
    """Reason at an instant: every choice of servers is tried, then the rule is followed by its definition."""
    arrays = world.arrays
    mine = sorted(accepted(world, job))
    roles = [
        Gang(
            tasks=int(tasks),
            demand=[int(demand[0])],
            capacity=[[int(arrays.capacity[s, 0])] for s in mine],
            free=[[free[s]] for s in mine],
            there=[there[s] for s in mine],
        )
        for tasks, demand in zip(arrays.gang[job], arrays.demand[job], strict=False)
    ]
    whole = sum(role.tasks * role.demand[0] for role in roles)
    here = [free[s] for s in mine if there[s]]
    if sum(here) < whole or not here:
        absent = sum(int(arrays.capacity[s, 0]) for s in mine if not there[s])
        everywhere = [free[s] for s in range(len(free)) if arrays.server_part[s] == arrays.job_part[job]]
        lacking = "full" if sum(everywhere) < whole else "gpu_type"
        return "outage" if sum(here) + absent >= whole else lacking
    if not some_choice_holds(roles):
        return "fragmented"
    if rule is not None:
        placed = [DEFINITIONS[rule](roles[0])] if len(roles) == 1 else choice_of_both(roles, rule)
        if not any(placed):
            return "no_server"
    return "behind" if behind else "policy"


def naive_ahead(world: World, result: RunResult) -> dict[tuple[str, float], set[tuple[str, float, float]]]:
    """Name, begin and end of the waits of the jobs that started while a job waited on, by job and begin."""
    pool = {name: accepted(world, job) for job, name in enumerate(world.table.job_id)}
    since: dict[str, float] = {}
    ahead: dict[tuple[str, float], set[tuple[str, float, float]]] = {}
    rows = result.events.select("time_s", "event", "job_id").iter_rows()
    for time_s, instant in groupby(rows, key=lambda row: row[0]):
        started = []
        for _, event, job in instant:
            if event in ("submit", "stop", "lose"):
                since.setdefault(job, time_s)
            elif event in ("start", "reject", "finish", "evict") and job in since:
                begin = since.pop(job)
                started += [(job, begin)] if event == "start" and begin < time_s else []
        for job, begin in started:
            for other, from_s in since.items():
                if pool[other] & pool[job] and from_s < time_s:
                    ahead.setdefault((other, from_s), set()).add((job, begin, time_s))
    return ahead


def naive_chunk_reasons(world: World, result: RunResult) -> dict[int, dict[str, str]]:
    """Reason of each chunked job at each instant, if it waits then: who holds which parameter server."""
    facts = world.facts
    assert isinstance(facts, ChunkFacts)
    names = world.cluster.server_names
    there = dict(zip(names, world.there.tolist(), strict=True))
    slots = dict(zip(names, facts.ps.tolist(), strict=True))
    memory = dict(zip(names, facts.eligible.ps_offer.tolist(), strict=True))
    needed = dict(zip(world.table.job_id, facts.eligible.ps_need.tolist(), strict=True))
    holds: dict[str, str] = {}
    found = {}
    rows = result.events.select("time_s", "event", "job_id", "server", "role").iter_rows()
    for time_s, instant in groupby(rows, key=lambda row: row[0]):
        for _, event, job, server, role in instant:
            if event in ("server_down", "server_up"):
                there[server] = event == "server_up"
            elif role == "ps" and event in ("start", "move"):
                holds[job] = server
            elif role != "chunk" and event in ("stop", "lose", "finish", "evict"):
                holds.pop(job, None)
        reasons = {}
        for job, least in needed.items():
            left = {name: slots[name] - list(holds.values()).count(name) for name in names}
            serving = [name for name in names if memory[name] >= least and slots[name]]
            if job in holds or any(there[name] and left[name] > 0 for name in serving):
                reasons[job] = "chunks"
            else:
                reasons[job] = "full" if all(there[name] for name in serving) else "outage"
        found[round(time_s * 1e6)] = reasons
    return found
