"""Parallel runs on Ray; the only part of the experiments that imports Ray."""

from ray_sim.experiments.fanout.connection import check_address, cluster
from ray_sim.experiments.fanout.driver import fan_out

__all__ = ["check_address", "cluster", "fan_out"]
