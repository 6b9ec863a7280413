"""The agent that train_queue.py trains, as a policy: --policy queue_agent:Trained."""

from sb3_contrib import MaskablePPO

from ray_sim.environments import QueueAgent


class Trained(QueueAgent):
    """Starts jobs in the order that the network has learned."""

    most_jobs, scaled, observe = 6, True, ("duration_s", "tasks", "free")
    unchanging = frozenset({"network"})

    def __init__(self):
        self.network = MaskablePPO.load("queue_agent", device="cpu")

    def act(self, seen):
        return int(self.network.predict(seen, action_masks=seen["action_mask"], deterministic=True)[0])
