"""Documents as text for people: pure functions from plain data to text."""
