"""Generated from proto/koala/common/wire/v1 by proto/generate.py: never edited."""
