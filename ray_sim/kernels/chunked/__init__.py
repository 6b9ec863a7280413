"""Compiled loops for jobs of data chunks: queues of workers, cost increments, the ledger of chunks."""
