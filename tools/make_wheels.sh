#!/bin/bash
# make_wheels.sh FOLDER: makes wheels that install without a compiler, of this tree as it
# is, and leaves them in FOLDER, a new one:
#   lockstep-dp        for x86-64 and aarch64
#   lockstep-dp-torch  for x86-64, with a bridge for each of the last four minor releases
#                      of PyTorch; TORCH_RELEASES="2.15.0 2.14.1" chooses others
#
# Builds in a bare Debian 11, made for this in a separate folder: programs that are linked
# to its glibc 2.31 run on later systems. MIRROR names the mirror of Debian.
set -euo pipefail
mkdir "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
# shellcheck source=tools/tree.sh
. tools/tree.sh
# shellcheck source=tools/bare_system.sh
. tools/bare_system.sh

mirror=${MIRROR:-http://deb.debian.org/debian}
# Jansson is built again, for a shared library; the sources are those of Debian 12.
sources="deb $mirror bullseye main
deb-src $mirror bookworm main"
# The PyTorch headers want C++20, and clang 16: gcc 10 is "error: #error C++20 or later
# compatible compiler is required to use ATen".
packages=clang-16,dpkg-dev,g++,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libucx-dev
packages+=,libucx-dev:arm64,librandom123-dev,make,nettle-dev,nettle-dev:arm64,pkg-config
packages+=,python3-minimal,python3-distutils

make_work "$out"

# fetch WORDS...: pip of a fresh environment, which asks the registry.
fetch() {
    "$work/venv/bin/pip" --disable-pip-version-check "$@"
}

# The newest release of each of the last four minor ones: "2.15.0 2.14.1 2.13.0 2.12.1".
last_releases() {
    fetch index versions torch | sed -n 's/^Available versions: //p' | tr -d ' ' |
        tr ',' '\n' | awk -F. '!seen[$1 "." $2]++' | head -n 4 | tr '\n' ' '
}

# fetch_torch RELEASE: what a bridge is built with: headers and three libraries.
fetch_torch() {
    local folder=$work/torch/$1
    mkdir -p "$folder"
    fetch download -q --no-deps --no-cache-dir --only-binary :all: \
        --python-version 3.12 --platform manylinux_2_28_x86_64 -d "$folder" "torch==$1"
    (cd "$folder" && python3 - ./*.whl) <<-'END'
	import re, sys, zipfile
	wanted = re.compile("torch/(include/|version.py|lib/lib(c10|torch|torch_cpu).so)")
	with zipfile.ZipFile(sys.argv[1]) as wheel:
	    wheel.extractall(members=filter(wanted.match, wheel.namelist()))
	END
    rm "$folder"/*.whl
}

python3 -m venv "$work/venv"
fetch install -q auditwheel
# For the Python of the root, which is older than what the registry's tools run with.
fetch install -q --target "$work/tools" --python-version 3.9 --only-binary :all: \
    cmake setuptools wheel
for release in ${TORCH_RELEASES-$(last_releases)}; do
    echo "PyTorch $release"
    fetch_torch "$release"
done
mkdir -p "$work/torch"
copy_tree "$work/tree"

log=$out/build.log
bare_system --variant=apt \
    --architectures=amd64,arm64 --include="$packages" \
    --customize-hook="cp -r '$work/tree' '$work/tools' '$work/torch' \"\$1\"" \
    --customize-hook="chroot \"\$1\" env -i PATH=/tools/cmake/data/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=$(last_change) bash /tree/tools/build_wheels.sh" \
    --customize-hook="cp \"\$1\"/wheels/*.whl '$out'" \
    bullseye - - <<<"$sources" >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    echo "make_wheels: the build has failed; its output is in $log" >&2
    exit 1
}
for wheel in "$out"/*.whl; do
    "$work/venv/bin/python" tools/check_wheel.py "$wheel"
done
