"""Compiled loops: arrays in, arrays out. Run with NUMBA_DISABLE_JIT=1 they are plain Python."""
