"""Groups of servers that are simulated together, in this process or in Ray actors."""
