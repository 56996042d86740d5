#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# docs/configuration.md is what the schema says.
"$1" | diff -u "$MKT_SOURCE_DIR/docs/configuration.md" - || {
    echo "docs/configuration.md is old: build the target docs_configuration" >&2
    exit 1
}
