"""Files of a claim on machines of its own: their sync with the agent, patterns of outputs, and
temporary folders.
"""
