/* SPDX-License-Identifier: BSD-3-Clause */
/* Fails when run: the doctor only reads it. */
int main(void)
{
    return 99;
}
