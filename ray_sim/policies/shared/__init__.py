"""Base classes and helpers that several policies use: plans at arrival, bundles, parameter servers."""
