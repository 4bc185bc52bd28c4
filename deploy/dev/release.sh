#!/usr/bin/env bash
# Build the release that pyproject.toml names: wheel and source archive below dist/, and the tag. Needs a clean checkout and a section
# of the changelog for the version. Nothing is uploaded.
set -euo pipefail

cd "$(dirname "$0")/../.."
python=${1:?the interpreter of the environment}
version=$("$python" -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])')

fail() {
  printf 'release: %s\n' "$*" >&2
  exit 1
}

[ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed"
grep -qF "## [$version]" CHANGELOG.md || fail "CHANGELOG.md has no section [$version]"
grep -qF "version: $version" CITATION.cff || fail "CITATION.cff has another version than $version"
if git rev-parse -q --verify "refs/tags/v$version" >/dev/null && [ "$(git rev-list -n 1 "v$version")" != "$(git rev-parse HEAD)" ]; then
  fail "the tag v$version exists, at another commit"
fi
rm -rf dist
"$python" -m pip wheel --quiet --no-deps --wheel-dir dist .
git archive --format=tar.gz --prefix="koala-scheduler-$version/" -o "dist/koala-scheduler-$version.tar.gz" HEAD
git rev-parse -q --verify "refs/tags/v$version" >/dev/null || git tag -a "v$version" -m "Koala $version"
printf 'release: %s\n' dist/*
printf 'release: tagged v%s; push it with: git push origin v%s\n' "$version" "$version"
