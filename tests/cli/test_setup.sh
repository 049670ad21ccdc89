#!/usr/bin/env bash
# tools/setup.sh installs nothing for a driver that is there and does not work.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

setup=$(cd "$(dirname "$0")/../../tools" && pwd)/setup.sh

# A package manager, and a way to the rights for it, that only write down how they were called.
make_manager() {
    mkdir "$work/bin"
    # shellcheck disable=SC2016 # that script expands them
    printf '#!/bin/sh\necho "$0 $*" >>"%s/asked"\n' "$work" >"$work/bin/apt-get"
    chmod +x "$work/bin/apt-get"
    cp "$work/bin/apt-get" "$work/bin/sudo"
}

set_up() {
    code=0
    env PATH="$work/bin:$PATH" "$@" "$setup" >"$work/stdout" 2>"$work/stderr" || code=$?
}

# PoCL finds no device where it has no folder to compile in.
test_nothing_is_installed_for_a_driver_that_does_not_work() {
    make_manager
    HOME=/proc "$CLATTN" info >/dev/null 2>&1 && return
    HOME=/proc "$CLATTN" info 2>&1 | grep -q 'Portable Computing Language' || return 0
    set_up HOME=/proc
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    [ ! -e "$work/asked" ] || fail "asked for: $(cat "$work/asked")"
    grep -q "platform 'Portable Computing Language': OpenCL error" "$work/stderr" || fail 'no platform is named'
}

run_tests
