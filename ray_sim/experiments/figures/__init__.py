"""Published figures: their files, runs and verdicts."""
