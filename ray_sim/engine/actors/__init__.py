"""Runs with the central scheduler and every site in a Ray actor of its own; `scheduler` has the entry."""
