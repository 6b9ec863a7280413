"""Benchmarks of the budgets, run by `ray-sim bench`; figures are ratios within one run where possible."""
