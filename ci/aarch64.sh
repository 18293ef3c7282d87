#!/usr/bin/env bash
# Builds and tests the arithmetic crates for 64-bit ARM and runs them under qemu's user emulation.
#
# rustup's toolchain has no ARM standard library without a download from rustup's own server, so this
# uses Debian's compiler of the same age (rustc-web) and Debian's arm64 build of its standard library,
# unpacked under target/ (no foreign architecture is added to dpkg).
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/lib.sh

target=aarch64-unknown-linux-gnu
crates=(gguf quant kernels cpu)
root=$PWD/target/aarch64

install_packages rustc-web libstd-rust-web-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross \
    qemu-user-static

# The version of the installed compiler names the folder of what is made from it.
find_version() {
    version=$(dpkg-query -W -f '${Version}' rustc-web)
    sysroot=$root/rust-$version
}

# Runs apt-get as an arm64 machine would, with package lists of its own.
apt_arm64() {
    apt_quiet -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root \
        -o "Dir::State::lists=$root/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}

# Lays a compiler root with both standard libraries, and a rustc and rustdoc that use it.
make_sysroot() {
    local building=$sysroot.new tool
    rm -rf "$building"
    mkdir -p "$building/debs" "$building/bin" "$building/lib/rustlib"
    (cd "$building/debs" && apt_arm64 download "libstd-rust-web-dev=$version")
    dpkg -x "$building"/debs/*.deb "$building/std"
    mv "$building/std/usr/lib/rustlib/$target" "$building/lib/rustlib/"
    ln -s /usr/lib/rustlib/x86_64-unknown-linux-gnu "$building/lib/rustlib/"
    for tool in rustc rustdoc; do
        printf '#!/bin/sh\nexec /usr/bin/%s --sysroot "%s" "$@"\n' "$tool" "$sysroot" \
            >"$building/bin/$tool"
        chmod +x "$building/bin/$tool"
    done
    rm -r "$building/debs" "$building/std"
    mv "$building" "$sysroot"
}

find_version
if [ ! -d "$sysroot" ]; then
    # The archive keeps only the newest arm64 library, so the compiler must be the newest too.
    mkdir -p "$root/lists/partial"
    update_lists apt_quiet
    update_lists apt_arm64
    apt_quiet install -y --no-install-recommends --no-remove rustc-web libstd-rust-web-dev
    find_version
    [ -d "$sysroot" ] || make_sysroot
fi
"$sysroot/bin/rustc" --version

export RUSTC=$sysroot/bin/rustc
export RUSTDOC=$sysroot/bin/rustdoc
export CARGO_TARGET_DIR=$root/build
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64-static -L /usr/aarch64-linux-gnu"
# Emulation is some ten times slower: tests that can may look at a smaller set.
export TUFF_SLOW_EMULATION=1
export PROPTEST_CASES=${PROPTEST_CASES:-32}

# Dependencies take most of the build and none of the tests' time here, so they stay unoptimised.
cargo test --locked --config 'profile.dev.package."*".opt-level=0' \
    --target "$target" "${crates[@]/#/--package=}" --lib --tests
