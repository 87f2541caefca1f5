#!/bin/bash
# test_comm_only.sh SOURCE: with LOCKSTEP_COMM_ONLY the project is configured where
# there is a C compiler, jansson and Random123, and nothing else that it can use.
set -euo pipefail
source=$1
work=$(mktemp -d /tmp/lockstep-comm-only-XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir "$work/packages"
cp "$(pkg-config --variable=pcfiledir jansson)/jansson.pc" "$work/packages"
flags=(-DLOCKSTEP_COMM_ONLY=ON -DLOCKSTEP_NETTLE=OFF
    -DCMAKE_DISABLE_FIND_PACKAGE_OpenMP=ON)
env CXX=/nonexistent PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR="$work/packages" \
    cmake -S "$source" -B "$work/build" -G Ninja "${flags[@]}" >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
targets=$(cmake --build "$work/build" --target help)
grep -q '^lockstep_comm_shared:' <<<"$targets"
if grep -E '^(lockstep|lockstep_shared|lockstep_objects):' <<<"$targets"; then
    exit 1
fi
