# find_package(syscollect): the client for C and C++, by its two libraries, and what records malloc.
#
#   syscollect::static, syscollect::shared   the client; link one of them
#   syscollect::malloc                       has malloc recorded, of the whole program
#   syscollect_MALLOC_LIBRARY                the same as a file, for LD_PRELOAD

get_filename_component(_syscollect_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(syscollect_MALLOC_LIBRARY "${_syscollect_prefix}/lib/libsyscollect_malloc.so")

include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)

if(NOT TARGET syscollect::static)
  add_library(syscollect::static STATIC IMPORTED)
  set_target_properties(syscollect::static PROPERTIES
    IMPORTED_LOCATION "${_syscollect_prefix}/lib/libsyscollect_client.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_syscollect_prefix}/include"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")

  add_library(syscollect::shared SHARED IMPORTED)
  set_target_properties(syscollect::shared PROPERTIES
    IMPORTED_LOCATION "${_syscollect_prefix}/lib/libsyscollect_client.so"
    IMPORTED_SONAME "libsyscollect_client.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_syscollect_prefix}/include")

  # Nothing refers to it by its own names, so the linker would leave it out.
  add_library(syscollect::malloc INTERFACE IMPORTED)
  set_target_properties(syscollect::malloc PROPERTIES
    INTERFACE_LINK_LIBRARIES
    "-Wl,--push-state,--no-as-needed;${syscollect_MALLOC_LIBRARY};-Wl,--pop-state")
endif()

unset(_syscollect_prefix)
