"""The loop, the sites and the policy contract."""
