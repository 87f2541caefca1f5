#!/bin/sh
# in_root.sh: what test_packages.sh runs inside; /packages has the packages and
# debian/tests/, where each stanza of `control` is one test and what it needs.
set -eu
cd /packages
export DEBIAN_FRONTEND=noninteractive HOME=/root

step() {
    echo "== $*"
    "$@" >/tmp/log 2>&1 || {
        tail -n 40 /tmp/log
        exit 1
    }
}

install() {
    apt-get install -q -y --no-install-recommends "$@"
}

ours() {
    dpkg-query -W -f '${db:Status-Status} ${Package}\n' '*lockstep*' |
        sed -n 's/^installed //p'
}

# Files that other packages and this script may change are left out.
files() {
    find / -xdev \( -path /packages -o -path /proc -o -path /sys -o -path /dev \
        -o -path /tmp -o -path /var/cache -o -path /var/lib/apt \
        -o -path /var/lib/dpkg -o -path /var/log \) -prune -o -print | sort
}

purge() {
    # shellcheck disable=SC2046  # a list of words
    apt-get purge -q -y $(ours) && ! find / -xdev \( -path /packages -o -path /var/log \) -prune -o \
        -iname '*lockstep*' -print | grep .
}

tests() {
    sed -n 's/^Tests: *//p' tests/control
}

# All but our own.
needs() {
    sed -n 's/^Depends: *//p' tests/control | tr -s ', ' '\n' |
        grep -v lockstep | sort -u
}

run_test() {
    AUTOPKGTEST_TMP=$(mktemp -d)
    export AUTOPKGTEST_TMP
    "tests/$1" && rm -r "$AUTOPKGTEST_TMP"
}

rm -f ./*-dbgsym_*.deb
# The program needs none of the others.
step install ./lockstep_*.deb
step run_test program
# shellcheck disable=SC2046  # lists of words
step install ./*.deb $(needs)
step purge
files >/tmp/before
step install ./*.deb
for test in $(tests); do
    step run_test "$test"
done
step purge
files >/tmp/after
step diff /tmp/before /tmp/after
