# sfi_verify(TARGET [MODE mode] [POLICY file]) makes the build of TARGET, a static or object
# library, fail if one of its objects could leave its sandbox. SFI_EXECUTABLE names the program.
# Without it, CMake looks for `sfi` on the path.
include_guard(GLOBAL)
find_program(SFI_EXECUTABLE sfi REQUIRED)

function(sfi_verify target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "MODE;POLICY" "")
    if(arg_UNPARSED_ARGUMENTS OR arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "sfi_verify(target [MODE mode] [POLICY file])")
    endif()
    set(options)
    set(depends "$<TARGET_OBJECTS:${target}>")
    if(arg_MODE)
        list(APPEND options --mode "${arg_MODE}")
    endif()
    if(arg_POLICY)
        get_filename_component(policy "${arg_POLICY}" ABSOLUTE)
        list(APPEND options --policy "${policy}")
        list(APPEND depends "${policy}")
    endif()
    set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${target}.sfi-verified")
    add_custom_command(
        OUTPUT "${stamp}"
        COMMAND "${SFI_EXECUTABLE}" verify ${options} -- "$<TARGET_OBJECTS:${target}>"
        COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
        DEPENDS ${depends}
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${target}-sfi-verify ALL DEPENDS "${stamp}")
endfunction()
