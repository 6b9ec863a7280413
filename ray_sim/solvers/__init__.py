"""Bounds and plans computed from the model alone.

Certificates, kinds of jobs, policies (`planning/`) and experiments call them. Nothing here imports the engine
or a policy.
"""
