"""Parallel runs on Ray; the only part of the experiments that imports Ray."""
