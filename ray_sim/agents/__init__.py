"""Agents: policies that see observations and answer with actions, and the arrays and rules of both.

Environments and built-in policies share them: an environment shows an agent's observations to a learning
library and takes its actions from there. No module here imports gymnasium.
"""
