/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The terminal of `h5market top`. Handlers do all that a signal asks for by themselves, with what
 * may be called there: so Ctrl-C works as well while the daemon is silent.
 */
#include "core/base/clock.h"
#include "core/cli/top.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define COLUMNS 80 /* of a terminal that doesn't say */
#define LINES   24

static const char enters[] = "\033[?1049h\033[?25l"; /* a screen of its own, no cursor */
static const char leaves[] = "\033[?25h\033[?1049l";

static volatile sig_atomic_t is_entered, has_changed;
static struct termios before;
static bool has_keys; /* standard input is a terminal, too */
static sigset_t waiting_mask;

bool mkt_top_screen_is_there(void)
{
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && terminal && terminal[0] && strcmp(terminal, "dumb") != 0;
}

static void put(const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, length);
        if (written <= 0)
            return; /* there is nobody to tell it to */
        bytes += written;
        length -= (size_t)written;
    }
}

static void take_terminal(void)
{
    struct termios quiet = before;
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
    put(enters, sizeof(enters) - 1);
    is_entered = true;
}

void mkt_top_screen_leave(void)
{
    if (!is_entered)
        return;
    is_entered = false;
    put(leaves, sizeof(leaves) - 1);
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

/* ---- signals ---- */

static void on_end(int number)
{
    mkt_top_screen_leave();
    if (number == SIGINT)
        _exit(MKT_CLI_OK); /* the usual way out */
    raise(number);         /* the default, which ends it */
}

static void on_change(int number)
{
    (void)number;
    has_changed = true;
}

static void on_stop(int number);

static void set_handler(int number, void (*handler)(int), int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
}

/* Gives the terminal back, stops, and goes on here when it is continued. */
static void on_stop(int number)
{
    mkt_top_screen_leave();
    set_handler(number, SIG_DFL, 0);
    raise(number);
    set_handler(number, on_stop, SA_NODEFER);
    take_terminal();
    has_changed = true;
}

static void set_handlers(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    sigset_t change;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        set_handler(ends[i], on_end, (int)SA_RESETHAND | SA_NODEFER);
    set_handler(SIGTSTP, on_stop, SA_NODEFER);
    set_handler(SIGWINCH, on_change, 0);
    /* Only while it waits: so none comes between a look at `has_changed` and the wait. */
    sigemptyset(&change);
    sigaddset(&change, SIGWINCH);
    sigprocmask(SIG_BLOCK, &change, &waiting_mask);
    sigdelset(&waiting_mask, SIGWINCH);
}

void mkt_top_screen_enter(void)
{
    fflush(stdout);
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    set_handlers();
    atexit(mkt_top_screen_leave);
    take_terminal();
}

/* ---- what is shown ---- */

void mkt_top_screen_size(unsigned *width_out, unsigned *height_out)
{
    struct winsize size = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *width_out = known && size.ws_col > 0 ? size.ws_col : COLUMNS;
    *height_out = known && size.ws_row > 0 ? size.ws_row : LINES;
}

/* As much of a line as the width holds: bytes of so many characters of UTF-8. */
static size_t bytes_of(const char *line, size_t length, unsigned width)
{
    size_t bytes = 0;
    unsigned characters = 0;
    for (; bytes < length; bytes++) {
        characters += ((unsigned char)line[bytes] & 0xc0) != 0x80;
        if (characters > width)
            break;
    }
    return bytes;
}

void mkt_top_screen_draw(const char *text)
{
    unsigned width, height;
    char *frame = NULL;
    size_t length;
    mkt_top_screen_size(&width, &height);
    FILE *out = open_memstream(&frame, &length);
    if (!out)
        return;
    fputs("\033[H", out);
    for (unsigned line = 0; line < height && *text; line++) {
        size_t bytes = strcspn(text, "\n");
        fprintf(out, "%s%.*s\033[K", line > 0 ? "\r\n" : "", (int)bytes_of(text, bytes, width),
                text);
        text += bytes + (text[bytes] == '\n');
    }
    fputs("\033[J", out);
    if (fclose(out) == 0)
        put(frame, length);
    free(frame);
}

/* ---- the wait ---- */

static enum mkt_top_event read_key(void)
{
    char key;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got == 0 || (got == 1 && (key == 'q' || key == 'Q' || key == 4))) /* 4: Ctrl-D */
        return MKT_TOP_QUIT;
    return got == 1 && key == ' ' ? MKT_TOP_TIME : MKT_TOP_RESIZE;
}

enum mkt_top_event mkt_top_screen_wait(uint64_t until_ns)
{
    for (;;) {
        struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
        uint64_t now = mkt_now_ns(), left_ns = until_ns > now ? until_ns - now : 0;
        const struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000),
                                      .tv_nsec = (long)(left_ns % 1000000000)};
        if (left_ns == 0)
            return MKT_TOP_TIME;
        int ready = ppoll(&keys, has_keys ? 1 : 0, &left, &waiting_mask);
        if (has_changed) {
            has_changed = false;
            return MKT_TOP_RESIZE;
        }
        if (ready > 0)
            return read_key();
    }
}
