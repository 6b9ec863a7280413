"""Fixed gangs of workers and parameter servers, placed task by task: the baselines of Harmony."""
