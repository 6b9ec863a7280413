"""Tetris packing as Harmony compares with it: each task on the fullest server where it fits."""

from __future__ import annotations

from typing import ClassVar

from ray_sim.policies.task_placement.gangs import TaskPlacement
from ray_sim.policies.task_placement.placement_kernels import LEAST_LEFT


class TetrisPacking(TaskPlacement):
    """Place each task of a gang on the server with the least sum over resources of free / capacity.

    Source: a baseline of Bao et al., Deep Learning-based Job Placement in Distributed Machine Learning
    Clusters, INFOCOM 2019.
    """

    name: ClassVar[str] = "tetris_packing"
    section: ClassVar[str] = "docs/models/baselines.md#gangs-placed-task-by-task (Bao et al., INFOCOM 2019)"
    summary: ClassVar[str] = "fixed gangs, each task on the fullest server where it fits (Tetris in Harmony)"
    rule: int = LEAST_LEFT
