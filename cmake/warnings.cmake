# What every target of the project is compiled with.
add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE
  -Wall -Wextra -Wshadow -Wcast-qual -Wstrict-prototypes -Wmissing-prototypes
  -Wundef -Wvla -Wpointer-arith -Wformat=2 -Wwrite-strings
  -fno-math-errno -ffp-contract=off
  $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
target_compile_definitions(lockstep_flags INTERFACE _GNU_SOURCE)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_flags INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(lockstep_flags INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE})
endif()
