"""Gavel: shares of time on each GPU type, and the rounds that turn them into GPUs."""
