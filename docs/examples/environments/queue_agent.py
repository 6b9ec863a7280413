"""The agent that train_queue.py trains, as a policy: --policy queue_agent:Trained."""

from sb3_contrib import MaskablePPO

from ray_sim.environments import QueueAgent


class Trained(QueueAgent):
    """Starts jobs in the order that the network has learned."""

    most_jobs, scaled, observe = 6, True, ("duration_s", "tasks", "running")
    trained_file = "queue_agent.zip"

    def load(self, file):
        return MaskablePPO.load(file, device="cpu")

    def act(self, seen):
        if not seen.pop("running")[0]:  # the network does not see it
            seen["action_mask"][-1] = 0  # nothing may be due to wait for
        return int(self.trained.predict(seen, action_masks=seen["action_mask"], deterministic=True)[0])
