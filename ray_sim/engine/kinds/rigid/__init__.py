"""Rigid jobs hold all their tasks or nothing."""
