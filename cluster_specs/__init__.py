"""Bundled cluster descriptions, found by their bare name (`--cluster pool-368`)."""
