"""Kernels of announced jobs."""
