# The libraries the project stands on; tools/packages.txt names their packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(LIBARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)

# Each MPI library that is there gets a module; none is needed. MPICH's pkg-config
# file names what it is itself linked to, so its library is looked up.
pkg_check_modules(OPENMPI ompi-c)
pkg_check_modules(MPICH mpich)
find_library(MPICH_LIBRARY mpich)
option(LOCKSTEP_OPENMPI "Build the module for Open MPI" ${OPENMPI_FOUND})
if(MPICH_FOUND AND MPICH_LIBRARY)
  set(found ON)
else()
  set(found OFF)
endif()
option(LOCKSTEP_MPICH "Build the module for MPICH" ${found})
