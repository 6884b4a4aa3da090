/* Lines that training programs print for people, one for every step or every few: `iter 10: loss 3.2, time 893.76ms`.
 *
 * What:    the steps of such lines, whatever stands before them; lines that are cut off or written into each other; a
 *          second run in a log.
 * Flow:    line -> rp_printed_next() for each step in it -> rp_printed_real/before() -> rp_printed_step();
 *          rp_printed_end() before the figures, rp_printed_notes() after them.
 * Owner:   struct rp_printed owns nothing.
 * Extend:  another program is an importer with its mark and what follows the number of the step.
 */
#pragma once

#include "import/import.h"

struct rp_printed {
    int64_t damaged, first_damaged; /* steps without the end of their line */
    int64_t second;                 /* line of a second run, which does not count; 0: none */
    int64_t stamped_line;
    double stamp;                   /* last time before a step */
    double between, durations;      /* seconds between those of steps that count, and what these steps took */
};

struct rp_printed_part {
    char *text; /* what follows the number, up to the next step of the same line */
    char *begin, *next;
    int64_t step;
    char kept;
};

/* The next step of a line: `mark`, a number, and what `follows` accepts: its end or NULL. p is zeroed before the
 * first. */
int rp_printed_next(struct rp_printed_part *p, char *line, const char *mark, const char *(*follows)(const char *p));
/* The number between two texts; NaN where it is not there. */
double rp_printed_real(const char *text, const char *before, const char *after);
int64_t rp_printed_whole(const char *text, const char *before, const char *after); /* -1: not there */
/* The number before `unit`, which stands once; NaN where it does not. */
double rp_printed_before(const char *text, const char *unit);

void rp_printed_damaged(struct rp_printed *p, const struct rp_import_source *s);
void rp_printed_header(struct rp_printed *p, struct rp_import_source *s); /* a run begins here */
/* stamp: the program's own time of the line, NaN: none. *counts: whether the step lies in the window. */
int rp_printed_step(struct rp_printed *p, struct rp_import_source *s, const struct rp_step *step, double stamp,
                    int *counts, struct rp_err *err) rp_must_check;
/* Tokens of a step, and the line that says so; 0: unknown. RP_MALFORMED: no whole number of sequences. */
int rp_printed_tokens(struct rp_import_source *s, int64_t tokens, int64_t line, struct rp_err *err) rp_must_check;
int rp_printed_end(const struct rp_printed *p, const struct rp_import_source *s, struct rp_err *err) rp_must_check;
void rp_printed_notes(const struct rp_printed *p, struct rp_imported *d);
