#!/bin/bash
# test_packages.sh FOLDER: the packages in FOLDER are what Debian wants (lintian).
# In a bare system of this release, made for this in a separate folder, they
# install, pass debian/tests/, and leave nothing when purged.
# Exits with 77, and says why, where such a system cannot be made.
set -euo pipefail
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tools/bare_system.sh
. "$here/../../tools/bare_system.sh"
# shellcheck disable=SC1091  # what this system is
. /etc/os-release

skip() {
    echo "not tested in a bare system: $*"
    exit 77
}

# Debian's own parts of what apt is configured with, as lines of sources.list.
sources() {
    apt-get indextargets --format \
        "\$(ORIGIN) deb \$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
        'Created-By: Packages' | sed -n "s/^${ID^} //p" | sort -u
}

lintian --allow-root --fail-on error,warning,info --display-info \
    "$folder"/*.changes

[ "$(id -u)" = 0 ] || grep -qs "^$(id -un):" /etc/subuid ||
    skip "neither root nor a range of users in /etc/subuid"
[ -n "$(sources)" ] || [ "$(id -u)" != 0 ] || apt-get update -q >&2
mirror=$(sources | awk 'NR == 1 { print $2 "dists/" $3 "/InRelease" }')
[ -n "$mirror" ] || skip "apt is configured with no mirror of ${ID^}"
make_work "$folder"
timeout 30 /usr/lib/apt/apt-helper download-file "$mirror" "$work/InRelease" \
    >/dev/null 2>&1 || skip "$mirror cannot be reached"

sources >"$work/sources"
LIMIT=${LIMIT:-900} bare_system --variant=apt \
    --customize-hook="mkdir \"\$1/packages\"" \
    --customize-hook="cp -r '$folder'/*.deb '$here/in_root.sh' \
        '$here/../../debian/tests' \"\$1/packages\"" \
    --customize-hook="chroot \"\$1\" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        sh /packages/in_root.sh" \
    "$VERSION_CODENAME" - - <"$work/sources"
