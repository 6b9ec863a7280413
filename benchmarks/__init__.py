"""Benchmarks of the budgets, run by `runner`; figures are ratios within one run where possible."""
