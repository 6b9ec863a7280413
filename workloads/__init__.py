"""Workloads: Parquet store, conversion, synthetic jobs, training profiles. Knows only `ray_sim.model`."""
