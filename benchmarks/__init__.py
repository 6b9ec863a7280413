"""What measures the budgets, by `runner`. Where it can, in ratios of things timed in one run."""
