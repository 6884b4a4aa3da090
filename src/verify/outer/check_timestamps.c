/* Time stamps: the bundle existed when an authority signed its digest. Without --tsa-ca that is the authority's word,
 * unchecked. */
#include "base/clock.h"
#include "sign/timestamp.h"
#include "verify/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS 1000000000ll

static int count_members(const struct rp_verify_state *s)
{
    int n = 0;
    for (int i = 0; i < s->bundle.n; i++)
        n += strncmp(s->bundle.member[i].name, RP_TIMESTAMP_FOLDER, strlen(RP_TIMESTAMP_FOLDER)) == 0;
    return n;
}

/* When the bundle existed at the latest, as far as the authority's clock is right. Most authorities cut the fraction of
 * a second off: a time that is too early would make the run faster than it was. */
static int64_t not_after(const struct rp_timestamp *t)
{
    return t->time_ns + t->unit_ns + (t->accuracy_ns > 0 ? t->accuracy_ns : 0);
}

static void describe_timestamp(struct rp_timestamped_answer *row, const struct rp_timestamp *t)
{
    char text[32];
    rp_rfc3339(text, (uint64_t)t->time_ns);
    row->time = rp_strdup(text);
    rp_rfc3339(text, (uint64_t)(not_after(t) + SECOND_NS - 1)); /* whole seconds, never earlier */
    row->not_after = rp_strdup(text);
    row->accuracy_s = t->accuracy_ns < 0 ? NAN : (double)t->accuracy_ns / 1e9;
    row->authority = rp_strdup(t->authority);
    row->serial = rp_strdup(t->serial);
    row->policy = rp_strdup(t->policy);
    row->hash = rp_strdup(t->hash);
}

/* What the tokens of a bundle come to. */
struct stamp_tally {
    int checked;          /* by an authority of --tsa-ca */
    int failed;           /* damaged, or about something else */
    struct rp_err broken; /* the first of these */
    struct rp_err alien;  /* of the first that is by another authority */
    int adds;             /* the accuracy of a token, to its time in first_ns */
    int64_t first_ns;     /* earliest time among those that count: checked ones with --tsa-ca, else all */
};

/* 0: the token holds together; it is checked if its authority is one of --tsa-ca. */
static int open_token(struct rp_verify_state *s, const struct rp_member *m, struct rp_timestamped_answer *row,
                      struct stamp_tally *t, struct rp_err *err)
{
    const struct rp_buf *statement = &rp_bundle_find(&s->bundle, "statement.dsse.json")->bytes;
    struct rp_timestamp token;
    struct rp_err why = {0};
    if (rp_timestamp_read(&token, rp_buf_text(&m->bytes), m->bytes.size, statement, err) < 0)
        return rp_wrap(err, "%s", m->name);
    row->checked =
        s->o->tsa_ca && rp_timestamp_check(&token, rp_buf_text(&m->bytes), m->bytes.size, s->o->tsa_ca, &why) == 0;
    row->why = *why.msg ? rp_strdup(why.msg) : NULL;
    describe_timestamp(row, &token);
    if (row->checked) {
        t->checked++;
    } else if (s->o->tsa_ca && t->alien.code == RP_OK) {
        t->alien = why;
        rp_wrap(&t->alien, "%s", m->name);
    }
    if ((row->checked || !s->o->tsa_ca) && (!t->first_ns || not_after(&token) < t->first_ns)) {
        t->first_ns = not_after(&token);
        t->adds = token.accuracy_ns > 0;
    }
    return 0;
}

static void open_tokens(struct rp_verify_state *s, int n, struct stamp_tally *t)
{
    for (int i = 0; i < n; i++) {
        char name[64];
        struct rp_err why = {0};
        const struct rp_member *m = rp_bundle_find(&s->bundle, RP_FORMAT(name, RP_TIMESTAMP_FOLDER "%d.tsr", i));
        struct rp_timestamped_list *all = s->v->timestamps;
        struct rp_timestamped_answer *row = rp_object_add(&all->row, &all->row_n, &rp_type_timestamped_answer);
        row->number = i;
        row->valid =
            m ? open_token(s, m, row, t, &why) == 0 : rp_fail(&why, RP_MALFORMED, "missing member %s", name) == 0;
        if (row->valid)
            continue;
        row->why = rp_strdup(why.msg);
        if (!t->failed++)
            t->broken = why;
    }
}

int rp_check_timestamps(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int n = count_members(s);
    struct stamp_tally t = {0};
    char when[32];
    if (n == 0)
        return rp_check_not_applicable(result, "%s", s->o->tsa_ca ? "none: --tsa-ca had nothing to check"
                                                                  : "none; 'repro timestamp' adds them");
    if (n > RP_TIMESTAMP_MAX)
        return rp_fail(err, RP_MALFORMED, "%d time stamps; at most %d are accepted", n, RP_TIMESTAMP_MAX);
    s->v->timestamps = rp_alloc(sizeof *s->v->timestamps);
    open_tokens(s, n, &t);
    if (t.failed || (s->o->tsa_ca && !t.checked)) {
        *err = t.failed ? t.broken : t.alien;
        return -1;
    }
    rp_rfc3339(when, (uint64_t)(t.first_ns + SECOND_NS - 1));
    const char *more = t.adds ? " (its time plus its accuracy)" : "";
    if (!s->o->tsa_ca)
        return rp_check_note(result, "it existed by %s%s by an authority's word, not checked: --tsa-ca FILE", when,
                             more);
    s->v->stamped_ns = t.first_ns;
    if (t.checked < n)
        return rp_check_note(result, "it existed by %s%s; %d of %d by an authority of --tsa-ca; %.200s", when, more,
                             t.checked, n, t.alien.msg);
    return rp_check_text(result, "it existed by %s%s, by an authority of --tsa-ca", when, more);
}
