#!/bin/bash
# test_symbols.sh LIBRARY COMM-LIBRARY HEADERS MODULES: checks that the shared
# libraries together export the functions that the public headers declare. The only others
# are those that one library needs of the other, under a separate version. comm.h declares the
# exports of the library of communication. Functions that open groups call none that changes
# the environment under other threads; launchers, which are programs, may.
set -euo pipefail
library=$1 comm_library=$2 headers=$3 modules=$4

exported() {
    nm -D --defined-only --with-symbol-versions "$1" |
        awk '$2 != "A" { print $NF }' | sort -u
}

failed=0
if exported "$library" | grep -v '^ls_'; then
    echo "^ exported, but not ls_*: is C_VISIBILITY_PRESET still hidden?"
    failed=1
fi
if exported "$comm_library" | grep -vE '^ls_.*@@LOCKSTEP_[0-9.]+$' |
    grep -vE '^lsi_.*@@LOCKSTEP_PRIVATE_[0-9.]+$'; then
    echo "^ exported by the library of communication with another name"
    failed=1
fi

# A declaration begins with LS_API; the name is what stands before "(".
declared_in() {
    grep -hv '^ *#' "$@" | tr '\n' ' ' | grep -oE 'LS_API [^;{]*;' |
        sed -E 's/\(.*//; s/.*[ *]//' | sort -u
}

public=$({ exported "$library"; exported "$comm_library" | grep '^ls_'; } |
    sed 's/@.*//' | sort -u)
declared=$(declared_in "$headers"/*.h)
missing=$(comm -23 <(echo "$declared") <(echo "$public"))
if [ -n "$missing" ]; then
    echo "$missing"
    echo "^ declared in the public headers, but not exported"
    failed=1
fi
extra=$(comm -13 <(echo "$declared") <(echo "$public"))
if [ -n "$extra" ]; then
    echo "$extra"
    echo "^ exported, but not declared in the public headers"
    failed=1
fi
# comm.h includes what the library of communication offers, and no other header.
mapfile -t comm_headers < <(
    sed -nE 's:^#include "lockstep/(.*)"$:'"$headers"'/\1:p' "$headers/comm.h")
if ! diff <(declared_in "${comm_headers[@]}") \
    <(exported "$comm_library" | grep '^ls_' | sed 's/@.*//' | sort -u); then
    echo "^ < declared by what comm.h includes, > exported by $comm_library"
    failed=1
fi
for file in "$comm_library" "$modules"/*.so; do
    [ -e "$file" ] || continue
    if nm -D --undefined-only "$file" |
        grep -E ' (setenv|unsetenv|putenv|clearenv)(@|$)'; then
        echo "^ called by $file: other threads may be in getenv (base/variables.h)"
        failed=1
    fi
done
exit $failed
