#!/usr/bin/env bash
# What becomes of results: files, comparisons, times, JSON.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# q and k of zeros, v of ones: o is 1, lse is log 2. Inputs are [1,1,2,2].
make_inputs() {
    zeros 4 | npy "$work/q.npy" '<f4' '(1, 1, 2, 2)'
    cp "$work/q.npy" "$work/k.npy"
    ones 4 | npy "$work/v.npy" '<f4' '(1, 1, 2, 2)'
    inputs=(--q "$work/q.npy" --k "$work/k.npy" --v "$work/v.npy")
}

# The expected o and lse of these inputs, in $work/good; 0x3f317218 is log 2.
make_expected() {
    mkdir "$work/good"
    ones 4 | npy "$work/good/o.npy" '<f4' '(1, 1, 2, 2)'
    printf '\030\162\061\077\030\162\061\077' | npy "$work/good/lse.npy" '<f4' '(1, 1, 2)'
}

# files DIR: the names of a folder's files, in one line.
files() { (cd "$1" && echo *); }

test_out_writes_results_as_float32() {
    make_inputs
    make_expected
    succeeds run forward "${inputs[@]}" --out "$work/a/b"
    says '^wrote +.*/a/b/o.npy +\[1,1,2,2\]$'
    says '^wrote +.*/a/b/lse.npy +\[1,1,2\]$'
    [ "$(files "$work/a/b")" = 'lse.npy o.npy' ] || fail "files: $(files "$work/a/b")"
    same_data "$work/a/b/o.npy" "$work/good/o.npy" || fail 'o is not 1'
    [[ $(npy_header "$work/a/b/o.npy") == *"'<f4'"* ]] || fail "header of o: $(npy_header "$work/a/b/o.npy")"
    has_shape "$work/a/b/o.npy" '(1, 1, 2, 2)' || fail "header of o: $(npy_header "$work/a/b/o.npy")"
    has_shape "$work/a/b/lse.npy" '(1, 1, 2)' || fail "header of lse: $(npy_header "$work/a/b/lse.npy")"
}

test_out_of_jvp() {
    make_inputs
    succeeds run jvp "${inputs[@]}" --tv "$work/v.npy" --out "$work/out"
    [ "$(files "$work/out")" = 'lse.npy o.npy tlse.npy to.npy' ] || fail "files: $(files "$work/out")"
    same_data "$work/out/to.npy" "$work/v.npy" || fail 'to is not 1'
}

test_jvp_without_tangents_is_zero() {
    make_inputs
    succeeds run jvp "${inputs[@]}" --out "$work/out"
    same_data "$work/out/to.npy" "$work/q.npy" || fail 'to is not 0'
}

test_out_is_f32_for_narrow_types_and_f64_for_f64() {
    make_inputs
    local type
    for type in f16 bf16; do
        succeeds run forward "${inputs[@]}" --dtype "$type" --out "$work/$type"
        same_data "$work/$type/o.npy" "$work/v.npy" || fail "o of $type is not 1 in float32"
    done
    call run forward "${inputs[@]}" --dtype f64 --out "$work/f64"
    if [ "$code" -ne 0 ] && has_one_error cl_khr_fp64; then
        return
    fi
    [[ $(npy_header "$work/f64/o.npy") == *"'<f8'"* ]] || fail "header: $(npy_header "$work/f64/o.npy")"
}

test_float16_and_float64_files_are_read() {
    make_inputs
    printf '\0\074\0\074\0\074\0\074' | npy "$work/half.npy" '<f2' '(1, 1, 2, 2)'
    printf '\0\0\0\0\0\0\360\077\0\0\0\0\0\0\360\077\0\0\0\0\0\0\360\077\0\0\0\0\0\0\360\077' |
        npy "$work/double.npy" '<f8' '(1, 1, 2, 2)'
    local name
    for name in half double; do
        succeeds run forward --q "$work/q.npy" --k "$work/k.npy" --v "$work/$name.npy" --out "$work/$name"
        same_data "$work/$name/o.npy" "$work/v.npy" || fail "o of v as $name is not 1"
    done
}

test_without_out_nothing_is_written() {
    make_inputs
    mkdir "$work/here"
    cd "$work/here" || return
    succeeds run forward "${inputs[@]}"
    cd "$work" || return
    [ -z "$(ls -A "$work/here")" ] || fail "files: $(ls -A "$work/here")"
}

test_out_that_cannot_be_written_leaves_nothing() {
    make_inputs
    mkdir -p "$work/out/lse.npy"
    refuses 1 '--out: .*/lse.npy: cannot write' run forward "${inputs[@]}" --out "$work/out"
    [ "$(ls -A "$work/out")" = lse.npy ] || fail "files: $(ls -A "$work/out")"
    : >"$work/file"
    refuses 1 '--out: .*/file: cannot make the directory: .*/file: Not a directory' run forward \
        "${inputs[@]}" --out "$work/file"
    refuses 1 '--out: .*/file/x/y: cannot make the directory: .*/file: Not a directory' run forward \
        "${inputs[@]}" --out "$work/file/x/y"
    refuses 1 '--out: ' run forward "${inputs[@]}" --out ''
}

# to_nobody PATTERN: the last call's exit code is 1, for that reason and no other, and no result is there.
to_nobody() {
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    has_one_error "^clattn: standard output: $1" || fail "one line with '$1' was expected"
    [ -z "$(ls -A "$work/out" 2>/dev/null)" ] || fail "files: $(ls -A "$work/out")"
}

test_nothing_is_written_when_the_report_does_not_arrive() {
    make_inputs
    local call=("$CLATTN" run forward "${inputs[@]}" --out "$work/out")
    code=0
    "${call[@]}" >&- 2>"$work/stderr" || code=$?
    to_nobody 'Bad file descriptor'
    [ ! -e "$work/out" ] || fail '--out was made'
    code=0
    { "${call[@]}" 2>"$work/stderr" || echo $? >"$work/code"; } | exec sh -c 'exec <&-; sleep 1; cat >/dev/null 2>&1'
    if [ -e "$work/code" ]; then
        code=$(cat "$work/code")
        to_nobody 'Broken pipe'
    fi
    rm -rf "$work/out"
    [ -e /dev/full ] || return 0
    code=0
    "${call[@]}" >/dev/full 2>"$work/stderr" || code=$?
    to_nobody 'No space left'
    code=0
    "${call[@]}" <&- 2>&- >"$work/stdout" || code=$?
    [ "$code" -eq 0 ] || fail "exit code $code without stdin and stderr"
    [ -e "$work/out/o.npy" ] || fail 'o was not written'
}

test_expect_compares_what_is_there() {
    make_inputs
    make_expected
    succeeds run forward "${inputs[@]}" --expect "$work/good"
    says '^o  relative 0.0e\+00  maximum 0.0e\+00  ok$'
    says '^lse  relative .*  ok$'
    rm "$work/good/lse.npy"
    succeeds run forward "${inputs[@]}" --expect "$work/good"
    grep -q '^lse' "$work/stdout" && fail 'lse is compared with nothing'
}

test_expect_beyond_tolerance_exits_1_and_still_writes() {
    make_inputs
    make_expected
    printf '\0\0\200\077\0\0\200\077\0\0\200\077\0\0\300\077' | npy "$work/good/o.npy" '<f4' '(1, 1, 2, 2)'
    call run forward "${inputs[@]}" --expect "$work/good" --out "$work/out"
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    has_one_error '--expect: 1 of the results beyond the tolerance' || fail 'one line was expected'
    says '^o  relative 2.2e-01  maximum 5.0e-01  FAIL, tolerance 2.0e-06$'
    [ -e "$work/out/o.npy" ] || fail 'o was not written'
    succeeds run forward "${inputs[@]}" --expect "$work/good" --tolerance 0.23
    call run forward "${inputs[@]}" --expect "$work/good" --tolerance 0.21
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
}

test_expect_judges_nan_by_row() {
    make_inputs
    make_expected
    printf '\0\0\200\077\0\0\200\077\0\0\300\177\0\0\200\077' | npy "$work/good/o.npy" '<f4' '(1, 1, 2, 2)'
    call run forward "${inputs[@]}" --expect "$work/good" --tolerance 1e30
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    says '^o  .*FAIL, row 1 differs in infinity or NaN$'
}

test_expect_that_cannot_be_compared_writes_nothing() {
    make_inputs
    make_expected
    local call=(run forward "${inputs[@]}" --out "$work/out" --expect)
    refuses 1 '--expect: .*nosuch' "${call[@]}" "$work/nosuch"
    mkdir "$work/empty"
    refuses 1 '--expect: .*has none of the results' "${call[@]}" "$work/empty"
    zeros 2 | npy "$work/good/o.npy" '<f4' '(1, 1, 1, 2)'
    refuses 1 '--expect: .*/o.npy: shape \[1,1,1,2\], expected \[1,1,2,2\]' "${call[@]}" "$work/good"
    zeros 4 | npy "$work/good/o.npy" '<i4' '(1, 1, 2, 2)'
    refuses 1 '--expect: .*/o.npy: type int32' "${call[@]}" "$work/good"
    head -c 100 "$work/q.npy" >"$work/good/o.npy"
    refuses 1 '--expect: .*/o.npy: truncated' "${call[@]}" "$work/good"
    [ ! -e "$work/out" ] || fail '--out was made'
}

test_failed_run_leaves_results_of_earlier_ones() {
    make_inputs
    succeeds run forward "${inputs[@]}" --out "$work/out"
    cp -r "$work/out" "$work/before"
    refuses 2 'scale' run forward "${inputs[@]}" --out "$work/out" --scale nan
    refuses 1 '--mask' run forward "${inputs[@]}" --out "$work/out" --mask "$work/nosuch.npy"
    diff -r "$work/before" "$work/out" >"$work/stdout" || fail 'files changed'
}

test_time_prints_a_median() {
    make_inputs
    succeeds run forward "${inputs[@]}" --time 3
    says '^time +median [0-9.e+-]+ ms, minimum [0-9.e+-]+ ms, [0-9.e+-]+ TFLOP/s$'
    succeeds run forward "${inputs[@]}"
    grep -q '^time' "$work/stdout" && fail 'a time without --time'
}

test_json_is_one_object() {
    make_inputs
    make_expected
    local key keys="op device engine tiles flops bytes workspace_bytes device_bytes"
    succeeds run forward "${inputs[@]}" --json --time 2 --expect "$work/good" --out "$work/out"
    [ "$(head -c 1 "$work/stdout")$(tail -n 1 "$work/stdout")" = '{}' ] || fail 'not one object'
    for key in $keys median_ms min_ms tflops errors; do
        says "\"$key\":"
    done
    says '"op":.*"forward"'
    # two products of 2 x 2 x 2, at two operations; q, k, v, o and lse
    says '"flops":[[:space:]]*32,'
    says '"bytes":[[:space:]]*72,'
    succeeds run forward "${inputs[@]}" --json
    grep -Eq '"(median_ms|errors)"' "$work/stdout" && fail 'times or errors that nobody asked for'
}

test_json_of_a_bad_result_is_still_one_object() {
    make_inputs
    make_expected
    zeros 4 | npy "$work/good/o.npy" '<f4' '(1, 1, 2, 2)'
    call run forward "${inputs[@]}" --json --expect "$work/good"
    [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
    [ "$(head -c 1 "$work/stdout")$(tail -n 1 "$work/stdout")" = '{}' ] || fail 'not one object'
    says '"ok":.*false'
}

# o has 1024 floats for each float of q, and is one row larger than what can be allocated at once.
test_result_that_does_not_fit_the_device_is_named() {
    local largest rows
    largest=$("$CLATTN" info --json | sed -n 's/.*"max_allocation":[^0-9]*\([0-9]*\).*/\1/p' | head -n 1)
    rows=$((largest / 4096 + 1))
    npy "$work/q.npy" '<f4' "(1, 1, $rows, 1)" </dev/null
    truncate -s "+$((4 * rows))" "$work/q.npy"
    zeros 1 | npy "$work/k.npy" '<f4' '(1, 1, 1, 1)'
    zeros 1024 | npy "$work/v.npy" '<f4' '(1, 1, 1, 1024)'
    refuses 1 "^clattn: o: $((4096 * rows)) bytes, expected at most $largest" run forward --q "$work/q.npy" \
        --k "$work/k.npy" --v "$work/v.npy" --device 0 --engine reference --out "$work/out"
    [ ! -e "$work/out" ] || fail '--out was made'
}

test_no_queries_and_no_keys() {
    make_inputs
    zeros 0 | npy "$work/none.npy" '<f4' '(1, 1, 0, 2)'
    succeeds run forward --q "$work/none.npy" --k "$work/k.npy" --v "$work/v.npy" --out "$work/no_queries"
    has_shape "$work/no_queries/o.npy" '(1, 1, 0, 2)' || fail "$(npy_header "$work/no_queries/o.npy")"
    succeeds run jvp --q "$work/q.npy" --k "$work/none.npy" --v "$work/none.npy" --out "$work/no_keys"
    same_data "$work/no_keys/o.npy" "$work/q.npy" || fail 'o is not 0'
    printf '\0\0\200\377\0\0\200\377' | cmp -s - <(npy_data "$work/no_keys/lse.npy") || fail 'lse is not -inf'
}

run_tests
