"""Policies for Koala from outside: each is a function from values to a value."""
