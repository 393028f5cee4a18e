# Sandboxed plugins in CMake: find_package(sfi), with -Dsfi_DIR=.../integrations/build unless it is
# installed. SFI_EXECUTABLE names the program. By default CMake searches the path for it.
#
#   sfi_add_plugin(NAME SOURCE... [MODE mode] [POLICY file] [OUTPUT file])
#     Compiles sources, rewrites and verifies the objects. NAME is an object library: give it
#     include paths and options as any other target.
#   sfi_rewrite(TARGET [MODE mode] [POLICY file] [OUTPUT file])
#     Rewrites and verifies the objects of an existing static or object library.
#   sfi_rewrite_archive(NAME FILE [MODE mode] [POLICY file] [OUTPUT file])
#     Rewrites and verifies a compiled library, such as a distribution's libz.a.
#   sfi_verify(TARGET [MODE mode] [POLICY file])
#     Building the project fails if an object of TARGET could leave its sandbox. It has no output.
#
# The first three also take REWRITE_OPTIONS option... for `sfi rewrite`, such as --skip-refused,
# which leaves out what cannot be rewritten. Each of them makes a target TARGET-sfi (or NAME) that
# is part of `all`. Its property SFI_OUTPUT is the archive for a manifest's `objects`. Default:
# TARGET.sfi.a in the binary folder.
include_guard(GLOBAL)
find_program(SFI_EXECUTABLE sfi REQUIRED)

# Reads the options that all functions share into the caller's scope.
macro(_sfi_arguments usage first)
    cmake_parse_arguments(PARSE_ARGV ${first} arg "" "MODE;POLICY;OUTPUT" "REWRITE_OPTIONS")
    if(arg_KEYWORDS_MISSING_VALUES)
        message(FATAL_ERROR "${usage}: no value for ${arg_KEYWORDS_MISSING_VALUES}")
    endif()
    set(_sfi_mode)
    if(arg_MODE)
        set(_sfi_mode --mode "${arg_MODE}")
    endif()
    set(_sfi_policy)
    set(_sfi_policy_file)
    if(arg_POLICY)
        get_filename_component(_sfi_policy_file "${arg_POLICY}" ABSOLUTE)
        set(_sfi_policy --policy "${_sfi_policy_file}")
    endif()
endmacro()

function(_sfi_no_others usage)
    if(ARGN)
        message(FATAL_ERROR "${usage}: ${ARGN} is not understood")
    endif()
endfunction()

# Makes the target that rewrites ${inputs}: one archive if PACKED is true, else objects, or one
# generator expression that lists them. Reads the options of _sfi_arguments.
function(_sfi_output target default packed inputs)
    if(NOT arg_OUTPUT)
        set(arg_OUTPUT "${default}")
    endif()
    get_filename_component(output "${arg_OUTPUT}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_BINARY_DIR}")
    set(new "${output}.new")
    # The objects first become an archive: members keep their order, and names may repeat. A failed
    # verdict must leave no output, because the next build would take it for a good one.
    set(pack)
    set(from "${inputs}")
    if(NOT packed)
        set(pack COMMAND "${CMAKE_AR}" qc "${new}" "${inputs}")
        set(from "${new}")
    endif()
    add_custom_command(
        OUTPUT "${output}"
        COMMAND "${CMAKE_COMMAND}" -E rm -f "${new}" "${output}"
        ${pack}
        COMMAND "${SFI_EXECUTABLE}" rewrite ${_sfi_mode} ${arg_REWRITE_OPTIONS} -o "${new}" "${from}"
        COMMAND "${SFI_EXECUTABLE}" verify ${_sfi_mode} ${_sfi_policy} -- "${new}"
        COMMAND "${CMAKE_COMMAND}" -E rename "${new}" "${output}"
        DEPENDS "${inputs}" ${_sfi_policy_file} "${SFI_EXECUTABLE}"
        COMMENT "Rewriting and verifying ${target}"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${target} ALL DEPENDS "${output}")
    set_target_properties(${target} PROPERTIES SFI_OUTPUT "${output}")
endfunction()

function(sfi_add_plugin name)
    _sfi_arguments("sfi_add_plugin(${name})" 1)
    if(NOT arg_UNPARSED_ARGUMENTS)
        message(FATAL_ERROR "sfi_add_plugin(${name}): no sources")
    endif()
    add_library(${name} OBJECT ${arg_UNPARSED_ARGUMENTS})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON INTERPROCEDURAL_OPTIMIZATION OFF)
    _sfi_output(${name}-sfi ${name}.sfi.a FALSE "$<TARGET_OBJECTS:${name}>")
endfunction()

function(sfi_rewrite target)
    _sfi_arguments("sfi_rewrite(${target})" 1)
    _sfi_no_others("sfi_rewrite(${target})" ${arg_UNPARSED_ARGUMENTS})
    _sfi_output(${target}-sfi ${target}.sfi.a FALSE "$<TARGET_OBJECTS:${target}>")
endfunction()

function(sfi_rewrite_archive name file)
    _sfi_arguments("sfi_rewrite_archive(${name})" 2)
    _sfi_no_others("sfi_rewrite_archive(${name})" ${arg_UNPARSED_ARGUMENTS})
    get_filename_component(file "${file}" ABSOLUTE)
    _sfi_output(${name} ${name}.sfi.a TRUE "${file}")
endfunction()

function(sfi_verify target)
    _sfi_arguments("sfi_verify(${target})" 1)
    _sfi_no_others("sfi_verify(${target})" ${arg_UNPARSED_ARGUMENTS})
    foreach(option OUTPUT REWRITE_OPTIONS)
        if(DEFINED arg_${option})
            message(FATAL_ERROR "sfi_verify(${target}): ${option} is for sfi_rewrite, which also verifies")
        endif()
    endforeach()
    _sfi_no_others("sfi_verify(${target})" ${arg_UNPARSED_ARGUMENTS})
    set(stamp "${CMAKE_CURRENT_BINARY_DIR}/${target}.sfi-verified")
    add_custom_command(
        OUTPUT "${stamp}"
        COMMAND "${SFI_EXECUTABLE}" verify ${_sfi_mode} ${_sfi_policy} -- "$<TARGET_OBJECTS:${target}>"
        COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
        DEPENDS "$<TARGET_OBJECTS:${target}>" ${_sfi_policy_file} "${SFI_EXECUTABLE}"
        COMMAND_EXPAND_LISTS VERBATIM)
    add_custom_target(${target}-sfi-verify ALL DEPENDS "${stamp}")
endfunction()
