#!/bin/bash
# test_wheels.sh FOLDER [PYTHON]: the wheels in FOLDER install in a bare Debian 12, without
# compiler or CMake, and pass the tests of both packages there. Those of the backend take
# PyTorch from the environment of PYTHON. The wheel for aarch64 is tried by qemu-user.
# Exits with 77, and says why, where such a system cannot be made.
set -euo pipefail
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
torch=${2:+$("$2" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}

[ "$(id -u)" = 0 ] || grep -qs "^$(id -un):" /etc/subuid || {
    echo "not tested in a bare system: neither root nor a range of users in /etc/subuid"
    exit 77
}
work=$(mktemp -d "$folder/work-XXXXXX")
pid=
clean() {
    [ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
    wait
    rm -rf --one-file-system "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM HUP

# fetch_numpy PROCESSOR: its wheel for Debian 12's Python, by pip as it is set up here.
fetch_numpy() {
    local minor platforms=()
    for minor in 17 27 28 31; do
        platforms+=(--platform "manylinux_2_${minor}_$1")
    done
    "$work/venv/bin/pip" --disable-pip-version-check download -q --only-binary :all: \
        --python-version 3.11 "${platforms[@]}" -d "$work/wheels" numpy
}

# inside OPTIONS...: in separate namespaces, so that neither processes nor mounts can
# outlive it.
inside() {
    local status=0 apart=()
    [ "$(id -u)" != 0 ] ||
        apart=(unshare --mount --pid --fork --kill-child --mount-proc)
    TMPDIR=$work "${apart[@]}" timeout -s KILL "${LIMIT:-1800}" \
        mmdebstrap --quiet --format=null "$@" bookworm - "deb $mirror bookworm main" &
    pid=$!
    wait "$pid" || status=$?
    pid=
    return $status
}

python3 -m venv "$work/venv"
mkdir "$work/wheels" "$work/tree"
cp "$folder"/*.whl "$work/wheels"
fetch_numpy x86_64
fetch_numpy aarch64
# Without the package's own modules: those of the wheel are tested.
(cd "$here/../.." && cp -r --parents README.md docs include python "$work/tree")
rm -rf "$work/tree/python/lockstep/src" "$work/tree"/python/{,lockstep/}build
cp "$here"/* "$work/tree"

# PyTorch's folder is read-only, and mounted for this one command.
inside --variant=apt --include=python3-venv \
    --customize-hook="cp -r '$work/wheels' '$work/tree' \"\$1\" && mkdir \"\$1/torch\"" \
    --customize-hook="unshare --mount sh -c '${torch:+mount --bind -o ro $torch \$0/torch;}
        exec chroot \$0 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
        sh /tree/in_root.sh' \"\$1\""

if ! command -v qemu-aarch64 >/dev/null; then
    echo "not tried: the wheel for aarch64; qemu-aarch64 is not installed (qemu-user)"
    exit 0
fi
# Its packages are not set up, so there are no later hooks.
inside --variant=extract --architectures=arm64 --include=libstdc++6,python3 \
    --extract-hook="sh '$here/by_qemu.sh' \"\$1\" '$work'"
