# shellcheck shell=bash
# Bare Debian systems, each in a separate folder, for scripts that source this file.

# make_work FOLDER: sets `work` to a new folder in it, which is deleted when the script ends.
make_work() {
    work=$(mktemp -d "$1/work-XXXXXX")
    bare_system_pid=
    trap clean_work EXIT
    trap 'exit 1' INT TERM HUP
}

clean_work() {
    [ -z "$bare_system_pid" ] || kill -KILL "$bare_system_pid" 2>/dev/null || true
    wait
    rm -rf --one-file-system "$work"
}

# bare_system WORD...: runs mmdebstrap, in separate namespaces so that neither processes nor
# mounts can outlive it, for LIMIT seconds at most.
bare_system() {
    local status=0 apart=()
    [ "$(id -u)" != 0 ] ||
        apart=(unshare --mount --pid --fork --kill-child --mount-proc)
    # <&0: the shell gives no input to a command in the background.
    TMPDIR=$work "${apart[@]}" timeout -s KILL "${LIMIT:-1800}" \
        mmdebstrap --quiet --format=null "$@" <&0 &
    bare_system_pid=$!
    wait "$bare_system_pid" || status=$?
    bare_system_pid=
    return $status
}
