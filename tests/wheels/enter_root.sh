#!/bin/sh
# enter_root.sh ROOT [FOLDER [FOLDER]]: runs in_root.sh in ROOT with these folders as /torch
# and /torch-own, for reading only. Its mounts end with it: run it by `unshare --mount`.
set -eu
root=$1
shift
# A mounted root, unlike a changed one, can be unshared: tests make hosts of namespaces.
mount --rbind "$root" "$root"
cd "$root"
for place in torch torch-own; do
    mkdir "$place"
    [ -z "${1:-}" ] || mount --bind -o ro "$1" "$place"
    shift $(($# != 0))
done
mount -t proc proc proc # mmdebstrap's does not let hosts set their names
pivot_root . mnt
umount -l mnt
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root sh /tree/in_root.sh
