#!/usr/bin/env bash
# Installs what building and testing clattn needs and this machine lacks, with
# the system's package manager. With nothing missing it does nothing, and needs
# neither network nor rights. With --extras also what the benchmark and its
# tests can do without: a failure to get that is no failure.
set -eu

minimum_cmake=3.21

# Compiles and links a C program from stdin with the given arguments.
compiles() {
    "${CC:-cc}" -o "$scratch/probe" -x c - -x none "$@" >/dev/null 2>&1
}

has_compiler() {
    echo 'int main(void) { return 0; }' | compiles
}

has_cmake() {
    command -v cmake >/dev/null || return 1
    version=$(cmake --version | sed -n 's/^cmake version \([0-9.]*\).*/\1/p')
    oldest=$(printf '%s\n' "$minimum_cmake" "$version" | sort -V | head -n 1)
    [ "$oldest" = "$minimum_cmake" ]
}

# make is what CMake takes unless told otherwise.
has_build_program() {
    command -v make >/dev/null || { [ "${CMAKE_GENERATOR-}" = Ninja ] && command -v ninja >/dev/null; }
}

has_pkg_config() {
    command -v pkg-config >/dev/null
}

has_module() {
    has_pkg_config && pkg-config --exists "$1"
}

has_opencl_loader() {
    has_module OpenCL
}

has_opencl_headers() {
    has_opencl_loader || return 1
    # Flags are a list of words.
    # shellcheck disable=SC2046
    echo '#include <CL/cl.h>' | compiles -c $(pkg-config --cflags OpenCL)
}

# Any device will do; PoCL, which runs on the CPU, is installed where there is none. Leaves in the file broken a line on
# each driver that is installed and should have a device but has none.
has_opencl_device() {
    has_opencl_headers || return 1
    # shellcheck disable=SC2046
    compiles $(pkg-config --cflags --libs OpenCL) <<'EOF' &&
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0, total = 0;
    if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS)
        return 1;
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[256] = "";
        cl_uint devices = 0;
        cl_int error = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 0, 0, &devices);
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, 0);
        if (error == CL_SUCCESS)
            total += devices;
        else if (error != CL_DEVICE_NOT_FOUND || strstr(name, "Portable Computing Language"))
            printf("platform '%s': OpenCL error %d\n", name, error);
    }
    return total == 0;
}
EOF
        (exec "$scratch/probe") >"$scratch/broken" 2>/dev/null
}

# The needs, each with the test for it.
has() {
    case $1 in
    compiler) has_compiler ;;
    cmake) has_cmake ;;
    make) has_build_program ;;
    pkg-config) has_pkg_config ;;
    opencl-loader) has_opencl_loader ;;
    opencl-headers) has_opencl_headers ;;
    opencl-device) has_opencl_device ;;
    cmocka) has_module cmocka ;;
    cjson) has_module libcjson ;;
    clblast) has_module clblast ;;
    gnuplot) command -v gnuplot >/dev/null ;;
    jsonschema) python3 -c 'import jsonschema' 2>/dev/null ;;
    esac
}

needs="compiler cmake make pkg-config opencl-loader opencl-headers opencl-device cmocka cjson"
extras="clblast gnuplot jsonschema"

# Sets `missing` to those that are not there.
find_missing() {
    missing=
    for need in "$@"; do
        has "$need" || missing="$missing $need"
    done
}

# Prints the packages of one need under one package manager.
packages_of() {
    case $1:$2 in
    apt-get:compiler) echo gcc libc6-dev ;;
    apt-get:opencl-headers) echo opencl-headers ;;
    apt-get:opencl-loader) echo ocl-icd-opencl-dev ;;
    apt-get:opencl-device) echo pocl-opencl-icd ;;
    apt-get:cmocka) echo libcmocka-dev ;;
    apt-get:cjson) echo libcjson-dev ;;
    apt-get:clblast) echo libclblast-dev ;;
    apt-get:gnuplot) echo gnuplot-nox ;;
    apt-get:jsonschema) echo python3-jsonschema ;;

    dnf:compiler) echo gcc ;;
    dnf:pkg-config) echo pkgconf-pkg-config ;;
    dnf:opencl-loader) echo ocl-icd-devel ;;
    dnf:opencl-device) echo pocl ;;
    dnf:cmocka) echo libcmocka-devel ;;
    dnf:cjson) echo cjson-devel ;;
    dnf:clblast) echo clblast-devel ;;
    dnf:jsonschema) echo python3-jsonschema ;;

    pacman:compiler) echo gcc ;;
    pacman:pkg-config) echo pkgconf ;;
    pacman:opencl-loader) echo ocl-icd ;;
    pacman:opencl-device) echo pocl ;;
    pacman:jsonschema) echo python-jsonschema ;;

    zypper:compiler) echo gcc ;;
    zypper:opencl-loader) echo ocl-icd-devel ;;
    zypper:opencl-device) echo pocl ;;
    zypper:cmocka) echo libcmocka-devel ;;
    zypper:cjson) echo cJSON-devel ;;
    zypper:clblast) echo clblast-devel ;;
    zypper:jsonschema) echo python3-jsonschema ;;

    brew:compiler) echo gcc ;;
    brew:pkg-config) echo pkgconf ;;
    brew:opencl-loader) echo opencl-icd-loader ;;
    brew:opencl-device) echo pocl ;;

    *) echo "$2" ;;
    esac
}

find_manager() {
    for manager in apt-get dnf pacman zypper brew; do
        command -v "$manager" >/dev/null && return
    done
    manager=
}

# Runs a command with the right to install: as root, or through a sudo that asks nothing.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@" </dev/null
    else
        sudo -n "$@" </dev/null
    fi
}

may_install() {
    [ "$manager" = brew ] || [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

install_packages() {
    case $manager in
    apt-get)
        # Lists that are partly out of reach may still hold what is needed.
        as_root apt-get update || echo "setup: apt-get update failed; trying to install all the same" >&2
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
        ;;
    dnf) as_root dnf install -y "$@" ;;
    pacman) as_root pacman -Sy --needed --noconfirm "$@" ;;
    zypper) as_root zypper --non-interactive install --no-recommends "$@" ;;
    brew) brew install "$@" </dev/null ;;
    esac
}

# Sets `packages` to those of what is missing.
list_packages() {
    packages=
    for need in $missing; do
        packages="$packages $(packages_of "$manager" "$need")"
    done
}

# What the tests of the benchmark skip, or the benchmark leaves out, without.
install_extras() {
    # Lists of words, here and below.
    # shellcheck disable=SC2086
    find_missing $extras
    [ -n "$missing" ] || return 0
    find_manager
    if [ -z "$manager" ] || ! may_install; then
        echo "setup: going on without:$missing (for the benchmark)" >&2
        return 0
    fi
    list_packages
    echo "setup: installing with $manager:$packages"
    # shellcheck disable=SC2086
    install_packages $packages || echo "setup: going on without some of:$missing (for the benchmark)" >&2
}

install_needs() {
    find_manager
    if [ -z "$manager" ]; then
        echo "setup: missing:$missing; no known package manager here (apt-get, dnf, pacman, zypper, brew)" >&2
        exit 1
    fi
    list_packages
    if ! may_install; then
        echo "setup: missing:$missing" >&2
        echo "setup: no right to install here; ask an administrator for: $manager install$packages" >&2
        exit 1
    fi
    echo "setup: installing with $manager:$packages"
    # shellcheck disable=SC2086
    install_packages $packages
    # shellcheck disable=SC2086
    find_missing $needs
    if [ -n "$missing" ]; then
        echo "setup: still missing after the installation:$missing (cmake must be $minimum_cmake or later)" >&2
        exit 1
    fi
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# shellcheck disable=SC2086
find_missing $needs
if [[ $missing == *opencl-device* ]] && [ -s "$scratch/broken" ]; then
    echo "setup: OpenCL is installed, and finds no device; another installation would not help:" >&2
    sed 's/^/setup:   /' "$scratch/broken" >&2
    echo "setup: PoCL needs a HOME or POCL_CACHE_DIR that can be written" >&2
    exit 1
fi
if [ -n "$missing" ]; then
    install_needs
fi
if [ "${1-}" = --extras ]; then
    install_extras
fi
