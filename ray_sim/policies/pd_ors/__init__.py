"""PD-ORS as a policy; `ray_sim.solvers.planning` computes the schedules."""
