"""Functions of other packages: call them, limit their time, read their answers, fall back.

A function of another package may raise anything, never return, or answer nonsense.

guards   `Guarded` calls a function until it misbehaves; from then on its form's fallback answers
calls    one call: its answer, or the reason why there is none
alarms   interrupt foreign code that does not return
"""
