"""Tests in a browser are collected where its client is installed: `make test-web` does that."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]
