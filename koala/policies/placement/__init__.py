"""Placement policies: an execution site and a file site for each component, or a refusal."""
