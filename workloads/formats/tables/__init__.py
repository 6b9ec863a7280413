"""Delimited tables with a mapping of their columns (format csv)."""
