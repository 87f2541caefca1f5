#!/bin/bash
# test_wheels.sh FOLDER [PYTHON]: the wheels in FOLDER install in a bare Debian 12, without
# compiler or CMake, and pass the tests of both packages there. Those of the backend take
# PyTorch from the environment of PYTHON. The wheel for aarch64 is tried by qemu-user.
# Exits with 77, and says why, where such a system cannot be made.
set -euo pipefail
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/bare_system.sh
. "$here/../../tools/bare_system.sh"
mirror=${MIRROR:-http://deb.debian.org/debian}
torch=${2:+$("$2" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}

[ "$(id -u)" = 0 ] || grep -qs "^$(id -un):" /etc/subuid || {
    echo "not tested in a bare system: neither root nor a range of users in /etc/subuid"
    exit 77
}
make_work "$folder"

# fetch_numpy PROCESSOR: its wheel for Debian 12's Python, by pip as it is set up here.
fetch_numpy() {
    local minor platforms=()
    for minor in 17 27 28 31; do
        platforms+=(--platform "manylinux_2_${minor}_$1")
    done
    "$work/venv/bin/pip" --disable-pip-version-check download -q --only-binary :all: \
        --python-version 3.11 "${platforms[@]}" -d "$work/wheels" numpy
}

# inside OPTION...: in a bare Debian 12.
inside() {
    bare_system "$@" bookworm - "deb $mirror bookworm main"
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
