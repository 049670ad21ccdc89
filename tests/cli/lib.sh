# shellcheck shell=bash
# Helpers for the tests of the command: sourced by test_*.sh, which define
# functions test_NAME and end with run_tests. $CLATTN is the command,
# $CLATTN_TEST_DATA the folder of data sets.
set -u
: "${CLATTN:?the command}" "${CLATTN_TEST_DATA:?the folder tests/data}"

minilm=$CLATTN_TEST_DATA/minilm
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# Notes a failure of the running test, with what the last call said.
fail() {
    echo "FAIL: ${FUNCNAME[-3]}: $*"
    sed 's/^/    stdout: /' "$work/stdout"
    sed 's/^/    stderr: /' "$work/stderr"
    failures=$((failures + 1))
}

# Runs the command; sets `code`, and the files stdout and stderr in $work.
call() {
    code=0
    "$CLATTN" "$@" >"$work/stdout" 2>"$work/stderr" </dev/null || code=$?
}

# succeeds ARGUMENT...: exit code 0 and nothing on stderr.
succeeds() {
    call "$@"
    [ "$code" -eq 0 ] || fail "exit code $code of: $*"
    [ ! -s "$work/stderr" ] || fail "stderr is not empty after: $*"
}

# refuses CODE PATTERN ARGUMENT...: that exit code, nothing on stdout, and on
# stderr one line that matches the extended pattern; a line that points to
# --help may follow.
refuses() {
    local wanted=$1 pattern=$2
    shift 2
    call "$@"
    [ "$code" -eq "$wanted" ] || fail "exit code $code, expected $wanted, of: $*"
    [ ! -s "$work/stdout" ] || fail "stdout is not empty after: $*"
    has_one_error "$pattern" || fail "expected one line with '$pattern' after: $*"
}

has_one_error() {
    local lines
    mapfile -t lines <"$work/stderr"
    [ "${#lines[@]}" -ge 1 ] && [[ ${lines[0]} == "clattn: "* ]] && [[ ${lines[0]} =~ $1 ]] || return 1
    [ "${#lines[@]}" -eq 1 ] || { [ "${#lines[@]}" -eq 2 ] && [[ ${lines[1]} == "see: clattn"*" --help" ]]; }
}

# says PATTERN: a line of the last call's stdout matches.
says() {
    grep -Eq -e "$1" "$work/stdout" || fail "no line with '$1' on stdout"
}

# npy FILE DESCR SHAPE: writes a .npy file with the data from stdin, such as
# npy q.npy '<f4' '(1, 2)'.
npy() {
    local text length
    text="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    length=$(((10 + ${#text} + 1 + 63) / 64 * 64 - 10))
    {
        # shellcheck disable=SC2059 # the length is written as an escape
        printf "\\x93NUMPY\\x01\\x00\\x$(printf %02x "$length")\\x00"
        printf '%-*s\n' "$((length - 1))" "$text"
        cat
    } >"$1"
}

# zeros COUNT, ones COUNT (float32)
zeros() { head -c "$((4 * $1))" /dev/zero; }
ones() {
    local i
    for ((i = 0; i < $1; i++)); do printf '\0\0\200\077'; done
}

# npy_header FILE, npy_data FILE: the two parts of a .npy file of version 1.
npy_header() {
    local length
    length=$(npy_header_length "$1")
    head -c "$((10 + length))" "$1" | tail -c "$length"
}
npy_data() { tail -c "+$((11 + $(npy_header_length "$1")))" "$1"; }
npy_header_length() {
    local low high
    read -r low high <<<"$(od -An -tu1 -j8 -N2 "$1")"
    echo "$((low + 256 * high))"
}

# has_shape FILE '(1, 2)'; a comma behind the last size is as good.
has_shape() {
    local header
    header=$(npy_header "$1")
    [[ ${header/,)/)} == *"'shape': $2,"* ]]
}

same_data() { cmp -s <(npy_data "$1") <(npy_data "$2"); }

# minilm_part NAME FIRST COUNT SHAPE: $work/NAME.npy, of `COUNT` heads of
# minilm's float32 array NAME from head FIRST on (12 heads a batch element).
minilm_part() {
    local head=$((96 * 32 * 4))
    npy_data "$minilm/$1.npy" | tail -c "+$(($2 * head + 1))" | head -c "$(($3 * head))" |
        npy "$work/$1.npy" '<f4' "$4"
}

# Runs every function test_NAME of the script in a fresh $work; exits 1 if one failed.
run_tests() {
    local name
    for name in $(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p'); do
        rm -rf "${work:?}"/*
        : >"$work/stdout"
        : >"$work/stderr"
        "$name"
    done
    [ "$failures" -eq 0 ] && echo "all passed" && exit 0
    exit 1
}
