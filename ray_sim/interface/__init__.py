"""Functions of `import ray_sim as rs`: what the command line does, for scripts and notebooks."""
