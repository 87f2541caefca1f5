#!/bin/bash
# test_symbols.sh LIBRARY HEADERS: the shared library exports ls_* and what the
# public headers declare, and nothing else.
set -euo pipefail
library=$1 headers=$2

exported=$(nm -D --defined-only "$library" | awk '{ print $NF }' | sort -u)
[ -n "$exported" ] || { echo "$library exports nothing"; exit 1; }

failed=0
if grep -v '^ls_' <<<"$exported"; then
    echo "^ exported, but not ls_*: is C_VISIBILITY_PRESET still hidden?"
    failed=1
fi

# A declaration begins with LS_API; the name is what stands before "(".
declared=$(grep -hv '^ *#' "$headers"/*.h | tr '\n' ' ' |
    grep -oE 'LS_API [^;{]*;' | sed -E 's/\(.*//; s/.*[ *]//' | sort -u)
missing=$(comm -23 <(echo "$declared") <(echo "$exported"))
if [ -n "$missing" ]; then
    echo "$missing"
    echo "^ declared in the public headers, but not exported"
    failed=1
fi
extra=$(comm -13 <(echo "$declared") <(echo "$exported"))
if [ -n "$extra" ]; then
    echo "$extra"
    echo "^ exported, but not declared in the public headers"
    failed=1
fi
exit $failed
