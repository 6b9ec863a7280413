"""Announced jobs: known before they come, by a statement of what they are worth and when they may come."""
