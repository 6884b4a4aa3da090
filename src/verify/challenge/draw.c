/* Which parts of a run are drawn, and how likely they miss what was skipped. */
#include "verify/challenge/draw.h"

#include "base/buf.h"
#include "base/clock.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

/* All parts in order. Returns how many there are; *out: the caller frees it. */
static int64_t list_parts(struct rp_part **out, const struct rp_records *rs)
{
    struct rp_part *part = rp_alloc((size_t)(rs->n + 1) * sizeof *part);
    char root[RP_SHA256_HEX];
    int64_t from = 0, n = 0;
    for (int64_t i = 0; i < rs->n; i++) {
        rp_record_root(root, rs, &rs->r[i]);
        if (rs->r[i].step < 0 || !*root)
            continue;
        part[n++] = (struct rp_part){from, rs->r[i].step + 1 - from};
        from = rs->r[i].step + 1;
    }
    *out = part;
    return n;
}

static int by_first(const void *a, const void *b)
{
    const struct rp_part *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_steps(const void *a, const void *b)
{
    const struct rp_part *x = a, *y = b;
    return (x->steps < y->steps) - (x->steps > y->steps);
}

/* The fewest parts that have half of all steps; part: longest first. */
static int64_t half_of(const struct rp_part *part, int64_t parts)
{
    int64_t all = 0, have = 0, n = 0;
    for (int64_t i = 0; i < parts; i++)
        all += part[i].steps;
    while (2 * have < all)
        have += part[n++].steps;
    return n;
}

/* None of `draws` different parts is one of the `skipped`. */
static double miss_probability(int64_t parts, int64_t skipped, int draws)
{
    double p = 1;
    for (int i = 0; i < draws && p > 0; i++)
        p *= parts - skipped > i ? (double)(parts - skipped - i) / (double)(parts - i) : 0;
    return p;
}

const char *rp_draw_early(const struct rp_challenge *c, int64_t came_ns)
{
    return (int64_t)c->made_ns < came_ns ? "its challenge was made before the bundle came, or in the same second"
                                         : NULL;
}

const char *rp_draw_weakness(const struct rp_challenge *c, const struct rp_facts *run, const char *signer)
{
    const struct rp_challenge_facts *answered = run->challenge;
    if (strcmp(c->by, signer) == 0)
        return "its challenge is by the signer's own key or one that countersigned";
    if (answered && strcmp(c->sha256, answered->sha256) == 0)
        return "it is the challenge that the run answers";
    return rp_draw_early(c, (rp_rfc3339_seconds(run->ended_at) + 1) * 1000000000);
}

int rp_draw_parts(struct rp_draw *out, const struct rp_records *records, const struct rp_challenge *c,
                  const char *statement, int draws, struct rp_err *err)
{
    struct rp_part *part;
    *out = (struct rp_draw){.parts = list_parts(&part, records)};
    if (!out->parts) {
        free(part);
        return rp_fail(err, RP_UNAVAILABLE, "no part can be drawn: the run has no state root after a step");
    }
    out->part = part;
    out->n = draws < out->parts ? draws : (int)out->parts;
    qsort(part, (size_t)out->parts, sizeof *part, by_steps);
    out->undetected = miss_probability(out->parts, half_of(part, out->parts), out->n);
    qsort(part, (size_t)out->parts, sizeof *part, by_first);
    for (int i = 0; i < out->n; i++) { /* the drawn one changes places with the first that is left */
        const int64_t at = i + (int64_t)rp_challenge_draw(c, statement, i, (uint64_t)(out->parts - i));
        const struct rp_part drawn = part[at];
        part[at] = part[i];
        part[i] = drawn;
        out->steps += drawn.steps;
    }
    qsort(part, (size_t)out->n, sizeof *part, by_first);
    return 0;
}

json_t *rp_draw_list(const struct rp_draw *d)
{
    json_t *list = json_array();
    for (int i = 0; i < d->n; i++)
        json_array_append_new(
            list, json_pack("{s:I, s:I}", "from", (json_int_t)d->part[i].first, "steps", (json_int_t)d->part[i].steps));
    return list;
}

void rp_draw_fini(struct rp_draw *d)
{
    free(d->part);
    *d = (struct rp_draw){0};
}
