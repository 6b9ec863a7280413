"""What several policies share: queue orders, plans made at arrival, bundles, parameter servers."""
