"""Bounds on the result of any schedule, from limits that each kind of jobs states."""
