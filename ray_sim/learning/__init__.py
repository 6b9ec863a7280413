"""Learning to place jobs: batched worlds, models of training speed, networks and their training."""
