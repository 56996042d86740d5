/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/conformance/engine_suite.h"

#include <stdio.h>

int main(void)
{
    int failed = engine_suite_run("shm, bare", &mkt_engine_shm);

    checking_engine_wrap(&mkt_engine_shm);
    failed += engine_suite_run("shm, checked", &checking_engine);
    if (checking_engine_moves() == 0) {
        fprintf(stderr, "the wrapper saw no move\n");
        failed++;
    }
    return failed;
}
