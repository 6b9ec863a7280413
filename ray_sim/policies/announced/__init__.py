"""Baselines for announced jobs: no prices, no failures."""
