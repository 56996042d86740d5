# SPDX-License-Identifier: BSD-3-Clause
#
# Finds the HDF5 (1.14 or newer) of each flavour on this machine: serial, openmpi, mpich.
# Places, in this order; the first that has a flavour gives it:
#   1. HDF5_ROOT, from -D or the environment (a cluster with modules)
#   2. the HDF5 that ./bootstrap built in the cache folder
#   3. Debian 13's packages, which can be installed side by side
# A parallel HDF5 alone also serves to build the serial connector: the headers are the same, and mpi.h
# is read for its types only.
#
# Sets MKT_HDF5_FLAVOURS (a list, e.g. "serial;openmpi") and for each flavour <f>
#   MKT_HDF5_<f>_VERSION        1.14.5
#   MKT_HDF5_<f>_INCLUDE_DIRS   HDF5's, and MPI's where the headers ask for mpi.h
#   MKT_HDF5_<f>_DEFINITIONS    MKT_VOL_MPI=0 or 1, and MKT_VOL_FLAVOUR="<f>"
#   MKT_HDF5_<f>_MPI            0 or 1
#   MKT_HDF5_<f>_LIBRARY        libhdf5's path, for tests and examples; connectors don't link it.
#                               Empty where a parallel HDF5 lends its headers to serial.
#   MKT_HDF5_<f>_BIN_DIR        where h5dump and its like are
#   MKT_HDF5_<f>_MPIEXEC        the launcher that fits, for a flavour with MPI
# and the targets
#   mkt_hdf5_parallel, mkt_hdf5_parallel_hl    an HDF5 with MPI (absent without one; see MKT_HAVE_MPI)
#   mkt_hdf5_serial, mkt_hdf5_serial_hl        a serial one, else the parallel one under another name
#   mkt_hdf5_parallel_fortran, mkt_hdf5_serial_fortran    where HDF5 has Fortran; see MKT_HAVE_FORTRAN

set(MKT_HDF5_MINIMUM 1.14.0)
set(MKT_HDF5_FLAVOURS "")
set(mkt_hdf5_seen "")

set(HDF5_ROOT "$ENV{HDF5_ROOT}" CACHE PATH "Prefix of an HDF5 >= ${MKT_HDF5_MINIMUM}")
if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(MKT_CACHE_DIR "$ENV{XDG_CACHE_HOME}/h5market")
else()
    set(MKT_CACHE_DIR "$ENV{HOME}/.cache/h5market")
endif()

# The version in H5public.h, and whether H5pubconf.h says parallel.
function(mkt_hdf5_read_headers include_dir version_out parallel_out)
    set(${version_out} "" PARENT_SCOPE)
    set(${parallel_out} 0 PARENT_SCOPE)
    if(NOT EXISTS ${include_dir}/H5public.h)
        return()
    endif()
    file(STRINGS ${include_dir}/H5public.h lines REGEX "^#define H5_VERS_(MAJOR|MINOR|RELEASE)[ \t]+[0-9]+")
    set(numbers "")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE "^#define H5_VERS_[A-Z]+[ \t]+([0-9]+).*" "\\1" number "${line}")
        list(APPEND numbers ${number})
    endforeach()
    list(JOIN numbers "." version)
    set(${version_out} "${version}" PARENT_SCOPE)
    # Multi-arch distributions have H5pubconf.h include H5pubconf-64.h.
    file(GLOB configurations ${include_dir}/H5pubconf*.h)
    foreach(configuration IN LISTS configurations)
        file(STRINGS ${configuration} lines REGEX "^#define H5_HAVE_PARALLEL 1")
        if(lines)
            set(${parallel_out} 1 PARENT_SCOPE)
        endif()
    endforeach()
endfunction()

# What an MPI compiler wrapper adds. Sets <prefix>_INCLUDE_DIRS and _LINK (flags).
function(mkt_mpi_ask_wrapper wrapper prefix)
    set(${prefix}_INCLUDE_DIRS "" PARENT_SCOPE)
    set(${prefix}_LINK "" PARENT_SCOPE)
    execute_process(COMMAND ${wrapper} -show
        OUTPUT_VARIABLE shown ERROR_QUIET RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(failed)
        return()
    endif()
    separate_arguments(words UNIX_COMMAND "${shown}")
    list(POP_FRONT words)
    set(include_dirs "")
    set(link "")
    foreach(word IN LISTS words)
        if(word MATCHES "^-I(.+)")
            list(APPEND include_dirs ${CMAKE_MATCH_1})
        elseif(word MATCHES "^-(L|l|Wl,|pthread)")
            list(APPEND link ${word})
        endif()
    endforeach()
    set(${prefix}_INCLUDE_DIRS "${include_dirs}" PARENT_SCOPE)
    set(${prefix}_LINK "${link}" PARENT_SCOPE)
endfunction()

# Which MPI a set of include folders belongs to: openmpi, mpich, or empty when there is no mpi.h.
function(mkt_mpi_read_flavour include_dirs flavour_out)
    set(${flavour_out} "" PARENT_SCOPE)
    # A wrapper names no folder where MPI is in the compiler's own path.
    find_file(header mpi.h HINTS ${include_dirs} NO_CACHE)
    if(NOT header)
        return()
    endif()
    file(STRINGS ${header} is_openmpi REGEX "^#define OMPI_MAJOR_VERSION" LIMIT_COUNT 1)
    if(is_openmpi)
        set(${flavour_out} openmpi PARENT_SCOPE)
    else()
        # MPICH and its ABI-compatible relatives: Intel MPI, MVAPICH, Cray MPICH.
        set(${flavour_out} mpich PARENT_SCOPE)
    endif()
endfunction()

# An imported target for one of HDF5's libraries; sets found to its path. More include folders may follow.
function(mkt_hdf5_import target flavour name library_dirs link)
    find_library(library NAMES ${name} PATHS ${library_dirs} NO_DEFAULT_PATH NO_CACHE)
    if(NOT library)
        return()
    endif()
    # Resolved, since Debian's development links share one name between flavours.
    get_filename_component(library ${library} REALPATH)
    add_library(${target} SHARED IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES
        IMPORTED_LOCATION ${library}
        INTERFACE_INCLUDE_DIRECTORIES "${MKT_HDF5_${flavour}_INCLUDE_DIRS};${ARGN}"
        INTERFACE_LINK_LIBRARIES "${link}")
    set(found ${library} PARENT_SCOPE)
endfunction()

# The libraries that tests and examples link.
function(mkt_hdf5_import_all kind flavour include_dir library_dirs mpicc)
    if(TARGET mkt_hdf5_${kind})
        return()
    endif()
    unset(found)
    mkt_hdf5_import(mkt_hdf5_${kind} ${flavour} hdf5 "${library_dirs}" "${mkt_mpi_LINK}")
    if(NOT found)
        return()
    endif()
    mkt_hdf5_import(mkt_hdf5_${kind}_hl ${flavour} hdf5_hl "${library_dirs}" mkt_hdf5_${kind})
    if(kind STREQUAL "parallel")
        string(REGEX REPLACE "mpicc([^/]*)$" "mpifort\\1" mpifort ${mpicc})
        mkt_mpi_ask_wrapper(${mpifort} mkt_mpifort)
    endif()
    # Modules are beside the headers, or where HDF5's CMake build puts them.
    set(module_dirs "")
    foreach(folder ${mkt_mpifort_INCLUDE_DIRS} ${include_dir}/../mod/shared)
        if(IS_DIRECTORY ${folder})
            list(APPEND module_dirs ${folder})
        endif()
    endforeach()
    mkt_hdf5_import(mkt_hdf5_${kind}_fortran ${flavour} hdf5_fortran "${library_dirs}"
        "mkt_hdf5_${kind};${mkt_mpifort_LINK}" ${module_dirs})
endfunction()

# mkt_hdf5_try(include_dir library_dirs bin_dir mpicc...): one place; adds its flavour if it has a new one.
macro(mkt_hdf5_try include_dir library_dirs bin_dir)
    mkt_hdf5_read_headers("${include_dir}" version parallel)
    if(version AND version VERSION_LESS MKT_HDF5_MINIMUM)
        list(APPEND mkt_hdf5_seen "${include_dir}: HDF5 ${version}, too old")
    elseif(version)
        set(mkt_mpi_INCLUDE_DIRS "")
        set(mkt_mpi_LINK "")
        set(flavour serial)
        set(kind serial)
        unset(mpicc)
        if(parallel)
            set(flavour "")
            set(kind parallel)
            find_program(mpicc NAMES $ENV{MPICC} ${ARGN} NO_CACHE)
            if(mpicc)
                mkt_mpi_ask_wrapper(${mpicc} mkt_mpi)
                mkt_mpi_read_flavour("${mkt_mpi_INCLUDE_DIRS}" flavour)
            endif()
        endif()
        if(NOT flavour)
            list(APPEND mkt_hdf5_seen
                "${include_dir}: parallel HDF5 ${version}, but no working ${ARGN}; put it on PATH or set MPICC")
        elseif(NOT flavour IN_LIST MKT_HDF5_FLAVOURS)
            set(MKT_HDF5_${flavour}_VERSION ${version})
            set(MKT_HDF5_${flavour}_INCLUDE_DIRS ${include_dir} ${mkt_mpi_INCLUDE_DIRS})
            set(MKT_HDF5_${flavour}_MPI ${parallel})
            set(MKT_HDF5_${flavour}_DEFINITIONS MKT_VOL_MPI=${parallel} MKT_VOL_FLAVOUR="${flavour}")
            set(MKT_HDF5_${flavour}_BIN_DIR ${bin_dir})
            find_library(MKT_HDF5_${flavour}_LIBRARY hdf5 PATHS ${library_dirs} NO_DEFAULT_PATH NO_CACHE)
            if(parallel)
                get_filename_component(mpi_bin_dir ${mpicc} DIRECTORY)
                string(REGEX REPLACE "^.*/mpicc" "mpiexec" mpiexec ${mpicc})
                find_program(MKT_HDF5_${flavour}_MPIEXEC NAMES ${mpiexec} mpiexec mpirun srun
                    HINTS ${mpi_bin_dir} NO_CACHE)
            endif()
            mkt_hdf5_import_all(${kind} ${flavour} ${include_dir} "${library_dirs}" "${mpicc}")
            list(APPEND MKT_HDF5_FLAVOURS ${flavour})
            list(APPEND mkt_hdf5_seen "${flavour}: HDF5 ${version} in ${include_dir}")
        endif()
    endif()
endmacro()

macro(mkt_hdf5_try_prefix prefix)
    mkt_hdf5_try("${prefix}/include" "${prefix}/lib;${prefix}/lib64;${prefix}/lib/${CMAKE_LIBRARY_ARCHITECTURE}"
        "${prefix}/bin" mpicc cc)
endmacro()

if(HDF5_ROOT)
    mkt_hdf5_try_prefix(${HDF5_ROOT})
    if(NOT MKT_HDF5_FLAVOURS)
        message(WARNING "HDF5_ROOT is ${HDF5_ROOT}, but no usable HDF5 is there: ${mkt_hdf5_seen}")
    endif()
endif()
file(GLOB mkt_hdf5_cached LIST_DIRECTORIES true ${MKT_CACHE_DIR}/hdf5-*-openmpi)
list(SORT mkt_hdf5_cached COMPARE NATURAL ORDER DESCENDING)
foreach(prefix IN LISTS mkt_hdf5_cached)
    mkt_hdf5_try_prefix(${prefix})
endforeach()
foreach(debian serial openmpi mpich)
    mkt_hdf5_try("/usr/include/hdf5/${debian}" "/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/hdf5/${debian}"
        /usr/bin mpicc.${debian})
endforeach()

if(NOT MKT_HDF5_FLAVOURS)
    list(JOIN mkt_hdf5_seen "\n  " mkt_hdf5_seen)
    message(FATAL_ERROR "No HDF5 >= ${MKT_HDF5_MINIMUM} found. Set HDF5_ROOT to its prefix, or run ./bootstrap build.\n"
        "  ${mkt_hdf5_seen}")
endif()

set(MKT_HAVE_MPI FALSE)
foreach(flavour openmpi mpich)
    if(flavour IN_LIST MKT_HDF5_FLAVOURS)
        if(NOT MKT_HAVE_MPI)
            set(MKT_HAVE_MPI TRUE)
            set(MKT_MPIEXEC ${MKT_HDF5_${flavour}_MPIEXEC})
            set(MKT_HDF5_PARALLEL_FLAVOUR ${flavour})
        endif()
        # A parallel HDF5 lends its headers to the serial connector.
        if(NOT "serial" IN_LIST MKT_HDF5_FLAVOURS)
            set(MKT_HDF5_serial_VERSION ${MKT_HDF5_${flavour}_VERSION})
            set(MKT_HDF5_serial_INCLUDE_DIRS ${MKT_HDF5_${flavour}_INCLUDE_DIRS})
            set(MKT_HDF5_serial_MPI 0)
            set(MKT_HDF5_serial_DEFINITIONS MKT_VOL_MPI=0 MKT_VOL_FLAVOUR="serial")
            set(MKT_HDF5_serial_LIBRARY "")
            set(MKT_HDF5_serial_BIN_DIR ${MKT_HDF5_${flavour}_BIN_DIR})
            list(PREPEND MKT_HDF5_FLAVOURS serial)
            list(APPEND mkt_hdf5_seen "serial: headers of ${flavour}'s HDF5")
        endif()
    endif()
endforeach()

foreach(part "" _hl _fortran)
    if(NOT TARGET mkt_hdf5_serial${part} AND TARGET mkt_hdf5_parallel${part})
        add_library(mkt_hdf5_serial${part} ALIAS mkt_hdf5_parallel${part})
    endif()
endforeach()

foreach(line IN LISTS mkt_hdf5_seen)
    message(STATUS "HDF5 ${line}")
endforeach()
