# Builds for 64-bit ARM with Debian's cross compiler; qemu-user runs the tests.
# The libraries come from the architecture's packages (dpkg --add-architecture arm64, then
# libjansson-dev:arm64, zlib1g-dev:arm64, libcmocka-dev:arm64 and, if wanted,
# libdnnl-dev:arm64, libhwloc-dev:arm64, libarchive-dev:arm64), or from
# PKG_CONFIG_LIBDIR.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
if(NOT DEFINED ENV{PKG_CONFIG_LIBDIR})
  set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
endif()
find_program(QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU_AARCH64} -L /usr/aarch64-linux-gnu)
endif()
