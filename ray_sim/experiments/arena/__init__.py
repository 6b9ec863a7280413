"""The arena: all systems on the same jobs."""
