# The compiler flags of every target of the project.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wshadow -Wcast-qual
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>
  -Wundef -Wvla -Wpointer-arith -Wformat=2 -Wwrite-strings
  -fno-math-errno -ffp-contract=off
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
target_compile_definitions(lockstep_flags INTERFACE _GNU_SOURCE)
# Optimisation beyond the build type's, of kernels. With sanitizers, which put a
# check at each access, it would take minutes.
if(NOT LOCKSTEP_SANITIZE)
  set(LOCKSTEP_FAST -O3 CACHE STRING "Optimisation of kernels")
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  # Checks are calls, not code in place: files with large kernels then compile in
  # an eighth of the time.
  target_compile_options(lockstep_flags INTERFACE
    "$<$<C_COMPILER_ID:GNU>:SHELL:--param asan-instrumentation-with-call-threshold=0>")
  target_link_options(lockstep_flags INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE})
endif()
