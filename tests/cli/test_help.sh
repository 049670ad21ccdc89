#!/usr/bin/env bash
# Help, versions, and a machine without OpenCL.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# Those that are built, as the command lists them.
built() { "$CLATTN" --help | sed -n '/not built yet/d; s/^  \([a-z][a-z]*\)  .*/\1/p'; }

subcommands() { "$CLATTN" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'; }

test_help_is_everywhere() {
    local name
    succeeds --help
    says '^usage: clattn'
    [[ $(built | tr '\n' ' ') == *"info run check"* ]] || fail "info, run and check are not all listed"
    for name in $(subcommands); do
        succeeds "$name" --help
        says "^usage: clattn $name"
    done
    for name in $("$CLATTN" --help | sed -n 's/^  \([a-z]*\)  .*(not built yet)$/\1/p'); do
        succeeds "$name" --help
        says 'not built yet'
    done
}

test_help_of_run_lists_every_option() {
    local name names
    names="q k v layout tq tk tv tbias tsink tdo tdlse do dlse scale softcap bias alibi sink logit logit-data
        mask causal window kv-lengths q-segments kv-segments block-mask block cu-seqlens-q cu-seqlens-k
        dropout seed offset dtype out-dtype device engine out expect tolerance time json help"
    succeeds run --help
    for name in $names; do
        says "^  --$name( |\$)"
    done
}

test_help_wins_over_other_errors() {
    succeeds run forward --nonsense --help
}

test_version() {
    succeeds --version
    says '^clattn [0-9]+\.[0-9]+\.[0-9]+$'
}

test_info_names_device_and_engines() {
    local dtype
    succeeds info
    says '^  device 0: '
    for dtype in f32 f16 bf16 f64; do
        says "^    engine for $dtype"
    done
    succeeds info --json
    says '"platforms":'
}

test_no_platform_is_one_line() {
    mkdir "$work/vendors"
    export OCL_ICD_VENDORS=$work/vendors
    refuses 1 'no OpenCL' info
    refuses 1 'no OpenCL' info --json
    refuses 1 'no OpenCL' check
    refuses 1 'no OpenCL' run forward --q "$minilm/q.npy" --k "$minilm/k.npy" --v "$minilm/v.npy" \
        --out "$work/out"
    [ ! -e "$work/out" ] || fail "--out was made"
    succeeds --help
    unset OCL_ICD_VENDORS
}

# PoCL has no device where it has no folder to compile in.
test_driver_without_a_device_is_named() {
    HOME=/proc "$CLATTN" info >/dev/null 2>&1 && return
    local home=$HOME
    HOME=/proc
    refuses 1 'no OpenCL device: none on platform .*' info
    refuses 1 'no OpenCL device: none on platform .*' check
    HOME=$home
}

test_answer_that_does_not_arrive_is_no_success() {
    [ -e /dev/full ] || return 0
    code=0
    "$CLATTN" info >/dev/full 2>"$work/stderr" || code=$?
    [ "$code" -eq 1 ] || fail "exit code $code with a full disk behind stdout, expected 1"
}

run_tests
