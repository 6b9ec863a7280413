"""Bounds on what any schedule could reach, from limits that the kind of jobs states."""
