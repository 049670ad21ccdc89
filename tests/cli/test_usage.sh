#!/usr/bin/env bash
# Wrong usage: exit code 2, one line that names the option, its value and what
# was expected, and nothing written.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

inputs=(--q "$minilm/q.npy" --k "$minilm/k.npy" --v "$minilm/v.npy")

# misused PATTERN OPTION...: forward with good inputs and these options.
misused() {
    local pattern=$1
    shift
    refuses 2 "$pattern" run forward "${inputs[@]}" --out "$work/out" "$@"
    [ ! -e "$work/out" ] || fail "--out was made by: $*"
}

test_subcommand_and_operation() {
    refuses 2 'subcommand is missing'
    refuses 2 "unknown subcommand 'nosuch'" nosuch
    refuses 2 "unknown subcommand ''" ''
    refuses 2 "unknown subcommand '--q'" --q x
    refuses 2 'operation is missing' run
    refuses 2 "operation 'nosuch', expected forward, jvp, vjp or hvp" run nosuch
    refuses 2 "operation '--q'" run "${inputs[@]}"
    refuses 2 "unexpected argument 'x'" info x
    refuses 2 "unexpected argument 'x'" info --json x
    refuses 2 "unexpected argument 'x'" check x
    refuses 2 '--device needs a value' check --device
    refuses 2 '--device needs a value' check --device --json
    refuses 2 '--logit needs a value' check --logit --device 0
    refuses 2 "--engine: 'nosuch'" check --engine nosuch
}

test_required_inputs() {
    refuses 2 '--q: missing' run forward
    refuses 2 '--k: missing' run forward --q "$minilm/q.npy"
    refuses 2 '--v: missing' run forward --q "$minilm/q.npy" --k "$minilm/k.npy"
    refuses 2 '--do: missing, vjp' run vjp "${inputs[@]}"
    refuses 2 '--do: missing, hvp' run hvp "${inputs[@]}" --tq "$minilm/tq.npy"
}

test_unknown_options() {
    misused "unknown option '--nosuch'" --nosuch
    misused "unknown option '-q'" -q "$minilm/q.npy"
    misused "unknown option 'extra'" extra
    misused "unknown option ''" ''
    misused "unknown option '--scale=1'" --scale=1
}

# A part of a name is no option, whether it fits one, several or none.
test_shortened_options_are_refused() {
    misused "unknown option '--cu-seqlens'" --cu-seqlens "$minilm/kv_lengths.npy"
    misused "unknown option '--s'" --s 1
    misused "unknown option '--caus'" --caus none
}

test_options_that_lack_their_value() {
    local name
    for name in --scale --softcap --window --causal --dtype --out-dtype --layout --device --engine --expect \
        --tolerance --time --dropout --seed --offset --bias --mask --block --logit; do
        misused "^clattn: $name: expected " "$name"
        misused "^clattn: $name: expected " "$name" --json
    done
    refuses 2 '--out: expected DIR' run forward "${inputs[@]}" --out
}

test_options_given_twice() {
    misused '--q: given twice' --q "$minilm/q.npy"
    misused '--json: given twice' --json --json
    misused '--scale: given twice' --scale 1 --scale 1
    misused '--out: given twice' --out "$work/out"
}

test_inputs_of_another_operation() {
    local name
    for name in --tq --tk --tv --tbias --tsink --tdo --tdlse --do --dlse; do
        misused "$name: not an input of forward" "$name" "$minilm/q.npy"
    done
    for name in --do --dlse --tdo --tdlse; do
        refuses 2 "$name: not an input of jvp" run jvp "${inputs[@]}" "$name" "$minilm/q.npy"
    done
    refuses 2 '--tq: not an input of vjp' run vjp "${inputs[@]}" --do "$minilm/do.npy" --tq "$minilm/tq.npy"
}

test_choices() {
    misused "--causal: 'x', expected none, top-left or bottom-right" --causal x
    misused "--dtype: 'f8', expected f32, f16, bf16 or f64" --dtype f8
    misused "--dtype: 'F32'" --dtype F32
    misused "--out-dtype: 'f16', expected same or f32" --out-dtype f16
    misused "--layout: 'sbhd', expected bhsd or bshd" --layout sbhd
    misused "engine: 'nosuch', expected one of .*simt.*reference" --engine nosuch
    misused "engine: ''" --engine ''
}

test_numbers_are_finite_and_whole() {
    local name text
    for name in --scale --softcap --dropout; do
        for text in nan NaN -nan inf -inf 1e999 1e-400 -1e-400 '' ' 1' '1 ' 1x 1,0 x 0.1.2 '1e'; do
            misused "^clattn: $name: '$text', expected" "$name" "$text"
        done
    done
    for text in nan inf -1 1x 1e-400 ''; do
        misused "^clattn: --tolerance: '$text', expected" --expect "$minilm" --tolerance "$text"
    done
    for name in --seed --offset; do
        for text in nan -1 +1 1.5 1e3 0x10 '' ' 1' '1 ' 18446744073709551616; do
            misused "^clattn: $name: '${text/+/\\+}', expected" "$name" "$text"
        done
    done
    for text in nan 0 -1 1.5 1x '' 99999999999999999999; do
        misused "^clattn: --time: '$text', expected" --time "$text"
    done
}

test_ranges() {
    misused "--softcap: '-1', expected a finite number >= 0" --softcap -1
    misused 'softcap: 1e-60' --softcap 1e-60
    misused 'softcap: 1e\+60' --softcap 1e60
    misused 'scale: 1e\+60' --scale 1e60
    misused 'scale: 1e\+39, expected .*3.40282e\+38, the range of f32' --scale 1e39
    misused 'softcap: 1e\+39, expected .*3.40282e\+38, the range of f32' --softcap 1e39
    misused "--softcap: '1e-400', expected a finite number >= 0 in the range of f64" --softcap 1e-400
    misused "--dropout: '1', expected" --dropout 1
    misused "--dropout: '-0.1', expected" --dropout -0.1
}

test_pairs() {
    local text
    for text in 1 '1,' ,1 1,2,3 1.5,2 nan,1 1,2x '1, 2' -2,0 0,-2 '' 99999999999999999999,0; do
        misused "--window: '$text', expected LEFT,RIGHT" --window "$text"
    done
    misused '--window: expected L,R after it' --window --1,0
    for text in 1 0,1 1,0 -1,1 1.5,1 nan,1 1,1,1 ''; do
        misused "--block: '$text', expected BM,BN" --block "$text" --block-mask x.npy
    done
}

test_options_that_need_each_other() {
    misused '--tolerance: --expect is missing' --tolerance 1
    misused '--q-segments: --kv-segments is missing' --q-segments x.npy
    misused '--kv-segments: --q-segments is missing' --kv-segments x.npy
    misused '--cu-seqlens-q: --cu-seqlens-k is missing' --cu-seqlens-q x.npy
    misused '--cu-seqlens-k: --cu-seqlens-q is missing' --cu-seqlens-k x.npy
    misused '--block-mask: --block is missing' --block-mask x.npy
    misused '--block: --block-mask is missing' --block 2,2
    misused '--logit-data: --logit is missing' --logit-data x.npy
    misused '--kv-lengths: not together with' --kv-lengths x.npy --cu-seqlens-q x.npy --cu-seqlens-k x.npy
    refuses 2 '--tbias: --bias is missing' run jvp "${inputs[@]}" --tbias x.npy
    refuses 2 '--tsink: --sink is missing' run jvp "${inputs[@]}" --tsink x.npy
}

test_device() {
    misused "device: no device has 'no such device'" --device 'no such device'
    misused "device: '', expected an index or a part of a name" --device ''
    refuses 2 "device: '', expected an index or a part of a name" check --device ''
    misused 'device: index 999, expected 0' --device 999
    misused 'device: index -1, expected 0' --device -1
    misused 'device: index 99999999999999999999, expected 0' --device 99999999999999999999
    refuses 2 "device: no device has 'no such device'" check --device 'no such device'
}

# PoCL makes several devices of one CPU when asked to.
test_device_name_that_fits_two_names_both() {
    export POCL_DEVICES='pthread basic'
    if [ "$("$CLATTN" info | grep -c '^  device [0-9]*: \(pthread\|basic\)-')" -eq 2 ]; then
        misused "device: '-' fits both '.*' \([0-9]\) and '.*' \([0-9]\)" --device -
        succeeds run forward "${inputs[@]}" --device basic
        says '^device  basic-'
    fi
    unset POCL_DEVICES
}

test_what_comes_later_says_so() {
    local name
    for name in $("$CLATTN" --help | sed -n 's/^  \([a-z]*\)  .*(not built yet)$/\1/p'); do
        refuses 2 "$name: not built yet" "$name"
    done
}

run_tests
