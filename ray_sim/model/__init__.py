"""Facts about the simulated world: jobs, clusters, progress, results. No I/O, no Ray."""
