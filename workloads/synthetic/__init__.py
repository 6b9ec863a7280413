"""Synthetic workloads: jobs like those of a trace, and jobs drawn from a training profile."""
