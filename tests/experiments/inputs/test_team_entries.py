"""Classes and teams of cluster files: what they mean, and every fault at once."""

from __future__ import annotations

from pathlib import Path

from ray_sim.model.teams import JobClass, Quota, Team
from tests.cluster_files import load_text, problems

SERVERS = """
gpu_types: {A100: {}, V100: {}}
servers:
  - {name: a, gpus: 8, cpus: 64, gpu_type: A100}
  - {name: b, gpus: 8, cpus: 64, gpu_type: V100}
"""


def test_a_team_lends_its_whole_quota_and_borrows_without_limit_unless_the_file_says_less(
    tmp_path: Path,
) -> None:
    text = (
        """
name: teams
classes:
  production: {priority: 9, preemptible: false}
  free: {priority: 0}
teams:
  vision: {quota: {gpu: 8, "gpu:A100": 4}, borrow: {gpu: 2}, lend: {gpu: 3}, weight: 2, shares: 2, cohort: x}
  "*": {quota: {cpu: 1.5}, slo_wait_s: 600}
"""
        + SERVERS
    )
    found = load_text(tmp_path, text)
    assert found.classes == (JobClass("production", 9, preemptible=False), JobClass("free", 0))
    of_vision = (Quota("gpu", 8000, 2000, 3000), Quota("gpu:A100", 4000, None, 4000))
    assert found.teams == (
        Team("vision", of_vision, weight=2.0, shares=2.0, cohort="x"),
        Team("*", (Quota("cpu", 1500, None, 1500),), slo_wait_s=600.0),
    )


def test_every_fault_of_classes_and_teams_is_named_at_once(tmp_path: Path) -> None:
    text = (
        """
name: faults
classes:
  high: {priority: 1}
  higher: {priority: 1}
teams:
  a: {quota: {gpu: 4, tpu: 1}, lend: {gpu: 5}}
  b: {quota: {gpu: 4}, borrow: {cpu: 1}, lend: {"gpu:T4": 1}}
"""
        + SERVERS
    )
    known = "this cluster has gpu, cpu, gpu:A100, gpu:V100"
    assert problems(tmp_path, text) == [
        "classes.higher.priority: 1 is that of class 'high'; give each its own",
        f"teams.a.quota.tpu: unknown resource; {known}",
        "teams.a.lend.gpu: must be at most the quota of 4, got 5",
        "teams.b.borrow.cpu: there is no quota of it; name it under quota",
        f"teams.b.lend.gpu:T4: unknown resource; {known}",
    ]
    negative = (
        "name: n\nteams: {a: {quota: {gpu: -1}, weight: -2, shares: 0}}\nclasses: {c: {priority: 0.5}}"
        + SERVERS
    )
    assert problems(tmp_path, negative) == [
        "classes.c.priority: must be a whole number, got 0.5",
        "teams.a.quota.gpu: must be >= 0, got -1",
        "teams.a.weight: must be >= 0, got -2",
        "teams.a.shares: must be > 0, got 0",
    ]
