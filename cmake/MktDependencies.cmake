# SPDX-License-Identifier: BSD-3-Clause
#
# The libraries of the daemon and the tests, as imported targets:
#   PkgConfig::UV, PkgConfig::JANSSON, PkgConfig::YAML, PkgConfig::XXHASH, PkgConfig::URING, PkgConfig::ISAL, PkgConfig::HWLOC,
#   PkgConfig::CMOCKA, mkt_uthash (headers), Threads::Threads.
# The plugin uses none of them.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(UV REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing>=2.3)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.4)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal>=2.30)
if(BUILD_TESTING)
    pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()

find_path(MKT_UTHASH_INCLUDE_DIR uthash.h REQUIRED)
add_library(mkt_uthash INTERFACE)
target_include_directories(mkt_uthash SYSTEM INTERFACE ${MKT_UTHASH_INCLUDE_DIR})
