#!/usr/bin/env bash
# clattn bench: small ones, what is written of them, and what is read again.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

schema=$(cd "$(dirname "$0")" && pwd)/bench.schema.json

# A bench of rows that take milliseconds, in $work/small.json.
# shellcheck disable=SC2054 # commas are in the values
small=(--shape 1,2,48,16 --dtype f32 --repeat 3)
make_small() {
    [ -s "$work/small.json" ] && return
    succeeds bench "${small[@]}" --json
    cp "$work/stdout" "$work/small.json"
}

# has_rows COUNT PATTERN: so many lines of the last call's stdout match.
has_rows() {
    local found
    found=$(grep -Ec -e "$2" "$work/stdout")
    [ "$found" -eq "$1" ] || fail "$found lines with '$2' on stdout, expected $1"
}

matches_schema() {
    python3 -c 'import jsonschema' 2>/dev/null || {
        echo "skipped: no python3 with jsonschema to check $1 against the schema"
        return
    }
    python3 - "$schema" "$1" >"$work/stdout" 2>"$work/stderr" <<'EOF' || fail "$1 is not as the schema says"
import json, sys, jsonschema
schema, report = (json.load(open(path)) for path in sys.argv[1:])
jsonschema.validate(report, schema)
EOF
}

test_every_row_passes() {
    make_small
    cp "$work/small.json" "$work/stdout"
    has_rows 8 '"seq_len":'
    has_rows 8 '"skipped":	null'
    has_rows 8 '"grad_check":	true'
    has_rows 4 '"method":	"math"'
    has_rows 4 '"method":	"clattn"'
    has_rows 2 '"causal":	true'
    matches_schema "$work/small.json"
}

# Every operation, type and mask by both methods.
test_every_operation_passes_in_every_type() {
    succeeds bench --op forward,jvp,vjp,hvp --shape 1,1,33,8 --causal both --repeat 3 --csv
    has_rows 144 ',true$'
    has_rows 0 ',false$'
}

test_masks_shared_by_all_heads() {
    succeeds bench "${small[@]}" --masks boolean,additive --mask-shape shared --causal both --json
    cp "$work/stdout" "$work/shared.json"
    has_rows 8 '"mask_shape":	"shared"'
    has_rows 8 '"grad_check":	true'
    matches_schema "$work/shared.json"
    succeeds bench table "$work/shared.json"
    says '^jvp f32, B 1, H 2, D 16, masks \[1,1,N,N\]$'
}

test_several_tangents() {
    succeeds bench --op jvp,hvp --tangents 3 --shape 1,2,37,8 --causal both --repeat 3 --json
    cp "$work/stdout" "$work/tangents.json"
    has_rows 72 '"tangents":	3'
    has_rows 72 '"grad_check":	true'
    matches_schema "$work/tangents.json"
}

test_back_to_back() {
    succeeds bench --shape 1,2,48,16 --dtype f32 --masks none --back-to-back --repeat 7 --json
    has_rows 4 '"repeats":	7'
    has_rows 4 '"grad_check":	true'
}

test_table_of_a_file() {
    make_small
    succeeds bench table "$work/small.json"
    says '^Seq Len  Causal  Mask      Method        Time \(ms\)   Mem \(MB\)   TFLOP/s  Max Error  Grad Check$'
    has_rows 8 '^48 .* pass$'
    says '^- accuracy of clattn: 4/4 rows pass$'
    says '^- clattn over math: [0-9.]+ times as fast on average'
    succeeds bench table "$work/small.json" --markdown
    has_rows 8 '^\| 48 \|.*\| pass \|$'
    succeeds bench table "$work/small.json" --csv
    has_rows 8 '^jvp,1,f32,1,2,16,48,'
}

test_a_failed_check_is_named() {
    make_small
    sed '0,/"grad_check":	true/s//"grad_check":	false/; s/"method":	"math"/"method":	"clattn"/' "$work/small.json" >"$work/failed.json"
    succeeds bench table "$work/failed.json"
    says '^- accuracy of clattn: 7/8 rows pass$'
    says '^- failed: Seq Len 48, not causal, mask additive$'
}

test_compare() {
    make_small
    succeeds bench compare "$work/small.json" "$work/small.json"
    says '^8 rows compared, 0 worse, 0 of'
    # ten times as slow, with the spread that it had
    sed 's/"time_ms":	\([0-9]*\)\./"time_ms":	9\1./' "$work/small.json" >"$work/slow.json"
    call bench compare "$work/small.json" "$work/slow.json"
    [ "$code" -eq 1 ] || fail "exit code $code of a slower file"
    has_rows 8 ' SLOWER'
    succeeds bench compare "$work/slow.json" "$work/small.json"
    # not where the spread is as large
    sed 's/"time_spread_ms":	[0-9.e-]*/"time_spread_ms":	1e6/' "$work/slow.json" >"$work/noisy.json"
    succeeds bench compare "$work/small.json" "$work/noisy.json"
    succeeds bench compare "$work/small.json" "$work/slow.json" --threshold 1e9
}

test_compare_finds_wrong_rows() {
    make_small
    sed 's/"grad_check":	true/"grad_check":	false/' "$work/small.json" >"$work/wrong.json"
    call bench compare "$work/small.json" "$work/wrong.json"
    [ "$code" -eq 1 ] || fail "exit code $code of a file with failed checks"
    has_rows 8 ' WRONG'
    succeeds bench compare "$work/wrong.json" "$work/small.json"
}

test_compare_of_two_methods() {
    make_small
    succeeds bench compare "$work/small.json" "$work/small.json" --methods math,clattn --threshold 100
    says '^4 rows compared'
    sed 's/"seq_len":	48/"seq_len":	49/' "$work/small.json" >"$work/other.json"
    call bench compare "$work/small.json" "$work/other.json"
    [ "$code" -eq 1 ] || fail "exit code $code of files without a common row"
    has_one_error 'no row of one file has a partner' || fail 'it does not say so'
}

test_plot() {
    local name
    make_small
    command -v gnuplot >/dev/null || {
        echo "skipped: no gnuplot"
        return
    }
    succeeds bench plot "$work/small.json" --out "$work/it's/plots"
    for name in jvp_f32_time jvp_f32_memory; do
        says "/$name.png\$"
        [ "$(head -c 4 "$work/it's/plots/$name.png" | tail -c 3)" = PNG ] || fail "$name.png is none"
        grep -q '</svg>' "$work/it's/plots/$name.svg" || fail "$name.svg is none"
    done
}

test_without_gnuplot_the_tables_still_come() {
    make_small
    mkdir -p "$work/empty"
    code=0
    PATH="$work/empty" "$CLATTN" bench plot "$work/small.json" >"$work/stdout" 2>"$work/stderr" || code=$?
    [ "$code" -eq 1 ] || fail "exit code $code without gnuplot"
    has_rows 8 '^48 .* pass$'
    has_one_error 'gnuplot-nox' || fail 'the package is not named'
}

# A matrix of all pairs is beyond what the device allocates at once; the other method goes on.
test_what_does_not_fit_says_so() {
    export POCL_MEMORY_LIMIT=1
    succeeds bench --shape 96,12,512,8 --dtype f32 --masks none --causal no --repeat 3 --judge 1
    unset POCL_MEMORY_LIMIT
    if grep -q '^512 .* math .* pass$' "$work/stdout"; then
        echo "skipped: the device's memory could not be limited"
        return
    fi
    says '^512 .* math +a matrix of all pairs: 1152 MB'
    says '^512 .* clattn .* pass$'
}

test_wrong_usage() {
    refuses 2 "unknown option '--nosuch'" bench --nosuch
    refuses 2 "--op: 'nosuch', expected forward" bench --op nosuch
    refuses 2 "--op: 'jvp,jvp'" bench --op jvp,jvp
    refuses 2 "--op: given twice" bench --op jvp --op vjp
    refuses 2 "--methods: 'nosuch', expected math, clattn" bench --methods nosuch
    refuses 2 "--methods: 'math,', expected" bench --methods math,
    refuses 2 "--dtype: 'f64', expected f32, f16 or bf16" bench --dtype f64
    refuses 2 "--masks: 'nosuch', expected none, boolean" bench --masks nosuch
    refuses 2 "--causal: 'maybe', expected no, yes or both" bench --causal maybe
    refuses 2 "--lengths: '32,0', expected integers" bench --lengths 32,0
    refuses 2 "--mask-shape: 'square', expected full or shared" bench --mask-shape square
    refuses 2 "--shape: '1,2,3', expected B,H,N,D" bench --shape 1,2,3
    refuses 2 "--repeat: '2', expected an integer from 3" bench --repeat 2
    refuses 2 "--judge: '0', expected" bench --judge 0
    refuses 2 "--engine: 'nosuch', expected an engine" bench --engine nosuch
    refuses 2 "--csv: '', expected one of" bench --json --csv
    refuses 2 '--heads: expected LIST after it' bench --heads
    refuses 2 "device: no device has 'nosuch'" bench --device nosuch
}

test_wrong_files() {
    make_small
    refuses 2 'table: expected a file' bench table
    refuses 2 "table: unexpected argument '--nosuch'" bench table "$work/small.json" --nosuch
    refuses 2 'compare: expected two files' bench compare "$work/small.json"
    refuses 2 "compare: --threshold: '0.5', expected" bench compare a b --threshold 0.5
    refuses 2 "compare: --methods: 'math', expected two" bench compare a b --methods math
    refuses 2 "compare: unknown option '--nosuch'" bench compare a b --nosuch 1
    refuses 2 "plot: unknown option '--nosuch'" bench plot "$work/small.json" --nosuch
    refuses 1 'nosuch.json: No such file' bench table "$work/nosuch.json"
    refuses 1 'expected a regular file' bench table "$work"
    printf '{"device": 1}' >"$work/bad.json"
    refuses 1 'bad.json: device: expected a text' bench table "$work/bad.json"
    printf '[' >"$work/bad.json"
    refuses 1 'bad.json: no JSON object' bench plot "$work/bad.json"
    sed 's/"mask":	"boolean"/"mask":	"nosuch"/' "$work/small.json" >"$work/bad.json"
    refuses 1 'bad.json: row 2: mask is missing or not' bench compare "$work/small.json" "$work/bad.json"
}

run_tests
