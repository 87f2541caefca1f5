#!/bin/bash
# test_wheels.sh FOLDER [PYTHON]: installs the wheels in FOLDER in a bare Debian 12 and 13,
# without compiler or CMake, and runs the tests of both packages there. The tests of the
# backend use PyTorch of the environment of PYTHON, or the same release for another Python.
# The wheel for aarch64 is tried by qemu-user. RELEASES=trixie is Debian 13 only.
# Exits with 77, and says why, where such a system cannot be made.
set -euo pipefail
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/bare_system.sh
. "$here/../../tools/bare_system.sh"
mirror=${MIRROR:-http://deb.debian.org/debian}
torch_python=${2:-}
declare -A pythons=([bookworm]=3.11 [trixie]=3.13) # of each release

[ "$(id -u)" = 0 ] || grep -qs "^$(id -un):" /etc/subuid || {
    echo "not tested in a bare system: neither root nor a range of users in /etc/subuid"
    exit 77
}
make_work "$folder"

fetch() {
    "$work/venv/bin/pip" --disable-pip-version-check "$@"
}

# fetch_numpy PYTHON PROCESSOR: its wheel, by a pip that knows today's names.
fetch_numpy() {
    local minor platforms=()
    for minor in 17 27 28 31; do
        platforms+=(--platform "manylinux_2_${minor}_$2")
    done
    fetch download -q --only-binary :all: --python-version "$1" "${platforms[@]}" \
        -d "$work/wheels" numpy
}

# ask MODULE EXPRESSION: of the Python that has PyTorch.
ask() {
    "$torch_python" -c "import $1; print($2)"
}

# fetch_torch PYTHON: the same release of PyTorch for another Python, without what it
# depends on.
fetch_torch() {
    fetch install -q --no-deps --no-cache-dir --retries 1 --only-binary :all: \
        --extra-index-url https://download.pytorch.org/whl/cpu --python-version "$1" \
        --platform manylinux_2_28_x86_64 --target "$work/torch-$1" \
        "torch==$(ask importlib.metadata 'importlib.metadata.version("torch")')"
}

# inside RELEASE OPTION...: in a bare system.
inside() {
    bare_system "${@:2}" "$1" - "deb $mirror $1 main"
}

# test_in RELEASE
test_in() {
    local folders=()
    if [ -n "$torch_python" ]; then
        folders=("$(ask sysconfig 'sysconfig.get_path("purelib")')")
        [ "$(ask sysconfig 'sysconfig.get_python_version()')" = "${pythons[$1]}" ] || {
            fetch_torch "${pythons[$1]}"
            folders+=("$work/torch-${pythons[$1]}")
        }
    fi
    inside "$1" --variant=apt --include=mount,python3-venv \
        --customize-hook="cp -r '$work/wheels' '$work/tree' \"\$1\"" \
        --customize-hook="unshare --mount sh '$here/enter_root.sh' \"\$1\" ${folders[*]}"
}

python3 -m venv "$work/venv"
mkdir "$work/wheels" "$work/tree"
cp "$folder"/*.whl "$work/wheels"
for python in "${pythons[@]}"; do
    fetch_numpy "$python" x86_64
done
fetch_numpy 3.11 aarch64
# Without the package's own modules: those of the wheel are tested.
(cd "$here/../.." && cp -r --parents README.md docs include python tests/hosts "$work/tree")
rm -rf "$work/tree/python/lockstep/src" "$work/tree"/python/{,lockstep/}build
cp "$here"/* "$work/tree"

for release in ${RELEASES:-bookworm trixie}; do
    echo "== Debian's $release, Python ${pythons[$release]}"
    test_in "$release"
done

if ! command -v qemu-aarch64 >/dev/null; then
    echo "not tried: the wheel for aarch64; qemu-aarch64 is not installed (qemu-user)"
    exit 0
fi
# Its packages are not set up, so there are no later hooks.
inside bookworm --variant=extract --architectures=arm64 --include=libstdc++6,python3 \
    --extract-hook="sh '$here/by_qemu.sh' \"\$1\" '$work'"
