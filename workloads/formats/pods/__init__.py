"""Lists of Kubernetes pods and nodes (format gpu-pods)."""
