"""What mathematics says about a run: bounds no policy can beat. Knows the model, not the engine."""
