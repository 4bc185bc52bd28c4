"""Durable state of the daemon: the journal and everything derived from it.

folder               the state directory: its lock, and the files beside the database
journal              append-only, hash-chained events in SQLite, with the position of the last one
records              encoding and chaining of the journal's rows, without the file; `spec_codec`
                     encodes job descriptions
archive              snapshots and archived jobs
damaged_history      find damage in events that no start needs, and drop them
watermark            journal positions that agents have seen: detect a rolled-back journal
journal_reader       read a journal without owning it; `read_connections` for long reads
"""
