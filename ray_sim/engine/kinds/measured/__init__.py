"""Measured jobs: gangs whose speed on each GPU type comes from a table."""
