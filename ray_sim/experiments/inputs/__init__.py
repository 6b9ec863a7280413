"""Files that a scenario names: clusters, servers, profiles, links."""
