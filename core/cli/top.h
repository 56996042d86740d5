/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `h5market top` in three parts: top.c asks the daemon at intervals, top_view.c makes text or JSON
 * of two answers, top_screen.c is the terminal that the text goes to. One thread.
 */
#ifndef MKT_CLI_TOP_H
#define MKT_CLI_TOP_H

#include "core/cli/cli.h"

/* What the daemon said at one time. Starts as zeros. */
struct mkt_top_sample {
    json_t *status, *list; /* NULL: nothing yet */
    uint64_t time_ns;
};

/* ---- top_view.c ---- */
struct mkt_top_view {
    unsigned width, height; /* of the text, in characters and lines; 0: as much as there is */
    unsigned files;         /* at most so many */
    double interval_s;      /* from one look to the next, for the heading; 0: it isn't named */
};
/* `before` may be empty: then there are no rates. */
void mkt_top_print(FILE *out, const struct mkt_top_sample *before, const struct mkt_top_sample *now,
                   const struct mkt_top_view *view);
/* {"interval_s","rates":{...},"market":STATUS,"objects":[...]}, the caller's to json_decref. */
json_t *mkt_top_json(const struct mkt_top_sample *before, const struct mkt_top_sample *now,
                     unsigned files);

/* ---- top_screen.c ---- */
/* True if standard output is a terminal that can be drawn on. */
bool mkt_top_screen_is_there(void);
/* Takes the terminal: a screen of its own, keys without echo. However the program ends then
 * (Ctrl-C, other signals, exit), and while it is stopped (Ctrl-Z), it is as it was before. */
void mkt_top_screen_enter(void);
void mkt_top_screen_leave(void);
void mkt_top_screen_size(unsigned *width_out, unsigned *height_out);
/* Replaces what is shown: lines are cut at the right, the text at the bottom. */
void mkt_top_screen_draw(const char *text);

enum mkt_top_event {
    MKT_TOP_TIME,   /* the time is up, or the space bar asked to look at once */
    MKT_TOP_RESIZE, /* what is shown is to be drawn again */
    MKT_TOP_QUIT
};
/* Waits until mkt_now_ns() is `until_ns`, or something happens. */
enum mkt_top_event mkt_top_screen_wait(uint64_t until_ns);

#endif
