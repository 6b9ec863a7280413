"""The contract that every policy keeps, also a user's own: `ray-sim check-policy`."""
