# Pythons for the tests that need a module of Python.
set(LOCKSTEP_TORCH_PYTHON "" CACHE FILEPATH "A Python that has PyTorch")

# find_python(RESULT MODULE): a Python that has the module, or else the first one, whose
# tests are then skipped. Debian's may be another than the first one of PATH.
function(find_python result module)
  foreach(candidate ${LOCKSTEP_TORCH_PYTHON} ${Python3_EXECUTABLE} /usr/bin/python3)
    execute_process(
      COMMAND ${candidate} -c
        "import importlib.util as i; exit(i.find_spec('${module}') is None)"
      RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
      set(${result} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(STATUS "No Python with ${module} found: its tests are skipped")
  set(${result} ${Python3_EXECUTABLE} PARENT_SCOPE)
endfunction()
