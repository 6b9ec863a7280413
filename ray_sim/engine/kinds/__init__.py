"""Kinds of jobs: rigid, elastic, chunked."""
