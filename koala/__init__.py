"""Koala: a co-allocating scheduler for jobs that must start on several clusters at once."""
