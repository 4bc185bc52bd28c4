"""Placement: which execution site and file site each component gets, or that it cannot be placed
now.
"""
