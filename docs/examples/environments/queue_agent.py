"""The agent that train_queue.py trains, as a policy: --policy queue_agent:Trained."""

from sb3_contrib import MaskablePPO

from ray_sim.environments import QueueAgent


class Trained(QueueAgent):
    """Starts jobs in the order that the network has learned."""

    most_jobs, scaled, observe = 6, True, ("duration_s", "tasks")
    trained_file = "queue_agent.zip"

    def load(self, file):
        return MaskablePPO.load(file, device="cpu")

    def act(self, seen):
        return int(self.trained.predict(seen, action_masks=seen["action_mask"], deterministic=True)[0])
