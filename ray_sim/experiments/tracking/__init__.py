"""MLflow: runs, experiments, prepared views."""
