"""Compiled loops for jobs of workers and parameter servers: step times, shares, placement of tasks."""
