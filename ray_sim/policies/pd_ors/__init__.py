"""PD-ORS as a policy; what it computes is in `ray_sim.solvers.pd_ors`."""
