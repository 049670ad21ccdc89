#!/usr/bin/env bash
# From a fresh checkout to a result: installs what is missing, builds the
# command into build/ and runs the JVP of a real attention layer, compared with
# what float64 gives. Arguments are passed on to `clattn run`: --device D.
set -eu

cd "$(dirname "$0")/.."
tools/setup.sh
jobs=$(getconf _NPROCESSORS_ONLN)

cmake --preset release
cmake --build --preset release --target clattn-tool --parallel "$jobs"

data=tests/data/minilm
echo
echo "JVP of attention in a sentence encoder ($data), and the median time of 5 runs:"
build/clattn run jvp \
    --q $data/q.npy --k $data/k.npy --v $data/v.npy \
    --tq $data/tq.npy --tk $data/tk.npy --tv $data/tv.npy \
    --kv-lengths $data/kv_lengths.npy \
    --expect $data --time 5 "$@"
