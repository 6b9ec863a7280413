"""Workloads: trace conversion, the Parquet store, synthetic generators. Knows only `ray_sim.model`."""
