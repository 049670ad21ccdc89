#!/usr/bin/env bash
# Input files that are missing, damaged or of another type or shape than the
# problem's: exit code 1, one line that names option and file, nothing written.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# The least problem that can be run: [1,1,2,2] of zeros.
make_inputs() {
    local name
    for name in q k v; do
        zeros 4 | npy "$work/$name.npy" '<f4' '(1, 1, 2, 2)'
    done
    inputs=(--q "$work/q.npy" --k "$work/k.npy" --v "$work/v.npy")
}

# bad PATTERN OPERATION OPTION...: with good inputs.
bad() {
    local pattern=$1 operation=$2
    shift 2
    refuses 1 "$pattern" run "$operation" "${inputs[@]}" --out "$work/out" "$@"
    [ ! -e "$work/out" ] || fail "--out was made by: $*"
}

# bad_q PATTERN: $work/x.npy as q.
bad_q() {
    refuses 1 "^clattn: --q: .*/x.npy: .*$1" run forward --q "$work/x.npy" "${inputs[@]:2}" --out "$work/out"
    [ ! -e "$work/out" ] || fail "--out was made"
}

test_good_inputs_are_good() {
    make_inputs
    succeeds run forward "${inputs[@]}"
}

test_files_that_are_not_there() {
    make_inputs
    bad_q 'No such file'
    bad '--bias: .*nosuch.npy: No such file' forward --bias "$work/nosuch.npy"
    bad '--kv-lengths: : ' forward --kv-lengths ''
    bad '--logit: .*nosuch.cl: No such file' forward --logit "$work/nosuch.cl"
    mkdir "$work/x.npy"
    bad_q 'expected a regular file'
}

test_a_pipe_does_not_hang() {
    make_inputs
    mkfifo "$work/x.npy"
    bad_q 'expected a regular file'
}

# Names of files are quoted in messages, and must not break the line or command the terminal.
test_names_with_control_characters_stay_on_the_line() {
    make_inputs
    bad '--bias: .*/two\?lines\?\[1mé.npy: No such file' forward --bias "$work"/$'two\nlines\e[1mé.npy'
    bad '--logit: .*/two\?lines: No such file' forward --logit "$work"/$'two\nlines'
    refuses 2 "unknown option 'two\?lines'" run forward $'two\nlines'
    refuses 2 "engine: 'two\?lines'" run forward "${inputs[@]}" --engine $'two\nlines'
    succeeds run forward "${inputs[@]}" --out "$work"/$'two\nlines'
    says '^wrote .*/two\?lines/o.npy'
    [ -e "$work"/$'two\nlines/o.npy' ] || fail 'o is not there'
}

test_logit_file_that_is_no_file_does_not_hang() {
    make_inputs
    mkfifo "$work/pipe"
    bad '--logit: .*/pipe: expected a regular file' forward --logit "$work/pipe"
    bad '--logit: /dev/zero: expected a regular file' forward --logit /dev/zero
    bad '--logit: .*: expected a regular file' forward --logit "$work"
    bad '--bias: /dev/zero: expected a regular file' forward --bias /dev/zero
    refuses 1 '--logit: .*/pipe: expected a regular file' check --logit "$work/pipe"
    echo 'void clattn_logit(' >"$work/x.cl"
    refuses 1 '--logit-data: .*/pipe: expected a regular file' check --logit "$work/x.cl" \
        --logit-data "$work/pipe"
    mkdir "$work/expected"
    mkfifo "$work/expected/o.npy"
    bad '--expect: .*/o.npy: expected a regular file' forward --expect "$work/expected"
}

test_damaged_files() {
    make_inputs
    : >"$work/x.npy"
    bad_q 'truncated'
    echo 'this is text, and there is enough of it to be a header' >"$work/x.npy"
    bad_q 'not a .npy file'
    head -c 9 "$work/q.npy" >"$work/x.npy"
    bad_q 'truncated'
    head -c 60 "$work/q.npy" >"$work/x.npy"
    bad_q 'truncated'
    zeros 3 | npy "$work/x.npy" '<f4' '(1, 1, 2, 2)'
    bad_q 'truncated: expected 16 bytes of data, found 12'
    zeros 5 | npy "$work/x.npy" '<f4' '(1, 1, 2, 2)'
    bad_q 'trailing bytes: expected 16 bytes of data, found 20'
    sed '1s/NUMPY\x01/NUMPY\x09/' "$work/q.npy" >"$work/x.npy"
    bad_q 'format version 9.0'
}

test_damaged_headers() {
    make_inputs
    zeros 4 | npy "$work/x.npy" '<f4' '(1, 1, 2, -2)'
    bad_q 'shape'
    zeros 4 | npy "$work/x.npy" '<f4' '(1, 1, 2, 2'
    bad_q 'malformed header'
    zeros 4 | npy "$work/x.npy" '<f4' "4, 'shape': (4,)"
    bad_q 'malformed header'
    zeros 4 | npy "$work/x.npy" '<f4' '(9223372036854775807, 9223372036854775807, 2, 2)'
    bad_q 'shape|size'
    zeros 4 | npy "$work/x.npy" '<f4' '(1000000000, 1000000000, 1, 1)'
    bad_q 'truncated: expected 4000000000000000000 bytes of data, found 16'
    sed '1s/False/True /' "$work/q.npy" >"$work/x.npy"
    bad_q 'fortran_order is True, expected C order'
    sed "1s/'shape'/'shade'/" "$work/q.npy" >"$work/x.npy"
    bad_q 'malformed header'
}

test_types() {
    make_inputs
    local type
    for type in '>f4' '|O' '<c8' '<u2' '<U4' '<f16'; do
        zeros 4 | npy "$work/x.npy" "$type" '(1, 1, 2, 2)'
        bad_q "type '$type"
    done
    zeros 4 | npy "$work/x.npy" '<i4' '(1, 1, 2, 2)'
    bad_q 'type int32, expected float16, float32 or float64'
    bad '--mask: .*type float32, expected bool' forward --mask "$work/q.npy"
    zeros 1 | npy "$work/u8.npy" '|u1' '(1, 1, 2, 2)'
    bad '--mask: .*type uint8, expected bool' forward --mask "$work/u8.npy"
    bad '--kv-lengths: .*type float32, expected int32' forward --kv-lengths "$work/q.npy"
    zeros 2 | npy "$work/i8.npy" '<i8' '(1,)'
    bad '--kv-lengths: .*type int64, expected int32' forward --kv-lengths "$work/i8.npy"
}

# shaped NAME SHAPE COUNT
shaped() { zeros "$3" | npy "$work/$1.npy" '<f4' "$2"; }

# mismatch PATTERN Q K V: forward on three of the files in $work.
mismatch() {
    refuses 1 "$1" run forward --q "$work/$2.npy" --k "$work/$3.npy" --v "$work/$4.npy"
}

test_shapes_that_do_not_agree() {
    make_inputs
    shaped x '(1, 2, 2)' 4
    mismatch '--q: shape \[1,2,2\], expected \[B,H,M,D\]' x k v
    shaped x '(1, 1, 1, 2, 2)' 4
    mismatch '--q: shape \[1,1,1,2,2\]' x k v
    shaped x '(1, 1, 2, 3)' 6
    mismatch '--k: shape \[1,1,2,3\], expected \[1,Hkv,N,2\]' q x v
    shaped x '(1, 1, 3, 2)' 6
    mismatch '--v: shape \[1,1,3,2\], expected \[1,1,2,Dv\]' q k x
    shaped x '(1, 3, 2, 2)' 12
    shaped y '(1, 2, 2, 2)' 8
    mismatch '--k: 2 heads, expected a divisor of the 3 heads' x y y
    shaped x '(1, 1, 2, 0)' 0
    mismatch '--q: shape \[1,1,2,0\], expected D >= 1' x x v
}

test_shapes_of_options() {
    make_inputs
    shaped x '(1, 1, 2, 3)' 6
    bad '--bias: shape \[1,1,2,3\], expected \[1,1,2\|1,2\|1\]' forward --bias "$work/x.npy"
    bad '--tq: shape \[1,1,2,3\], expected \[1,1,2,2\]' jvp --tq "$work/x.npy"
    bad '--do: shape \[1,1,2,3\], expected \[1,1,2,2\]' vjp --do "$work/x.npy"
    zeros 2 | npy "$work/lengths.npy" '<i4' '(2,)'
    bad '--kv-lengths: shape \[2\], expected \[1\]' forward --kv-lengths "$work/lengths.npy"
    shaped t2 '(2, 1, 1, 2, 2)' 8
    shaped t3 '(3, 1, 1, 2, 2)' 12
    bad '--tk: shape \[3,1,1,2,2\], expected \[2,1,1,2,2\]' jvp --tq "$work/t2.npy" --tk "$work/t3.npy"
    bad '--tk: shape \[1,1,2,2\], expected \[2,1,1,2,2\]' jvp --tq "$work/t2.npy" --tk "$work/k.npy"
    shaped t0 '(0, 1, 1, 2, 2)' 0
    bad '--tq: shape \[0,1,1,2,2\], expected T >= 1' jvp --tq "$work/t0.npy"
}

test_lengths_out_of_range() {
    make_inputs
    printf '\3\0\0\0' | npy "$work/lengths.npy" '<i4' '(1,)'
    bad '--kv-lengths: entry 0 is 3, expected 0 to 2' forward --kv-lengths "$work/lengths.npy"
    printf '\377\377\377\377' | npy "$work/lengths.npy" '<i4' '(1,)'
    bad '--kv-lengths: entry 0 is -1, expected 0 to 2' forward --kv-lengths "$work/lengths.npy"
}

test_offsets_out_of_order() {
    make_inputs
    printf '\0\0\0\0\2\0\0\0\1\0\0\0' | npy "$work/offsets.npy" '<i4' '(3,)'
    bad '--cu-seqlens-q: entry 2 is 1, expected 2 \(the entry before\) to 2 \(the total\)' forward \
        --cu-seqlens-q "$work/offsets.npy" --cu-seqlens-k "$work/offsets.npy"
    printf '\0\0\0\0\3\0\0\0' | npy "$work/offsets.npy" '<i4' '(2,)'
    bad '--cu-seqlens-q: entry 1 is 3' forward \
        --cu-seqlens-q "$work/offsets.npy" --cu-seqlens-k "$work/offsets.npy"
}

# bad_logit PATTERN: $work/bad.cl as the logit function, with each engine: one line of the command's own. The
# compiler may count its errors on stderr, which is not ours to keep from it.
bad_logit() {
    local engine
    for engine in reference simt cpu; do
        call run forward "${inputs[@]}" --logit "$work/bad.cl" --engine "$engine" --out "$work/out"
        sed -i '/^[0-9]* \(error\|warning\).*generated\.$/d' "$work/stderr"
        grep -q 'engine.*cpu' "$work/stderr" && continue # not on this device
        [ "$code" -eq 1 ] || fail "exit code $code, expected 1"
        has_one_error "^clattn: --logit: $1" || fail "expected one line with '$1' from engine $engine"
        [ ! -e "$work/out" ] || fail '--out was made'
    done
}

test_logit_function_that_does_not_compile() {
    make_inputs
    local head='void clattn_logit(real x, int b, int h, int i, int j, __global const float *data, real *y,'
    printf '%s real *dy, real *ddy)\n{\n    nonsense;\n}\n' "$head" >"$work/bad.cl"
    bad_logit 'does not compile on .*logit:3:.*nonsense'
    printf '%s real *dy, real *ddy)\n{\n    *y = x;\n    *dy = 1;\n' "$head" >"$work/bad.cl"
    bad_logit 'does not compile on .*logit:[567]'
    printf '%s\n' "$head" >"$work/bad.cl"
    bad_logit 'does not compile on .*logit:[23]'
    printf 'void clattn_logit(real x)\n{\n}\n' >"$work/bad.cl"
    bad_logit 'does not compile on .*logit:[1-5]:.*clattn_logit'
    : >"$work/bad.cl"
    bad_logit 'does not define clattn_logit'
    printf 'void clattn_logic(real x)\n{\n}\n' >"$work/bad.cl"
    bad_logit 'does not define clattn_logit'
}

test_logit_file_that_is_no_text() {
    make_inputs
    printf 'void\0' >"$work/bad.cl"
    bad '--logit: .*/bad.cl: has a zero byte' forward --logit "$work/bad.cl"
}

run_tests
