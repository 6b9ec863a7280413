"""A batch scheduler: backfilling, preemption and quotas."""
