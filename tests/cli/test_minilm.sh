#!/usr/bin/env bash
# A real attention layer against float64 results made by others, through
# every engine. f16 and bf16 round the inputs first, which the expected arrays
# do not know: they are held to the bars of a derivative.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

inputs=(--q "$minilm/q.npy" --k "$minilm/k.npy" --v "$minilm/v.npy" --kv-lengths "$minilm/kv_lengths.npy")
tangents=(--tq "$minilm/tq.npy" --tk "$minilm/tk.npy" --tv "$minilm/tv.npy")

# agrees RESULTS TOLERANCE ARGUMENT...: each result was compared and is good enough.
agrees() {
    local results=$1 tolerance=$2 name
    shift 2
    succeeds run "$@" --expect "$minilm" --tolerance "$tolerance"
    for name in $results; do
        says "^$name  relative [0-9.e+-]+  maximum [0-9.e+-]+  ok$"
    done
}

cotangents=(--do "$minilm/do.npy")

engines() { echo simt reference; }

test_forward_f32() {
    local engine
    for engine in $(engines); do
        agrees "o lse" 2e-6 forward "${inputs[@]}" --engine "$engine"
        says "^engine  $engine$"
    done
}

test_jvp_f32() {
    local engine
    for engine in $(engines); do
        agrees "o lse to tlse" 1e-5 jvp "${inputs[@]}" "${tangents[@]}" --engine "$engine"
    done
}

test_vjp_f32() {
    local engine
    for engine in $(engines); do
        agrees "o lse dq dk dv" 1e-5 vjp "${inputs[@]}" "${cotangents[@]}" --engine "$engine"
    done
}

test_hvp_f32() {
    local engine
    for engine in $(engines); do
        agrees "o lse to tlse dq dk dv tdq tdk tdv" 1e-5 hvp "${inputs[@]}" "${tangents[@]}" \
            "${cotangents[@]}" --tdo "$minilm/tdo.npy" --engine "$engine"
    done
}

test_default_tolerance_is_the_bar_of_the_type() {
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --expect "$minilm" --json
    says '"tolerance":.*1e-05'
    succeeds run forward "${inputs[@]}" --expect "$minilm" --json
    says '"tolerance":.*2e-06'
}

test_f16() {
    local engine
    for engine in $(engines); do
        agrees "o lse" 2e-3 forward "${inputs[@]}" --dtype f16 --engine "$engine"
        agrees "o lse to tlse" 2e-3 jvp "${inputs[@]}" "${tangents[@]}" --dtype f16 --engine "$engine"
    done
}

test_bf16() {
    local engine
    for engine in $(engines); do
        agrees "o lse" 1.5e-2 forward "${inputs[@]}" --dtype bf16 --engine "$engine"
        agrees "o lse to tlse" 1.5e-2 jvp "${inputs[@]}" "${tangents[@]}" --dtype bf16 --engine "$engine"
    done
}

test_f64_where_the_device_has_it() {
    local engine
    call run jvp "${inputs[@]}" "${tangents[@]}" --dtype f64
    if [ "$code" -ne 0 ] && has_one_error cl_khr_fp64; then
        return
    fi
    for engine in $(engines); do
        agrees "o lse to tlse" 1e-12 jvp "${inputs[@]}" "${tangents[@]}" --dtype f64 --engine "$engine"
    done
}

test_unmasked_padding_is_noticed() {
    call run forward --q "$minilm/q.npy" --k "$minilm/k.npy" --v "$minilm/v.npy" --expect "$minilm"
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    says '^o  .*FAIL, tolerance'
}

run_tests
