"""Cluster traces of Google (formats google-2011 and google-2019)."""
