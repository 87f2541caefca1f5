# The libraries the project stands on; tools/packages/ names their packages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
find_path(RANDOM123_INCLUDE_DIR Random123/philox.h REQUIRED)

# optional_library(OPTION FOUND NAME PACKAGE WITHOUT): a library that Debian has in
# PACKAGE, and what is missing without it. LOCKSTEP_<OPTION> demands it (ON) or refuses it
# (OFF); by default it is used where it is found.
function(optional_library option found name package without)
  if(DEFINED LOCKSTEP_${option})
    if(NOT LOCKSTEP_${option})
      message(STATUS "Without ${name}: ${without}")
    elseif(NOT found)
      message(FATAL_ERROR "LOCKSTEP_${option} is ON, and ${name} (${package}) is not "
        "found. With -DLOCKSTEP_${option}=OFF the library is built without it: ${without}.")
    endif()
  elseif(found)
    set(LOCKSTEP_${option} ON PARENT_SCOPE)
  else()
    set(LOCKSTEP_${option} OFF PARENT_SCOPE)
    message(STATUS "Not found: ${name} (${package}): ${without}")
  endif()
endfunction()

# ---- of the library of communication ----

pkg_check_modules(NETTLE IMPORTED_TARGET nettle)
optional_library(NETTLE "${NETTLE_FOUND}" nettle nettle-dev
  "hosts cannot meet without MPI: nothing proves that they know the secret. No audits")

# All that a program which links the objects needs.
set(LOCKSTEP_COMM_LIBRARIES Threads::Threads PkgConfig::JANSSON)
set(private_comm_libraries ${JANSSON_LIBRARIES})
if(LOCKSTEP_NETTLE)
  list(APPEND LOCKSTEP_COMM_LIBRARIES PkgConfig::NETTLE)
  list(APPEND private_comm_libraries ${NETTLE_LIBRARIES})
endif()
set(LOCKSTEP_INCLUDES ${RANDOM123_INCLUDE_DIR})

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

# And so does UCX, by which nodes speak without MPI.
pkg_check_modules(UCX ucx)
option(LOCKSTEP_UCX "Build the module for UCX" ${UCX_FOUND})

if(LOCKSTEP_COMM_ONLY)
  return()
endif()

# ---- of what stands on it ----

find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
# oneDNN 3 renamed or removed the calls that the library makes.
set(found OFF)
if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
  file(STRINGS ${DNNL_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h found
       REGEX "define DNNL_VERSION_MAJOR +2$")
endif()
pkg_check_modules(LIBARCHIVE IMPORTED_TARGET libarchive)
pkg_check_modules(PNG libpng)
pkg_check_modules(JPEG libturbojpeg)
pkg_check_modules(HWLOC IMPORTED_TARGET hwloc)
find_path(LIBDW_INCLUDE_DIR elfutils/libdwfl.h)
pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC IMPORTED_TARGET libutf8proc)
optional_library(ONEDNN "${found}" "oneDNN 2" libdnnl-dev
  "products and convolutions are plain loops, and slow")
optional_library(LIBARCHIVE "${LIBARCHIVE_FOUND}" libarchive libarchive-dev
  "datasets are read from folders, not from archives")
optional_library(PNG "${PNG_FOUND}" libpng libpng-dev "PNG images are not read")
optional_library(JPEG "${JPEG_FOUND}" libturbojpeg libturbojpeg0-dev
  "JPEG images are not read")
optional_library(HWLOC "${HWLOC_FOUND}" hwloc libhwloc-dev
  "ranks are bound to cpus in the order of their numbers")
optional_library(LIBDW "${LIBDW_INCLUDE_DIR}" libdw libdw-dev
  "backtraces of ranks that crash have no names, only places in files")
optional_library(UTF8PROC "${UTF8PROC_FOUND}" utf8proc libutf8proc-dev
  "tokenizers that ask for the normal form NFC are refused")
optional_library(PCRE2 "${PCRE2_FOUND}" PCRE2 libpcre2-dev
  "tokenizers split text by the patterns of GPT-2 and Llama 3 only")

set(LOCKSTEP_LIBRARIES ${LOCKSTEP_COMM_LIBRARIES} OpenMP::OpenMP_C
                       PkgConfig::ZLIB)
set(private_libraries ${private_comm_libraries} ${ZLIB_LIBRARIES})
if(LOCKSTEP_LIBARCHIVE)
  list(APPEND LOCKSTEP_LIBRARIES PkgConfig::LIBARCHIVE)
  list(APPEND private_libraries ${LIBARCHIVE_LIBRARIES})
endif()
foreach(library PNG JPEG)
  if(LOCKSTEP_${library})
    list(APPEND private_libraries ${${library}_LIBRARIES})
  endif()
endforeach()
if(LOCKSTEP_UTF8PROC)
  list(APPEND LOCKSTEP_LIBRARIES PkgConfig::UTF8PROC)
  list(APPEND private_libraries ${UTF8PROC_LIBRARIES})
endif()
if(LOCKSTEP_PCRE2)
  list(APPEND LOCKSTEP_LIBRARIES PkgConfig::PCRE2)
  list(APPEND private_libraries ${PCRE2_LIBRARIES})
endif()
if(LOCKSTEP_ONEDNN)
  list(APPEND LOCKSTEP_INCLUDES ${DNNL_INCLUDE_DIR})
  list(APPEND private_libraries dnnl stdc++)
endif()

# ---- of the program alone ----

set(LOCKSTEP_PROGRAM_LIBRARIES "")
if(LOCKSTEP_HWLOC)
  list(APPEND LOCKSTEP_PROGRAM_LIBRARIES PkgConfig::HWLOC)
endif()
