"""Philly trace of Microsoft (formats philly and philly-csv)."""
