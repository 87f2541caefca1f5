#!/bin/bash
# test_install.sh BUILD VERSION: installs BUILD to a new folder. Builds and
# runs program.c against it through pkg-config and through find_package, each
# with the shared and with the static library. Builds an MPI program, and the C program
# of README.md by the lines of docs/how-to/install.md.
set -euo pipefail
build=$1 version=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d /tmp/lockstep-install-XXXXXX)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || {
    cat "$work/install.log"
    exit 1
}
pc=$(find "$prefix" -name lockstep.pc)
grep -qx "URL: $(sed -n 's/^url //p' "$here/../../project.txt")" "$pc" || {
    echo "$pc has another URL than project.txt"
    exit 1
}
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=$libdir/pkgconfig
flags=(-std=c17 -Wall -Wextra -Werror "-DEXPECTED_VERSION=\"$version\"")

check() {
    local name=$1
    shift
    echo "$name"
    [ "$("$@")" = "$version" ] || { echo "$name failed"; exit 1; }
}

# shellcheck disable=SC2046  # the flags are words
build_with_pkg_config() {
    "$CC" "${flags[@]}" "$here/program.c" -o "$work/shared" \
        $(pkg-config --cflags --libs lockstep)
    check "pkg-config, shared" env LD_LIBRARY_PATH="$libdir" "$work/shared"
    # Without the shared one next to it, -llockstep is the static library.
    mkdir "$work/static-only"
    cp "$libdir"/liblockstep*.a "$work/static-only"
    "$CC" "${flags[@]}" "$here/program.c" -o "$work/static" \
        $(pkg-config --cflags lockstep) -L"$work/static-only" \
        $(pkg-config --static --libs lockstep | sed "s:-L$prefix[^ ]*::")
    check "pkg-config, static" "$work/static"
}

build_with_cmake() {
    mkdir "$work/project"
    cp "$here/program.c" "$work/project"
    cat >"$work/project/CMakeLists.txt" <<-END
	cmake_minimum_required(VERSION 3.22)
	project(user C)
	find_package(lockstep $version REQUIRED COMPONENTS static)
	foreach(kind lockstep static comm)
	  add_executable(with_\${kind} program.c)
	  target_compile_definitions(with_\${kind} PRIVATE
	    EXPECTED_VERSION="$version")
	  target_link_libraries(with_\${kind} lockstep::\${kind})
	endforeach()
	END
    cmake -S "$work/project" -B "$work/project/build" -G Ninja \
        -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" &&
        cmake --build "$work/project/build" >>"$work/cmake.log" || {
        cat "$work/cmake.log"
        exit 1
    }
    check "find_package, shared" "$work/project/build/with_lockstep"
    check "find_package, static" "$work/project/build/with_static"
    check "find_package, comm" "$work/project/build/with_comm"
}

# Communication alone needs none of what computes and reads.
build_with_comm_alone() {
    local loaded
    # shellcheck disable=SC2046
    "$CC" "${flags[@]}" "$here/ranks.c" -o "$work/ranks" \
        $(pkg-config --cflags --libs lockstep-comm)
    loaded=$(LD_LIBRARY_PATH="$libdir" ldd "$work/ranks")
    if grep -E 'liblockstep\.so|gomp|dnnl|archive|hwloc|libpng|stdc' <<<"$loaded"; then
        echo "^ needed by liblockstep-comm"
        exit 1
    fi
    [ ! -x "$prefix/bin/lockstep" ] || LD_LIBRARY_PATH="$libdir" \
        "$prefix/bin/lockstep" run -n 3 -- "$work/ranks"
}

# An MPI program, with each MPI that is installed.
# shellcheck disable=SC2046
build_with_mpi() {
    local mpi
    for mpi in openmpi mpich; do
        command -v "mpicc.$mpi" >/dev/null || continue
        OMPI_CC=$CC MPICH_CC=$CC "mpicc.$mpi" "${flags[@]}" \
            "$here/../../examples/from_mpi.c" -o "$work/from_mpi.$mpi" \
            $(pkg-config --cflags --libs lockstep-comm)
    done
}

# page_block PAGE LANGUAGE TEXT: the first block of that language with the text.
page_block() {
    awk -v fence="\`\`\`$2" -v text="$3" '
        $0 == fence { block = ""; inside = 1; next }
        /^```/ && inside { if (index(block, text)) { printf "%s", block; exit }
                           inside = 0 }
        inside { block = block $0 "\n" }' "$here/../../$1"
}

# As a stranger would: with no other variable that says where anything is.
build_as_in_readme() {
    mkdir "$work/readme"
    page_block README.md c ls_group_from_env >"$work/readme/hello.c"
    {
        page_block docs/how-to/install.md sh PKG_CONFIG_PATH
        echo 'lockstep run -n 2 -- ./hello'
    } >"$work/readme/lines"
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$(command -v "$CC")" >"$work/readme/cc"
    chmod +x "$work/readme/cc"
    (cd "$work/readme" && env -i HOME="$HOME" PREFIX="$prefix" \
        PATH="$work/readme:$PATH" sh -eu lines) | sort >"$work/readme/out"
    page_block README.md console './sum' | grep '^rank' | sort |
        diff - "$work/readme/out" || { echo "README.md fails"; exit 1; }
}

# Each page that a help text names.
find_pages() {
    local page
    "$prefix/bin/lockstep" help --markdown | grep -o 'docs/[a-z/-]*\.md' | sort -u |
        while read -r page; do
            [ -f "$prefix/share/doc/lockstep/${page#docs/}" ] ||
                { echo "$page is not installed"; exit 1; }
        done
}

build_with_pkg_config
build_with_cmake
build_with_comm_alone
build_with_mpi
if [ -x "$prefix/bin/lockstep" ]; then
    "$prefix/bin/lockstep" --version | grep -F "$version" ||
        { echo "the program does not know its version"; exit 1; }
    build_as_in_readme
    find_pages
fi
