#!/usr/bin/env bash
# Formats the C, C++ and OpenCL files of the project with clang-format.
#
#   tools/format.sh           rewrites files
#   tools/format.sh --check   changes nothing, fails where something would change
set -eu

cd "$(dirname "$0")/.."

case ${1-} in
'') mode=(-i) ;;
--check) mode=(--dry-run -Werror) ;;
*)
    echo "usage: tools/format.sh [--check]" >&2
    exit 2
    ;;
esac

find include src cl tools tests examples -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cl' -o -name '*.cpp' \) -print0 |
    xargs -0 clang-format "${mode[@]}"
