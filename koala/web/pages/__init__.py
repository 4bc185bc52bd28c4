"""Handlers of the pages: each reads the model or asks the daemon, and renders a template."""
