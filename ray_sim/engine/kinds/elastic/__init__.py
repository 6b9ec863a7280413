"""Elastic jobs: the policy decides how many workers and parameter servers they get."""
