#!/usr/bin/env bash
# Installs what is missing, builds the release preset into build/ and runs the
# whole suite. Arguments are passed on to ctest: -L unit, -R name.
set -eu

cd "$(dirname "$0")/.."
tools/setup.sh --extras
jobs=$(getconf _NPROCESSORS_ONLN)

cmake --preset release
cmake --build --preset release --parallel "$jobs"

# Each test's kernels use all cores of a CPU device; a few at once keep the
# compilers busy without crowding the machine.
ctest --preset release --parallel "$((jobs < 4 ? jobs : 4))" "$@"
