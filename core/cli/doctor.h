/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The doctor's checks. Each prints what it found, one line a finding, with the remedy under all
 * that isn't well. A hint is what could be better, and isn't counted; a warning may be as it should
 * be; a problem keeps programs from using the market.
 */
#ifndef MKT_CLI_DOCTOR_H
#define MKT_CLI_DOCTOR_H

#include "core/cli/cli.h"
#include <limits.h>

enum mkt_verdict {
    MKT_FINE,
    MKT_HINT,
    MKT_WARNING,
    MKT_PROBLEM
};

struct mkt_doctor {
    bool colour;
    unsigned warnings, problems;
    char **programs;    /* a command line to look at; NULL: none */
    const char *folder; /* where to look for left-over stubs; given or the working folder */
    bool folder_given;
    /* What checks tell those after them. */
    bool has_plugin;           /* this installation is whole */
    bool user_plugin_usable;   /* HDF5_PLUGIN_PATH leads to a plugin of ours */
    struct mkt_client *client; /* of the daemon that runs, or NULL */
    bool daemon_unknown;       /* it couldn't be asked */
};

/* Prints a finding; remedy NULL only with MKT_FINE. */
void mkt_doctor_say(struct mkt_doctor *doctor, enum mkt_verdict verdict, const char *remedy,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

void mkt_doctor_installation(struct mkt_doctor *doctor); /* doctor_setup.c */
void mkt_doctor_environment(struct mkt_doctor *doctor);
void mkt_doctor_market(
    struct mkt_doctor *doctor); /* doctor_market.c: folder, daemon, configuration, memory */
void mkt_doctor_probe(
    struct mkt_doctor *doctor); /* doctor_probe.c: does HDF5 take the connector? */
void mkt_doctor_program(struct mkt_doctor *doctor); /* doctor_program.c */
void mkt_doctor_stubs(struct mkt_doctor *doctor);   /* doctor_stubs.c */

/* doctor_report.c: all that a bug report needs, after the checks. */
void mkt_doctor_report(struct mkt_doctor *doctor);

/* The first HDF5 plugin of ours in a list of folders that colons separate; false: none. */
bool mkt_doctor_find_plugin(const char *list, char path_out[PATH_MAX]);
/* The lines to set up a shell; static. */
const char *mkt_doctor_setup_remedy(void);

#endif
