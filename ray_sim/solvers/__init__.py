"""Bounds and plans computed from the model alone, without the engine."""
