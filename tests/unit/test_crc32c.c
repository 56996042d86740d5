/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/crc32c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* RFC 3720, B.4. */
static void test_crc32c_known_values(void **state)
{
    uint8_t bytes[32];

    (void)state;
    assert_int_equal(mkt_crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(mkt_crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(mkt_crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)i;
    assert_int_equal(mkt_crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
    assert_int_equal(mkt_crc32c(0, bytes, 0), 0);
}

static void test_crc32c_chains(void **state)
{
    static const char text[] = "one sum over several parts";

    (void)state;
    for (size_t i = 0; i <= sizeof(text); i++)
        assert_int_equal(mkt_crc32c(mkt_crc32c(0, text, i), text + i, sizeof(text) - i),
                         mkt_crc32c(0, text, sizeof(text)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c_known_values),
        cmocka_unit_test(test_crc32c_chains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
