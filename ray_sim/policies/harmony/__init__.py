"""Harmony: placement of new jobs by a trained policy network."""
