"""PD-ORS as a policy; the schedules come from `ray_sim.solvers.planning`."""
