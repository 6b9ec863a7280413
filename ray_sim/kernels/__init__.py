"""Compiled functions: arrays in, arrays out. With NUMBA_DISABLE_JIT=1 they run as plain Python."""
