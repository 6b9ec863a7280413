"""Compiled loops of every kind of job: world arrays, placement, queues, progress, replay."""
