"""The agent that train_maskable.py trains, as a policy: --policy maskable_agent:Trained -p network=FILE."""

from functools import cached_property
from pathlib import Path

import numpy as np
from sb3_contrib import MaskablePPO

from ray_sim.environments import PlacementAgent
from ray_sim.policies.harmony.architecture import STATE
from ray_sim.policy_api import Parameter

MODELS = (
    "resnet-50",
    "vgg-16",
    "resnext-110",
    "inception-bn",
    "seq2seq",
    "cnn-text-classification",
    "dssm",
    "wlm",
)
SHOWN = (*STATE, "hidden")
NETWORK = Parameter("network", "text", None, "file that train_maskable.py wrote")


def flat(seen):
    """All entries of an observation but the mask, one after the other."""
    return np.concatenate([seen[name].ravel() for name in SHOWN])


class Trained(PlacementAgent):
    """Places the tasks of one job after the other by the most probable action of the network."""

    most_jobs, most_new, scaled, observe, models = 1, 1, True, SHOWN, MODELS
    parameters = (NETWORK,)
    unchanging = frozenset({"network"})

    def __init__(self, network):
        self.file = Path(network)

    def input_files(self):
        return {NETWORK.name: self.file}

    @cached_property
    def network(self):
        return MaskablePPO.load(self.file, device="cpu")

    def act(self, seen):
        return int(self.network.predict(flat(seen), action_masks=seen["action_mask"], deterministic=True)[0])
