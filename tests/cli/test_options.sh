#!/usr/bin/env bash
# Options reach the computation: pairs of calls that mean the same must agree.
# Their mathematics is the numeric tests' concern, so the engine is the one
# whose programs are built soonest.
# shellcheck disable=SC2317 # run_tests calls the functions
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# Three heads of one text, 96 tokens of 32 dims, with tangents.
make_inputs() {
    local name
    for name in q k v tq tk tv; do
        minilm_part "$name" 12 3 '(1, 3, 96, 32)'
    done
    inputs=(--q "$work/q.npy" --k "$work/k.npy" --v "$work/v.npy" --engine reference)
    tangents=(--tq "$work/tq.npy" --tk "$work/tk.npy" --tv "$work/tv.npy")
}

# same_as DIR ARGUMENT...: the results agree with those in the folder.
same_as() {
    local folder=$1
    shift
    succeeds run "$@" --expect "$folder"
}

# differs_from DIR ARGUMENT...: they do not.
differs_from() {
    local folder=$1
    shift
    call run "$@" --expect "$folder"
    if [ "$code" -ne 1 ] || ! has_one_error 'beyond the tolerance'; then
        fail "no difference made by: $*"
    fi
}

# byte VALUE COUNT
byte() {
    local i
    for ((i = 0; i < $2; i++)); do printf '%b' "$1"; done
}

test_lengths_mask_and_infinite_bias_say_the_same() {
    make_inputs
    printf '\75\0\0\0' | npy "$work/lengths.npy" '<i4' '(1,)'
    { byte '\1' 61; byte '\0' 35; } | npy "$work/mask.npy" '|b1' '(1, 1, 1, 96)'
    { zeros 61; byte '\0\0\0200\0377' 35; } | npy "$work/bias.npy" '<f4' '(1, 1, 1, 96)'
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --kv-lengths "$work/lengths.npy" --out "$work/out"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --mask "$work/mask.npy"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --bias "$work/bias.npy"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --bias "$work/bias.npy" --mask "$work/mask.npy" \
        --kv-lengths "$work/lengths.npy"
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}"
}

test_row_with_nothing_to_attend_to() {
    make_inputs
    { byte '\0' 1; byte '\1' 95; } | npy "$work/mask.npy" '|b1' '(1, 1, 96, 1)'
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --mask "$work/mask.npy" --out "$work/out"
    cmp -s -n 128 <(npy_data "$work/out/o.npy") <(zeros 32) || fail 'row 0 of o is not 0'
    cmp -s -n 128 <(npy_data "$work/out/to.npy") <(zeros 32) || fail 'row 0 of to is not 0'
    cmp -s -n 4 <(npy_data "$work/out/lse.npy") <(printf '\0\0\200\377') || fail 'row 0 of lse is not -inf'
    cmp -s -n 4 <(npy_data "$work/out/tlse.npy") <(zeros 1) || fail 'row 0 of tlse is not 0'
}

test_causal_and_window_say_the_same() {
    make_inputs
    minilm_part q 12 2 '(1, 3, 64, 32)'
    succeeds run jvp "${inputs[@]}" --tk "$work/tk.npy" --causal bottom-right --out "$work/out"
    same_as "$work/out" jvp "${inputs[@]}" --tk "$work/tk.npy" --window -1,0
    differs_from "$work/out" jvp "${inputs[@]}" --tk "$work/tk.npy" --causal top-left
    differs_from "$work/out" jvp "${inputs[@]}" --tk "$work/tk.npy" --causal bottom-right --window 5,0
}

test_scale_is_what_it_says() {
    make_inputs
    succeeds run forward "${inputs[@]}" --out "$work/out"
    same_as "$work/out" forward "${inputs[@]}" --scale 0.17677669529663689
    same_as "$work/out" forward "${inputs[@]}" --softcap 0
    differs_from "$work/out" forward "${inputs[@]}" --scale 0.2
    differs_from "$work/out" forward "${inputs[@]}" --softcap 2
}

test_bias_tangent_counts() {
    make_inputs
    ones 3 | npy "$work/bias.npy" '<f4' '(1, 3, 1, 1)'
    succeeds run jvp "${inputs[@]}" --bias "$work/bias.npy" --tbias "$work/bias.npy" --out "$work/out"
    # a logit that moves by 1 everywhere moves lse by 1 and o by nothing
    ones 288 | npy "$work/expected.npy" '<f4' '(1, 3, 96)'
    mkdir "$work/one"
    cp "$work/expected.npy" "$work/one/tlse.npy"
    same_as "$work/one" jvp "${inputs[@]}" --bias "$work/bias.npy" --tbias "$work/bias.npy"
}

# One key head: the same bytes are [1,1,96,32] and [1,96,1,32]; so are twelve heads of one query.
test_layout_bshd() {
    inputs=(--q "$work/q.npy" --k "$work/k.npy" --v "$work/v.npy" --engine reference)
    npy_data "$minilm/q.npy" | head -c $((12 * 128)) >"$work/q.bytes"
    npy "$work/q.npy" '<f4' '(1, 12, 1, 32)' <"$work/q.bytes"
    minilm_part k 12 1 '(1, 1, 96, 32)'
    minilm_part v 12 1 '(1, 1, 96, 32)'
    succeeds run forward "${inputs[@]}" --out "$work/bhsd"
    npy "$work/q.npy" '<f4' '(1, 1, 12, 32)' <"$work/q.bytes"
    minilm_part k 12 1 '(1, 96, 1, 32)'
    minilm_part v 12 1 '(1, 96, 1, 32)'
    succeeds run forward "${inputs[@]}" --layout bshd --out "$work/bshd"
    has_shape "$work/bshd/o.npy" '(1, 1, 12, 32)' || fail "$(npy_header "$work/bshd/o.npy")"
    has_shape "$work/bshd/lse.npy" '(1, 12, 1)' || fail "$(npy_header "$work/bshd/lse.npy")"
    same_data "$work/bhsd/o.npy" "$work/bshd/o.npy" || fail 'o differs'
    same_data "$work/bhsd/lse.npy" "$work/bshd/lse.npy" || fail 'lse differs'
}

# Tangents of both texts in one call, against one call each.
test_tangents_at_once() {
    make_inputs
    local name
    for name in tq tk tv; do
        cp "$work/$name.npy" "$work/first_$name.npy"
        minilm_part "$name" 24 3 '(1, 3, 96, 32)'
        { npy_data "$work/first_$name.npy"; npy_data "$work/$name.npy"; } |
            npy "$work/both_$name.npy" '<f4' '(2, 1, 3, 96, 32)'
    done
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --out "$work/second"
    succeeds run jvp "${inputs[@]}" --out "$work/first" \
        --tq "$work/first_tq.npy" --tk "$work/first_tk.npy" --tv "$work/first_tv.npy"
    mkdir "$work/expected"
    { npy_data "$work/first/to.npy"; npy_data "$work/second/to.npy"; } |
        npy "$work/expected/to.npy" '<f4' '(2, 1, 3, 96, 32)'
    { npy_data "$work/first/tlse.npy"; npy_data "$work/second/tlse.npy"; } |
        npy "$work/expected/tlse.npy" '<f4' '(2, 1, 3, 96)'
    same_as "$work/expected" jvp "${inputs[@]}" --tq "$work/both_tq.npy" --tk "$work/both_tk.npy" \
        --tv "$work/both_tv.npy"
    says '^to  .*ok$'
    says '^tlse  .*ok$'
}

test_tangent_axis_of_one_stays() {
    make_inputs
    npy_data "$work/tq.npy" | npy "$work/one.npy" '<f4' '(1, 1, 3, 96, 32)'
    succeeds run jvp "${inputs[@]}" --tq "$work/one.npy" --out "$work/out"
    has_shape "$work/out/to.npy" '(1, 1, 3, 96, 32)' || fail "$(npy_header "$work/out/to.npy")"
    has_shape "$work/out/tlse.npy" '(1, 1, 3, 96)' || fail "$(npy_header "$work/out/tlse.npy")"
}

test_heads_share_keys() {
    make_inputs
    minilm_part k 12 1 '(1, 1, 96, 32)'
    minilm_part v 12 1 '(1, 1, 96, 32)'
    succeeds run forward "${inputs[@]}" --out "$work/out"
    has_shape "$work/out/o.npy" '(1, 3, 96, 32)' || fail "$(npy_header "$work/out/o.npy")"
    minilm_part q 12 1 '(1, 1, 96, 32)'
    succeeds run forward "${inputs[@]}" --out "$work/head"
    cmp -s -n $((96 * 32 * 4)) <(npy_data "$work/out/o.npy") <(npy_data "$work/head/o.npy") ||
        fail 'head 0 differs from the same head alone'
}

test_out_dtype_keeps_what_f16_would_round() {
    make_inputs
    succeeds run forward "${inputs[@]}" --dtype f16 --out-dtype f32 --out "$work/out"
    succeeds run forward "${inputs[@]}" --dtype f16 --expect "$work/out" --tolerance 1e-3
    differs_from "$work/out" forward "${inputs[@]}" --dtype f16 --tolerance 1e-5
}

# A text of 61 tokens and one of 35, by segments, by packing and by a block mask.
test_segments_packing_and_blocks_say_the_same() {
    make_inputs
    { byte '\1\0\0\0' 61; byte '\2\0\0\0' 35; } | npy "$work/segments.npy" '<i4' '(1, 96)'
    printf '\0\0\0\0\75\0\0\0\140\0\0\0' | npy "$work/offsets.npy" '<i4' '(3,)'
    { byte '\1' 61; byte '\0' 35; } >"$work/first"
    { byte '\0' 61; byte '\1' 35; } >"$work/second"
    local i
    for ((i = 0; i < 96; i++)); do
        if [ "$i" -lt 61 ]; then cat "$work/first"; else cat "$work/second"; fi
    done | npy "$work/blocks.npy" '|u1' '(1, 1, 96, 96)'
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --out "$work/out" \
        --q-segments "$work/segments.npy" --kv-segments "$work/segments.npy"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" \
        --cu-seqlens-q "$work/offsets.npy" --cu-seqlens-k "$work/offsets.npy"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --block-mask "$work/blocks.npy" --block 1,1
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}"
}

test_block_mask_of_twos_is_the_mask() {
    make_inputs
    { byte '\1' 61; byte '\0' 35; } | npy "$work/mask.npy" '|b1' '(1, 1, 1, 96)'
    byte '\2' 12 | npy "$work/blocks.npy" '|u1' '(1, 1, 3, 4)'
    succeeds run forward "${inputs[@]}" --mask "$work/mask.npy" --out "$work/out"
    same_as "$work/out" forward "${inputs[@]}" --mask "$work/mask.npy" --block 40,24 \
        --block-mask "$work/blocks.npy"
}

test_logit_function_is_called() {
    make_inputs
    local head='void clattn_logit(real x, int b, int h, int i, int j, __global const float *data, real *y,'
    echo "$head real *dy, real *ddy) { *y = data[h] * x; *dy = data[h]; *ddy = 0; }" >"$work/double.cl"
    printf '\0\0\0\100\0\0\0\100\0\0\0\100' | npy "$work/two.npy" '<f4' '(3,)'
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --scale 0.5 --out "$work/out"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --scale 0.25 --logit "$work/double.cl" \
        --logit-data "$work/two.npy"
}

test_sink_and_alibi_count() {
    make_inputs
    byte '\0\0\0200\0377' 3 | npy "$work/none.npy" '<f4' '(3,)'
    ones 3 | npy "$work/one.npy" '<f4' '(3,)'
    zeros 3 | npy "$work/zero.npy" '<f4' '(3,)'
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --out "$work/out"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --sink "$work/none.npy"
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --sink "$work/one.npy"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --alibi "$work/zero.npy"
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --alibi "$work/one.npy"
}

test_dropout_goes_by_seed_and_offset() {
    make_inputs
    succeeds run jvp "${inputs[@]}" "${tangents[@]}" --dropout 0.2 --seed 7 --offset 9 --out "$work/out"
    same_as "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --dropout 0.2 --seed 7 --offset 9
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --dropout 0.2 --seed 8 --offset 9
    differs_from "$work/out" jvp "${inputs[@]}" "${tangents[@]}" --dropout 0.2 --seed 7
}

# They have the shape of what they are gradients of.
test_gradients_of_bias_and_sink_are_written() {
    make_inputs
    minilm_part 'do' 12 3 '(1, 3, 96, 32)'
    ones 3 | npy "$work/bias.npy" '<f4' '(1, 3, 1, 1)'
    ones 3 | npy "$work/sink.npy" '<f4' '(3,)'
    succeeds run vjp "${inputs[@]}" --do "$work/do.npy" --bias "$work/bias.npy" --sink "$work/sink.npy" \
        --out "$work/out"
    has_shape "$work/out/dbias.npy" '(1, 3, 1, 1)' || fail "$(npy_header "$work/out/dbias.npy")"
    has_shape "$work/out/dsink.npy" '(3)' || fail "$(npy_header "$work/out/dsink.npy")"
    succeeds run hvp "${inputs[@]}" "${tangents[@]}" --do "$work/do.npy" --bias "$work/bias.npy" \
        --out "$work/second"
    has_shape "$work/second/tdbias.npy" '(1, 3, 1, 1)' || fail "$(npy_header "$work/second/tdbias.npy")"
}

test_engine_and_device_are_taken() {
    make_inputs
    succeeds run forward "${inputs[@]}" --device 0 --json
    says '"engine":.*"reference"'
}

run_tests
