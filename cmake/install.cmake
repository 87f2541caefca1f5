# The files that `cmake --install` installs: headers, both libraries, the program, and
# the two ways to find them, pkg-config and find_package(lockstep).
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)

install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        FILES_MATCHING PATTERN "*.h")
if(TARGET lockstep)
  install(TARGETS lockstep RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Help texts and errors name these pages.
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg"
        PATTERN rows EXCLUDE)

# The program writes its manual pages and completions itself, if it runs here.
if(TARGET lockstep AND NOT CMAKE_CROSSCOMPILING)
  set(made ${PROJECT_BINARY_DIR}/share)
  install(CODE "
    file(MAKE_DIRECTORY ${made}/man)
    execute_process(COMMAND $<TARGET_FILE:lockstep> help --man ${made}/man
                    COMMAND_ERROR_IS_FATAL ANY)
    foreach(shell bash zsh fish)
      execute_process(COMMAND $<TARGET_FILE:lockstep> completion \${shell}
                      OUTPUT_FILE ${made}/\${shell}
                      COMMAND_ERROR_IS_FATAL ANY)
    endforeach()")
  install(DIRECTORY ${made}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  set(share ${CMAKE_INSTALL_DATAROOTDIR})
  install(FILES ${made}/bash RENAME lockstep
          DESTINATION ${share}/bash-completion/completions)
  install(FILES ${made}/zsh RENAME _lockstep
          DESTINATION ${share}/zsh/site-functions)
  install(FILES ${made}/fish RENAME lockstep.fish
          DESTINATION ${share}/fish/vendor_completions.d)
endif()

# Two export sets: who uses the shared libraries needs none of what they stand
# on.
set_target_properties(lockstep_comm_shared PROPERTIES EXPORT_NAME comm)
set_target_properties(lockstep_comm_static PROPERTIES EXPORT_NAME comm_static)
set(shared lockstep_comm_shared)
set(static lockstep_comm_static lockstep_comm_link)
set(packages lockstep-comm)
if(NOT LOCKSTEP_COMM_ONLY)
  set_target_properties(lockstep_shared PROPERTIES EXPORT_NAME lockstep)
  set_target_properties(lockstep_static PROPERTIES EXPORT_NAME static)
  list(APPEND shared lockstep_shared)
  list(APPEND static lockstep_static lockstep_link)
  list(APPEND packages lockstep)
endif()
install(TARGETS ${shared} EXPORT lockstep_shared
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS ${static}
        EXPORT lockstep_static
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT lockstep_shared FILE lockstep-shared.cmake
        NAMESPACE lockstep:: DESTINATION ${package_dir})
install(EXPORT lockstep_static FILE lockstep-static.cmake
        NAMESPACE lockstep:: DESTINATION ${package_dir})

configure_package_config_file(cmake/lockstep-config.cmake.in
  ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor release may change the interface.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake
              ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
        DESTINATION ${package_dir})

# Libs.private and not Requires.private: the latter would ask for the packages
# of every dependency even of those who link the shared library.
list(APPEND private_libraries m)
list(TRANSFORM private_libraries PREPEND -l)
list(JOIN private_libraries " " private_libraries)
set(private_libraries "${private_libraries} ${OpenMP_C_FLAGS}")
list(APPEND private_comm_libraries m)
list(TRANSFORM private_comm_libraries PREPEND -l)
list(JOIN private_comm_libraries " " private_comm_libraries)
set(private_comm_libraries "${private_comm_libraries} -pthread")
# Relative, so that `cmake --install --prefix` may go anywhere.
file(RELATIVE_PATH pc_to_prefix
     /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(name IN LISTS packages)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
