# Source files for one instruction set. The flags match the rows of base/isas.def.
set(LOCKSTEP_X86 x86_64|AMD64)
set(LOCKSTEP_ARM64 aarch64|arm64)
set(LOCKSTEP_AVX2 -mavx2 -mfma -mf16c)
set(LOCKSTEP_AVX512 ${LOCKSTEP_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
set(LOCKSTEP_AVX512_BF16 ${LOCKSTEP_AVX512} -mavx512bf16)
set(LOCKSTEP_AMX ${LOCKSTEP_AVX512_BF16} -mamx-tile -mamx-bf16)

# kernel_sources(objects "processors" FILES... FLAGS...): adds files of kernels to the
# object library, where CMake's name for the processor matches.
function(kernel_sources objects processor)
  cmake_parse_arguments(K "" "" "FILES;FLAGS" ${ARGN})
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(${processor})$")
    return()
  endif()
  target_sources(${objects} PRIVATE ${K_FILES})
  set_source_files_properties(${K_FILES} TARGET_DIRECTORY ${objects}
    PROPERTIES COMPILE_OPTIONS "${K_FLAGS}")
endfunction()
