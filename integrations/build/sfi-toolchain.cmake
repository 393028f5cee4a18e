# Whole programs in CMake: cmake --toolchain sfi-toolchain.cmake compiles, rewrites and links all
# programs of a project with `sfi cc` and `sfi c++`. They run in a sandbox when they are started.
#
# SFI_EXECUTABLE names the program. By default CMake searches the path for it. The environment's
# SFI_MODE is write, full or match, also for `cmake --build`.
find_program(SFI_EXECUTABLE sfi REQUIRED)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SFI_EXECUTABLE)
set(CMAKE_C_COMPILER "${SFI_EXECUTABLE}" cc)
set(CMAKE_CXX_COMPILER "${SFI_EXECUTABLE}" c++)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
