"""Files of a claim on machines of its own: their sync with the agent, and patterns of outputs."""
