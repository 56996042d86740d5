# SPDX-License-Identifier: BSD-3-Clause
#
# Language, warnings and sanitizers of every target.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
# The static libraries of the lower layers go into the plugin.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

# Assertions stay on in a release: no NDEBUG.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g3")

add_compile_definitions($<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE>)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Werror=implicit-function-declaration;-Wstrict-prototypes;-Wmissing-prototypes>")
if(MKT_WERROR)
    add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Werror>")
endif()

if(MKT_SANITIZE STREQUAL "address")
    set(mkt_sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(MKT_SANITIZE STREQUAL "thread")
    set(mkt_sanitize_flags -fsanitize=thread)
elseif(MKT_SANITIZE)
    message(FATAL_ERROR "MKT_SANITIZE is '${MKT_SANITIZE}'; use address or thread, or leave it empty")
endif()
if(MKT_SANITIZE)
    add_compile_options("$<$<COMPILE_LANGUAGE:C>:${mkt_sanitize_flags};-fno-omit-frame-pointer>")
    add_link_options(${mkt_sanitize_flags})
endif()
