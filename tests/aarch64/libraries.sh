#!/bin/sh
# Unpacks Debian's libraries for 64-bit ARM into a folder, and installs nothing:
#
#     libraries.sh FOLDER
#     LOCKSTEP_ARM64=FOLDER ctest -R aarch64    (uses them)
#
# The sources of packages are those of this system.
set -eu

if [ $# -ne 1 ]; then
    echo "libraries.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial"
cd "$1"
arm64() {
    apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 \
        -o Dir::State="$PWD/apt" -o Dir::State::status=/dev/null \
        -o Dir::Cache="$PWD/apt" -o APT::Sandbox::User="$(id -un)" "$@"
}
arm64 update
arm64 download libjansson4 libjansson-dev zlib1g zlib1g-dev \
    libcmocka0 libcmocka-dev
for package in *.deb; do
    dpkg -x "$package" .
done
rm -r apt ./*.deb
