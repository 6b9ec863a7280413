"""Base classes and helpers of several policies: plans at arrival, bundles, parameter servers."""
