"""Managers of malleable jobs: who grows into idle processors, and who gives back."""
