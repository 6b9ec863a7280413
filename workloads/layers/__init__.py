"""Layers of an enrichment: several profiles that fill different columns of one workload."""
