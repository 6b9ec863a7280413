"""Chunked jobs: the policy dispatches chunks of their data to workers."""
