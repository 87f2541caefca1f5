# shellcheck shell=bash
# The tree as it is, for scripts that build from a copy of it; they source this file.

# Lists the files of the tree, each name ended by a zero byte.
list_files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then
        git ls-files -z --cached --others --exclude-standard --deduplicate
    else
        find . \( -path './build*' -o -name __pycache__ \) -prune -o -type f -print0
    fi
}

# copy_tree FOLDER: copies the files of the tree to FOLDER, a new one.
copy_tree() {
    mkdir "$1"
    list_files | while IFS= read -r -d '' file; do
        if [ -f "$file" ]; then printf '%s\0' "$file"; fi
    done | xargs -0 cp --parents -t "$1"
}

# The second of the last change, by the commit if nothing has changed since.
last_change() {
    if ! git rev-parse --git-dir >/dev/null 2>&1; then
        stat -c %Y CHANGELOG.md
    elif [ -z "$(git status --porcelain)" ]; then
        git log -1 --format=%ct
    else
        date +%s
    fi
}
