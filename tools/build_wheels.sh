#!/bin/bash
# build_wheels.sh: what make_wheels.sh runs in a bare Debian 11.
#
# /tree is a copy of the tree. /tools has CMake and setuptools, /torch/RELEASE/torch what a
# bridge is built with. Leaves the wheels in /wheels.
set -euo pipefail
export PYTHONPATH=/tools

# Jansson for a shared library: Debian's static one is for programs only.
jansson() {
    cmake -S /jansson-* -B "/built/$1" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_INSTALL_PREFIX="/static/$1" -DCMAKE_POSITION_INDEPENDENT_CODE=ON \
        -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF -DJANSSON_WITHOUT_TESTS=ON \
        -DCMAKE_POLICY_VERSION_MINIMUM=3.5
    cmake --build "/built/$1" --target install
}

# wheel FOLDER PROCESSOR
wheel() {
    (cd "/tree/$1" && rm -rf build && python3 setup.py -q bdist_wheel --dist-dir /wheels \
        --plat-name "manylinux_2_31_$2")
}

# lockstep_dp PROCESSOR
lockstep_dp() {
    export PKG_CONFIG_LIBDIR=/static/$1/lib/pkgconfig:/usr/lib/$1-linux-gnu/pkgconfig
    jansson "$1"
    wheel python/lockstep "$1"
}

(cd / && apt-get source -q jansson)
rm /usr/lib/*/libnettle.so # so that the static one is linked

# Setuptools adds them to the licences of the wheel, which contains these libraries.
cp /tree/THIRD-PARTY.md /tree/python/lockstep/LICENSE.third-party.md
cp /jansson-*/LICENSE /tree/python/lockstep/LICENSE.jansson
cp /usr/share/doc/nettle-dev/copyright /tree/python/lockstep/LICENSE.nettle

(
    export CMAKE_TOOLCHAIN_FILE=/tree/cmake/aarch64.cmake STRIP=aarch64-linux-gnu-strip
    lockstep_dp aarch64
)
lockstep_dp x86_64
if [ -n "$(ls /torch)" ]; then
    export CXX=clang++-16
    export LOCKSTEP_COMM_LIBRARY=/tree/python/lockstep/build/comm/lib/liblockstep-comm.so
    LOCKSTEP_TORCH_FOLDERS=$(printf '%s:' /torch/*/torch)
    export LOCKSTEP_TORCH_FOLDERS=${LOCKSTEP_TORCH_FOLDERS%:}
    wheel python x86_64
fi
