#!/bin/bash
# make_packages.sh FOLDER: makes Debian's packages, source and binary, of this tree
# as it is and leaves them in FOLDER, a new one. debian/ says what is in which.
#
# The version is that of CHANGELOG.md. Until its release, packages have versions
# that sort before the release and grow with time. They also sort before
# those that Debian may give the same version: 0.1.0~git202611222051-1~local1.
set -euo pipefail
mkdir "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
# shellcheck source=tools/tree.sh
. tools/tree.sh

die() {
    printf 'make_packages: %s\n' "$*" >&2
    exit 1
}

# A library that the build uses must be a dependency of the package, too.
not_for_packages='^(lib(c6|clang|cmocka)|python3)-.*'
while read -r package; do
    grep -qE "^ +$package\b" debian/control ||
        die "$package is in tools/packages/ and not in debian/control"
done < <(grep -hE -- '-dev$' tools/packages/{build,test}.txt |
    grep -vE "$not_for_packages")

command -v dpkg-buildpackage >/dev/null ||
    die "there is no dpkg-buildpackage; packages are made on Debian and Ubuntu"

# The first heading that has a version: "## 0.1.0, unreleased".
heading=$(grep -m 1 -E '^## [0-9]' CHANGELOG.md)
version=$(grep -oE '[0-9]+\.[0-9]+\.[0-9]+' <<<"$heading")
grep -q "^project(lockstep VERSION $version " CMakeLists.txt ||
    die "CHANGELOG.md begins with $version, CMakeLists.txt has another version"
changed=$(last_change)
if [[ $heading == *unreleased* ]]; then
    version+=~git$(date -u -d "@$changed" +%Y%m%d%H%M)
fi

tree=$out/lockstep-$version
copy_tree "$tree"
tar -C "$out" --exclude="./lockstep-$version/debian" --sort=name --owner=0 \
    --group=0 --numeric-owner --mtime="@$changed" -cJf \
    "$out/lockstep_$version.orig.tar.xz" "./lockstep-$version"
while read -r name value; do
    sed -i "s|@$name@|$value|" "$tree/debian/control"
done < <(grep -v '^#' project.txt)
cat >"$tree/debian/changelog" <<END
lockstep ($version-1~local1) UNRELEASED; urgency=medium

  * CHANGELOG.md says what has changed.

 -- $(sed -n 's/^Maintainer: //p' "$tree/debian/control")  $(date -uR -d "@$changed")
END

log=$out/build.log
(cd "$tree" && dpkg-buildpackage -us -uc -F "-j$(nproc)") >"$log" 2>&1 || {
    tail -n 40 "$log" >&2
    die "dpkg-buildpackage has failed; all it has said is in $log"
}
rm -rf "$tree"
