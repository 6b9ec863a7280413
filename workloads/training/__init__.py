"""Training profiles: add to each job how it trains (enrichment)."""
