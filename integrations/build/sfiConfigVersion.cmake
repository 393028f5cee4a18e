# The version of these files and of the program, for find_package(sfi 0.1). Before 1.0 a minor
# version may break what the last one had, so versions are compatible within a minor version.
set(PACKAGE_VERSION 0.1.0)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _sfi_minor "${PACKAGE_VERSION}")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(PACKAGE_FIND_VERSION VERSION_LESS_EQUAL PACKAGE_VERSION AND NOT PACKAGE_FIND_VERSION VERSION_LESS _sfi_minor)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
unset(_sfi_minor)
