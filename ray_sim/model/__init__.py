"""Facts of the simulated world: jobs, clusters, progress, results. No I/O, no Ray."""
