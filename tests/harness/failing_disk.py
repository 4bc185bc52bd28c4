"""A database whose disk fails in the middle of a commit, or is full."""

from __future__ import annotations

from typing import Any


def limit_pages(owner: Any, more: int = 0) -> None:
    """Let the database of a journal or store grow by so many pages, and then find the disk full."""
    connection = owner._database.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + more}")
