"""Whether tasks share the GPUs of a server as devices, and worlds in which they cannot; kinds of jobs ask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ray_sim.engine.kinds.base import KindParameter
from ray_sim.kernels.core.devices import DEVICE, GPU
from ray_sim.model.errors import InvalidScenarioError
from ray_sim.model.parameters import Parameter
from ray_sim.model.units import BoolArray, IntArray

if TYPE_CHECKING:
    from ray_sim.engine.kinds.facts import WorldSetting

GPU_SHARES = KindParameter(
    Parameter(
        "gpu_shares",
        "choice",
        "devices",
        "GPUs of a server if a task asks for a share of one. devices: a share lies on one GPU; pooled: a "
        "server has room as long as its GPUs together have",
        choices=("devices", "pooled"),
        source="docs/engine.md#shares-of-a-gpu",
    ),
    "is about tasks that ask for a share of a GPU",
)

_POOLED = "Set -w gpu_shares=pooled to let shares lie on any GPUs of a server"


def ask_shares(setting: WorldSetting, demand: IntArray) -> BoolArray:
    """(J,) jobs a task of which asks for a share of a GPU where GPUs are devices.

    ``demand`` is (J, roles, R) quanta of a task.
    """
    if setting.values.get("gpu_shares", "pooled") == "pooled" or "gpu" not in setting.cluster.resources:
        return np.zeros(len(demand), dtype=np.bool_)
    gpus = demand[..., setting.cluster.resources.index("gpu")]
    sharing: BoolArray = np.any((gpus > 0) & (gpus < DEVICE), axis=1)
    return sharing


def has_devices(setting: WorldSetting, demand: IntArray) -> bool:
    """Whether the GPUs of the servers are devices: some task asks for a share of one.

    Raises
    ------
    InvalidScenarioError : they must be, and jobs or servers do not have whole GPUs
    """
    sharing = ask_shares(setting, demand)
    if not sharing.any():
        return False
    if problems := list(_unfit(setting, demand)):
        first = setting.table.name(int(np.argmax(sharing)))
        problem = "; ".join(problems)
        raise InvalidScenarioError(
            f"job {first} asks for a share of a GPU, so GPUs are devices, but {problem}. {_POOLED}"
        )
    return True


def refuse_shares(setting: WorldSetting, demand: IntArray, jobs: str) -> None:
    """Refuse shares of a GPU for a kind of job whose policies do not know devices; ``jobs`` names it.

    Raises
    ------
    InvalidScenarioError : it names the first job with a share
    """
    sharing = ask_shares(setting, demand)
    if sharing.any():
        first = setting.table.name(int(np.argmax(sharing)))
        raise InvalidScenarioError(
            f"job {first} asks for a share of a GPU, which policies of {jobs} jobs cannot give. {_POOLED}"
        )


def _unfit(setting: WorldSetting, demand: IntArray) -> Iterator[str]:
    """Reasons why the GPUs of a cluster cannot be devices for its jobs."""
    cluster, table = setting.cluster, setting.table
    if cluster.resources[GPU] != "gpu":
        yield f"resources {cluster.resources}: expected gpu as the first"
        return
    gpus = demand[..., GPU]
    uneven = ((gpus > DEVICE) & (gpus % DEVICE > 0)).any(axis=1)
    if uneven.any():
        job = int(np.argmax(uneven))
        yield f"job {table.name(job)} asks for {gpus[job].max() / DEVICE:g} GPUs a task"
    offered = cluster.capacity[:, GPU]
    if setting.values["overcommit"] != 1:
        yield f"overcommit={setting.values['overcommit']:g} promises more than devices have"
    elif (offered % DEVICE).any():
        server = int(np.argmax(offered % DEVICE > 0))
        yield f"server {cluster.server_names[server]} has {offered[server] / DEVICE:g} GPUs"
