/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mkt_cli_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fflush(stdout);
    fprintf(stderr, "%s: ", program_invocation_name);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int mkt_cli_fail(const struct mkt_error *error)
{
    mkt_cli_complain("%s", error->text[0] ? error->text : mkt_status_text(error->status));
    return error->status == MKT_NOT_FOUND ? MKT_CLI_NOT_IN_MARKET : MKT_CLI_FAILED;
}

const char *mkt_cli_prefix(void)
{
    static char prefix[PATH_MAX];
    if (prefix[0])
        return prefix;
    ssize_t length = readlink("/proc/self/exe", prefix, sizeof(prefix) - 1);
    prefix[length > 0 ? length : 0] = '\0';
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(prefix, '/');
        if (slash)
            *slash = '\0';
    }
    return prefix;
}

bool mkt_cli_installed(const char *below, char *path_out, size_t capacity)
{
    int length = snprintf(path_out, capacity, "%s/%s", mkt_cli_prefix(), below);
    return length > 0 && (size_t)length < capacity && access(path_out, F_OK) == 0;
}

int mkt_cli_become(const char *program, char **argv)
{
    char below[64], path[PATH_MAX];
    snprintf(below, sizeof(below), "lib/h5market/%s", program);
    if (!mkt_cli_installed(below, path, sizeof(path))) {
        mkt_cli_complain(
            "%s is missing: this H5Market was built without a libhdf5 to link; build it "
            "again with HDF5_ROOT set",
            path);
        return MKT_CLI_FAILED;
    }
    fflush(NULL);
    execv(path, argv);
    mkt_cli_complain("can't run %s: %s", path, strerror(errno));
    return MKT_CLI_FAILED;
}

int mkt_cli_connect(bool start, const char *config_path, struct mkt_client **client_out)
{
    char daemon_path[PATH_MAX];
    struct mkt_client_options options = {.config_path = config_path};
    struct mkt_error error = {0};
    if (start) {
        if (!mkt_cli_installed("bin/h5marketd", daemon_path, sizeof(daemon_path))) {
            mkt_cli_complain("%s is missing; install H5Market again", daemon_path);
            return MKT_CLI_FAILED;
        }
        options.daemon_path = daemon_path;
    }
    enum mkt_status status = mkt_client_connect(&options, client_out, &error);
    if (status == MKT_OK)
        return MKT_CLI_OK;
    if (status != MKT_NOT_FOUND || start) {
        mkt_cli_fail(&error);
        return MKT_CLI_FAILED;
    }
    mkt_cli_complain(
        "no market runs here for this user; a program that writes through the connector "
        "starts one, or `h5market start`");
    return MKT_CLI_NO_DAEMON;
}

int mkt_cli_query(struct mkt_client *client, enum mkt_query what, const char *path,
                  json_t **answer_out)
{
    struct mkt_error error = {0};
    json_error_t json_error;
    char *text = NULL;
    if (mkt_client_query(client, what, path, &text, &error) != MKT_OK)
        return mkt_cli_fail(&error);
    *answer_out = json_loads(text, 0, &json_error);
    free(text);
    if (*answer_out)
        return MKT_CLI_OK;
    mkt_cli_complain("the daemon's answer can't be read (%s); is it of another version? "
                     "`h5market stop`, then try again",
                     json_error.text);
    return MKT_CLI_FAILED;
}

uint64_t mkt_cli_number(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

const char *mkt_cli_string(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

void mkt_cli_print_failure(const json_t *saving, const char *what)
{
    const char *failure = mkt_cli_string(saving, "failure");
    if (!failure[0])
        return;
    printf("%s isn't saved after %d tr%s: %s; ", what, (int)mkt_cli_number(saving, "tries"),
           mkt_cli_number(saving, "tries") == 1 ? "y" : "ies", failure);
    if (json_is_integer(json_object_get(saving, "retry_s")))
        printf("the next in %d s\n", (int)mkt_cli_number(saving, "retry_s"));
    else
        puts("it is tried again just now");
}

void mkt_cli_print_json(const json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
}

const char *mkt_cli_show_size(uint64_t bytes, char text[MKT_CLI_SHOWN_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    while (value >= 1024 && unit < 6) {
        value /= 1024;
        unit++;
    }
    int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
    snprintf(text, MKT_CLI_SHOWN_BYTES, "%.*f %s", digits, value, units[unit]);
    return text;
}

const char *mkt_cli_show_age(uint64_t ms, char text[MKT_CLI_SHOWN_BYTES])
{
    uint64_t seconds = ms / 1000;
    if (seconds < 120)
        snprintf(text, MKT_CLI_SHOWN_BYTES, "%u s", (unsigned)seconds);
    else if (seconds < 7200)
        snprintf(text, MKT_CLI_SHOWN_BYTES, "%u min", (unsigned)(seconds / 60));
    else if (seconds < 172800)
        snprintf(text, MKT_CLI_SHOWN_BYTES, "%.1f h", (double)seconds / 3600);
    else
        snprintf(text, MKT_CLI_SHOWN_BYTES, "%u d", (unsigned)(seconds / 86400));
    return text;
}

void mkt_cli_parse(const struct argp *argp, unsigned flags, int argc, char **argv, void *input)
{
    error_t failed = argp_parse(argp, argc, argv, flags, NULL, input);
    if (failed) {
        mkt_cli_complain("%s", strerror(failed));
        exit(MKT_CLI_USAGE);
    }
}

error_t mkt_cli_parse_no_argument(int key, struct argp_state *state)
{
    if (key == ARGP_KEY_ARG)
        argp_error(state, "no arguments are taken");
    return ARGP_ERR_UNKNOWN;
}

error_t mkt_cli_parse_files(int key, struct argp_state *state, struct mkt_cli_files *files)
{
    switch (key) {
    case ARGP_KEY_ARGS:
        files->list = state->argv + state->next;
        files->count = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no %s given", files->what ? files->what : "FILE");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void *mkt_cli_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        mkt_cli_complain("out of memory");
        exit(MKT_CLI_FAILED);
    }
    return memory;
}

char *mkt_cli_copy(const char *text)
{
    return strcpy(mkt_cli_alloc(strlen(text) + 1), text);
}

char *mkt_cli_format(const char *format, ...)
{
    va_list arguments;
    char *text;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        mkt_cli_complain("out of memory");
        exit(MKT_CLI_FAILED);
    }
    return text;
}
