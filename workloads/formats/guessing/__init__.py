"""Proposes the mapping of an unknown table: its presets, names and values. Called by `convert --guess`."""
