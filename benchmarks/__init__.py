"""What measures the budgets. Figures are ratios of things timed in one run."""
