# The user C module, for ports built with CMake: USER_C_MODULES=<this checkout>/firmware

get_filename_component(MCUTRAIN_DIR ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)

file(GLOB MCUTRAIN_KERNELS ${MCUTRAIN_DIR}/kernels_c/src/*/*.c)
# The link's framing is of no use here.
list(FILTER MCUTRAIN_KERNELS EXCLUDE REGEX "/wire/")

add_library(usermod_mcutrain INTERFACE)
target_sources(usermod_mcutrain INTERFACE
    ${CMAKE_CURRENT_LIST_DIR}/micropython/module.c
    ${CMAKE_CURRENT_LIST_DIR}/micropython/network.c
    ${CMAKE_CURRENT_LIST_DIR}/micropython/state.c
    ${CMAKE_CURRENT_LIST_DIR}/micropython/files.c
    ${CMAKE_CURRENT_LIST_DIR}/micropython/errors.c
    ${CMAKE_CURRENT_LIST_DIR}/micropython/names.c
    ${MCUTRAIN_KERNELS}
)
target_include_directories(usermod_mcutrain INTERFACE
    ${MCUTRAIN_DIR}/kernels_c/include
    ${MCUTRAIN_DIR}/kernels_c/src
)
# Arithmetic is made fast, and strict about floats; all else is as small as the port has it.
set(MCUTRAIN_ARITHMETIC ${MCUTRAIN_KERNELS})
list(FILTER MCUTRAIN_ARITHMETIC EXCLUDE REGEX "/runtime/")
set_source_files_properties(${MCUTRAIN_ARITHMETIC} PROPERTIES
    COMPILE_OPTIONS "-O2;-ffp-contract=off")
target_link_libraries(usermod INTERFACE usermod_mcutrain)
