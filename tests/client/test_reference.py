"""The reference has every field of every record, with its meaning."""

from __future__ import annotations

from tests.client.reference import PAGE, records, rows, written


def test_the_reference_has_the_records_as_they_are() -> None:
    """After a change: `python -m tests.client.reference` rewrites the chapter."""
    page = PAGE.read_text(encoding="utf-8")
    assert "\n### JobDetails\n" in page
    assert page == written(page)


def test_every_field_says_what_it_means() -> None:
    mute = [
        f"{one.__name__}.{name}" for one in records() for name, _, text in rows(one) if not text
    ]
    assert mute == []
