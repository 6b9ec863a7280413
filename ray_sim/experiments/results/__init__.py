"""Directories of runs, sweeps and trainings: written, read and checked."""
