"""Starters without an interpreter of their own each, on the agent's machine: the resident parent
(`parent`), and its forks (`forked`), which show their claims in the process list (`process_title`).
"""
