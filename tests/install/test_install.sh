#!/usr/bin/env bash
# Installs the built tree into a fresh prefix, then uses it as other projects
# would: by find_package and by pkg-config.
#
#   test_install.sh CMAKE BUILD_DIR WORK_DIR
#
# CC, CFLAGS and CXXFLAGS are those of the build (a sanitized library needs a
# sanitized program); LIBDIR is the library folder below the prefix.
set -eu

cmake=$1
build=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
prefix=$work/prefix
libraries=$prefix/$LIBDIR

rm -rf "$work"
mkdir -p "$work"
"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log"

if [ -e "$prefix/bin/clattn" ]; then
    "$prefix/bin/clattn" --help >/dev/null
fi

"$cmake" -S "$here" -B "$work/consumer" "-DCMAKE_PREFIX_PATH=$prefix"
"$cmake" --build "$work/consumer"
for program in "$work"/consumer/consumer_*; do
    echo "running $(basename "$program")"
    "$program"
done

export PKG_CONFIG_PATH=$libraries/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
# Flags are lists of words.
# shellcheck disable=SC2046,SC2086
"$CC" $CFLAGS "$here/consumer.c" -o "$work/by_pkg_config" $(pkg-config --cflags --libs clattn)
echo "running by_pkg_config"
LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$work/by_pkg_config"
