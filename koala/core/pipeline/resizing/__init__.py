"""Resizes of malleable jobs while they run (Buisson et al. 2007).

growth     components that join, at a barrier of their own
leaving    components that are asked to give way, and the world that the others are told
managers   which jobs grow or shrink, and when
"""
