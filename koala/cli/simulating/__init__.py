"""The commands of `koala simulate`, one module each, and what they share (`shared`).

A command checks its options, hands a setting to koala.sim, and prints what comes back. Numbers are
computed in koala.sim, never here.
"""
