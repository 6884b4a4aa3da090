/* The place of a run in a ledger, and what else was tried with its recipe. */
#include "base/text.h"
#include "ledger/ledger.h"
#include "run/facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One run of the recipe: the line that started it, and how it ended. */
struct attempt {
    int64_t n;
    const char *end; /* static name of an event, NULL: none is recorded */
};

struct find_search {
    int64_t position;
    const char *head, *at, *recipe;
    struct rp_ledger_standing *place;
    struct attempt *attempt; /* in the order of the ledger */
    int64_t n;
    int64_t during; /* starts after it, so far */
    int found;
};

static int note_start(struct find_search *s, const struct rp_ledger_line *line, struct rp_err *err)
{
    const int same = strcmp(line->recipe, s->recipe) == 0;
    s->found |= line->n == s->position;
    if (line->n == s->position && !same)
        return rp_fail(err, RP_MISMATCH, "it started another recipe, %.16s..., than the run that names it, %.16s...",
                       line->recipe, s->recipe);
    if (same) {
        if (s->n == 0 || (s->n >= 16 && (s->n & (s->n - 1)) == 0))
            s->attempt = rp_realloc(s->attempt, (size_t)(s->n ? 2 * s->n : 16) * sizeof *s->attempt);
        s->attempt[s->n++] = (struct attempt){.n = line->n};
    }
    return 0;
}

static int by_line(const void *a, const void *b)
{
    const struct attempt *x = a, *y = b;
    return (x->n > y->n) - (x->n < y->n);
}

static void note_end(struct find_search *s, const struct rp_ledger_line *line)
{
    const char *end = rp_ledger_end(line->event);
    const struct attempt key = {.n = line->run};
    struct attempt *of = end && s->n ? bsearch(&key, s->attempt, (size_t)s->n, sizeof *of, by_line) : NULL;
    if (!of)
        return;
    of->end = end;
    if (line->run != s->position)
        return;
    snprintf(s->place->end, sizeof s->place->end, "%s", end);
    snprintf(s->place->statement, sizeof s->place->statement, "%s", line->bundle ? line->bundle->statement : "");
}

/* Runs of any recipe at the same time. How long one without an end went on is unknown. */
static void note_overlap(struct find_search *s, const struct rp_ledger_line *line, int start)
{
    if (line->n <= s->position)
        return;
    if (start)
        s->during++;
    if (!rp_ledger_end(line->event))
        return;
    s->place->before += line->run < s->position;
    if (line->run == s->position)
        s->place->during = s->during;
}

static int note_line(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct find_search *s = arg;
    const int start = strcmp(line->event, rp_ledger_event_name(RP_LEDGER_STARTED)) == 0;
    (void)json;
    if (line->n == s->position && (!start || strcmp(line->sha256, s->head) != 0))
        return rp_fail(err, RP_MISMATCH,
                       "it is not the line that the run cites, %.16s...: this is another ledger, or it was rewritten",
                       s->head);
    if (line->n == s->position && s->at && !rp_same_text(line->at, s->at))
        return rp_fail(err, RP_MISMATCH, "it is of %s, and the run records %s", line->at ? line->at : "no time", s->at);
    if (line->n == s->position)
        s->place->is_unsigned = !line->signature;
    note_overlap(s, line, start);
    if (start)
        return note_start(s, line, err);
    note_end(s, line);
    return 0;
}

static void count_attempts(const struct find_search *s)
{
    struct rp_ledger_standing *p = s->place;
    for (int64_t i = 0; i < s->n; i++) {
        const struct attempt *a = &s->attempt[i];
        p->later += a->n > s->position;
        if (a->n >= s->position)
            continue;
        p->earlier++;
        if (!a->end)
            p->open++;
        else if (strcmp(a->end, rp_ledger_event_name(RP_LEDGER_SEALED)) == 0)
            p->sealed++;
        else if (strcmp(a->end, rp_ledger_event_name(RP_LEDGER_FAILED)) == 0)
            p->failed++;
        else
            p->interrupted++;
    }
}

/* The ledger as a whole is that of the run. */
static int check_summary(const char *path, const struct rp_ledger_summary *sum, const struct rp_ledger_facts *is,
                         const char *signer, struct rp_err *err)
{
    if (*sum->key && strcmp(sum->key, signer) != 0)
        return rp_fail(err, RP_MISMATCH, "ledger '%s' is of another key, %.23s..., than the bundle, %.23s...", path,
                       sum->key, signer);
    if (is->begun && strcmp(is->begun, sum->begun) != 0)
        return rp_fail(err, RP_MISMATCH, "the run records a ledger that begins at %s, ledger '%s' begins at %s",
                       is->begun, path, sum->begun);
    if (is->key_made && strcmp(is->key_made, sum->made) != 0)
        return rp_fail(err, RP_MISMATCH, "the run records a key made at %s, ledger '%s' one made at %s", is->key_made,
                       path, *sum->made ? sum->made : "an unknown time");
    if (is->key_made_known_from && strcmp(is->key_made_known_from, sum->by_file ? "file" : "creation") != 0)
        return rp_fail(err, RP_MISMATCH, "the run knows when its key was made from its %s, ledger '%s' from its %s",
                       is->key_made_known_from, path, sum->by_file ? "file" : "creation");
    return 0;
}

int rp_ledger_find(const char *path, const struct rp_facts *facts, const char *recipe, const char *signer,
                   struct rp_ledger_standing *place, struct rp_err *err)
{
    struct rp_ledger_summary sum;
    const struct rp_ledger_facts *is = &facts->ledger;
    struct find_search s = {.position = is->position, .head = is->head, .at = is->at, .recipe = recipe, .place = place};
    *place = (struct rp_ledger_standing){.position = is->position};
    if (is->position < 1)
        return rp_fail(err, RP_MISMATCH, "the run cites no position in a ledger: %s", is->reason ? is->reason : "");
    int failed = rp_ledger_read(path, note_line, &s, &sum, err) < 0;
    place->lines = sum.lines;
    if (!failed && !s.found)
        failed = rp_fail(err, RP_MISMATCH,
                         "the run is not in ledger '%s', which has %" PRId64 " line%s; line %" PRId64
                         " started it: another ledger, one exported before this run, or one that was cut",
                         path, sum.lines, rp_s(sum.lines), is->position) < 0;
    failed = failed || check_summary(path, &sum, is, signer, err) < 0;
    if (!failed)
        count_attempts(&s);
    const int64_t earlier = is->earlier > 0 ? is->earlier : 0;
    if (!failed && place->earlier != earlier)
        failed = rp_fail(err, RP_MISMATCH,
                         "the run records %" PRId64 " earlier runs of its recipe, ledger '%s' has %" PRId64, earlier,
                         path, place->earlier) < 0;
    free(s.attempt);
    return failed ? -1 : 0;
}
