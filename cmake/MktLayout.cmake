# SPDX-License-Identifier: BSD-3-Clause
#
# Where products lie. The build tree and an installation have the same layout, so the plugin
# finds the connectors, and these the daemon, relative to itself in both:
#   bin/h5marketd, bin/h5market
#   lib/hdf5/plugin/libhdf5_vol_market.so           the entry object that HDF5 loads
#   lib/h5market/libh5market_vol_<flavour>.so       a connector for each HDF5 flavour

set(MKT_BIN_DIR bin)
set(MKT_PLUGIN_DIR lib/hdf5/plugin)
set(MKT_CONNECTOR_DIR lib/h5market)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${MKT_BIN_DIR})

# mkt_install_program(target): a program that users call.
function(mkt_install_program target)
    install(TARGETS ${target} RUNTIME DESTINATION ${MKT_BIN_DIR})
endfunction()

# mkt_install_plugin(target): the entry object (a MODULE library named hdf5_vol_market).
function(mkt_install_plugin target)
    set_target_properties(${target} PROPERTIES
        PREFIX lib
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${MKT_PLUGIN_DIR})
    install(TARGETS ${target} LIBRARY DESTINATION ${MKT_PLUGIN_DIR})
endfunction()

# mkt_install_connector(target): the connector proper for one flavour (a MODULE library).
function(mkt_install_connector target)
    set_target_properties(${target} PROPERTIES
        PREFIX lib
        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${MKT_CONNECTOR_DIR})
    install(TARGETS ${target} LIBRARY DESTINATION ${MKT_CONNECTOR_DIR})
endfunction()
