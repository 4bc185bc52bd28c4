"""Durable state of the daemon: the journal, and what is derived from it.

journal              append-only, hash-chained events in SQLite, with their high-water mark
records              rows of the journal and how they are chained, without the file
archive, retention   snapshots and jobs that are over; which events no start needs any more
watermark            journal positions that agents have seen: detect a rolled-back journal
journal_reader       read a journal without owning it; `read_connections` for long reads
upgrade              take over the journal of another release
salvage              read what is left of a damaged journal
"""
