"""Trace formats, one folder each, and the text reader that they share."""
