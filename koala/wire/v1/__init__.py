"""Generated from proto/koala/wire/v1 by proto/generate.py: never edited."""
