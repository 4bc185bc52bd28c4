"""Processes at the barrier (`process`), each a fork of the starter."""
