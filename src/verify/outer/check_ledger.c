/* The run's entry in its signer's ledger of attempts. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "ledger/ledger.h"
#include "verify/state.h"

#include <inttypes.h>
#include <string.h>

/* What a reader has to know of a run's place besides its number; appended to the text, and a note where there is
 * anything. */
static void add_remarks(const struct rp_verify_state *s, const struct rp_ledger_standing *p, struct rp_buf *out)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const char *by_file =
        is->key_made_known_from && strcmp(is->key_made_known_from, "file") == 0 ? ", time of its file" : "";
    int64_t gap = rp_facts_ledger_gap(s->run.facts), others = is->overlapping;
    if (p && p->before > others)
        others = p->before;
    if (is->position == 1) {
        rp_buf_puts(out, "; the ledger begins with this run: runs before it are not recorded");
        if (is->key_made)
            rp_buf_printf(out, " (key made %s%s)", is->key_made, by_file);
    } else if (!is->key_made)
        rp_buf_puts(out, "; it is unknown when its key was made: runs before the ledger began are not recorded");
    else if (gap)
        rp_buf_printf(out,
                      "; the ledger begins %" PRId64
                      " day%s after its key was made (%s%s): runs of that time are not recorded",
                      gap, rp_s(gap), is->key_made, by_file);
    else if (rp_rfc3339_seconds(is->key_made) > rp_rfc3339_seconds(is->begun) + RP_LEDGER_CLOCK_S)
        rp_buf_printf(out, "; the ledger began before its key was made (%s%s)", is->key_made, by_file);
    if (others > 0)
        rp_buf_printf(out, "; %" PRId64 " other %s in progress when it began: the machine may have been shared", others,
                      others == 1 ? "run of this ledger was" : "runs of this ledger were");
    if (p && p->during)
        rp_buf_printf(out, "; %" PRId64 " began before it ended", p->during);
    if (p && p->is_unsigned)
        rp_buf_puts(out, "; its line is not signed, as by older versions");
}

/* The first line is the ledger's beginning, later lines and runs come after it, and a key is there before what it
 * signs. A clock that was set back does not make an honest run fail. */
static void check_times(const struct rp_verify_state *s, struct rp_check_result *result)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const struct {
        const char *earlier, *what;
    } times[] = {{is->begun, "the ledger began"}, {is->key_made, "its key was made"}};
    const int64_t at = rp_rfc3339_seconds(is->at);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i].earlier && rp_rfc3339_seconds(times[i].earlier) > at + RP_LEDGER_CLOCK_S) {
            rp_check_warn(result,
                          "line %" PRId64
                          " is of %s, but %s at %s: forked or restarted ledger, or a clock that was set back",
                          is->position, is->at, times[i].what, times[i].earlier);
            return;
        }
}

static void set_text(const struct rp_verify_state *s, const struct rp_ledger_standing *p,
                     struct rp_check_result *result, const char *place)
{
    RP_BUF remarks = {0};
    add_remarks(s, p, &remarks);
    if (remarks.size)
        result->state = RP_CHECK_NOTE;
    rp_check_text(result, "%s%s%s", place, rp_buf_text(&remarks),
                  s->run.facts->ledger.container_layer
                      ? "; the ledger lies on the layer of a container and is lost with it"
                      : "");
}

/* Adds to the text of a check that holds, which becomes a note. */
static void add_note(struct rp_check_result *result, const char *remark)
{
    char had[sizeof result->text];
    memcpy(had, result->text, sizeof had);
    if (result->state == RP_CHECK_PASSED)
        result->state = RP_CHECK_NOTE;
    rp_check_text(result, "%.400s; %.280s", had, remark);
}

static void warn_of_conflict(struct rp_verify_state *s, struct rp_check_result *result,
                             const struct rp_ledger_conflict *c)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const char *const statement = s->v->statement;
    RP_FREE char *why = NULL;
    const int both = is->position > 0 && c->position > 0;
    switch (c->kind) {
    case RP_LEDGER_AGREES:
        return;
    case RP_LEDGER_LEFT:
        rp_check_warn(result,
                      "in no ledger (%.200s), but its key has one: bundle %.16s... of this key, verified here at %s, "
                      "cites line %" PRId64 " (%.16s...)",
                      is->reason, c->statement, c->at, c->position, c->head);
        break;
    case RP_LEDGER_AFTER:
        rp_check_warn(result,
                      "the ledger began at %s, after bundle %.16s... of this key was verified here at %s: that run is "
                      "in no ledger",
                      is->begun, c->statement, c->at);
        break;
    case RP_LEDGER_MISSING:
        why = rp_asprintf(", which is not in '%s'", s->o->ledger);
        break;
    case RP_LEDGER_BEGUN:
        why = rp_asprintf(" of a ledger begun %s, and this one began %s", c->begun, is->begun);
        break;
    case RP_LEDGER_ORDER:
        why = rp_strdup(", though their order in time is the other way round");
        break;
    case RP_LEDGER_LINE:
        why = rp_strdup(strcmp(c->head, is->head) == 0 ? ", and one line starts one run" : "");
        break;
    }
    s->v->forked =
        json_pack("{s:[o,o], s:[o,o], s:[s,s], s:s}", "positions", both ? json_integer(is->position) : json_null(),
                  both ? json_integer(c->position) : json_null(), "heads", both ? json_string(is->head) : json_null(),
                  both ? json_string(c->head) : json_null(), "statements", statement, c->statement, "seen_at", c->at);
    if (why)
        rp_check_warn(result,
                      "forked or restarted ledger, or one key on two machines: bundle %.16s... cites line %" PRId64
                      " (%.16s...); "
                      "bundle %.16s... of this key, verified here at %s, line %" PRId64 " (%.16s...)%s",
                      statement, is->position, is->head, c->statement, c->at, c->position, c->head, why);
}

/* Bundles of this key that were verified here: one ledger has their lines and the line of this one. */
static void compare_with_seen(struct rp_verify_state *s, struct rp_check_result *result)
{
    struct rp_ledger_conflict c;
    struct rp_err err = {0};
    const char *file = s->run.facts->ledger.position > 0 ? s->o->ledger : NULL;
    if (!s->o->seen)
        return;
    if (rp_ledger_seen(s->o->seen, file, s->v->fingerprint, s->run.facts, s->v->statement, &c, &err) < 0) {
        RP_FREE char *remark = rp_asprintf("not compared with earlier verifications: %s", err.msg);
        add_note(result, remark);
        return;
    }
    if (c.beyond) {
        RP_FREE char *remark = rp_asprintf(
            "%" PRId64 " later line%s, cited by bundles of this key that were verified here, %s not in this file",
            c.beyond, rp_s(c.beyond), c.beyond == 1 ? "is" : "are");
        add_note(result, remark);
    }
    warn_of_conflict(s, result, &c);
}

static int look_up_run(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_ledger_standing p;
    if (rp_ledger_find(s->o->ledger, s->run.facts, s->run.figures->recipe_sha256, s->v->fingerprint, &p, err) < 0)
        return -1;
    if (*p.statement && strcmp(p.statement, s->v->statement) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "ledger '%s': the run started by line %" PRId64 " ended in another bundle, %.16s...",
                       s->o->ledger, p.position, p.statement);
    if (rp_facts_complete(s->run.facts) && *p.end && strcmp(p.end, rp_ledger_event_name(RP_LEDGER_SEALED)) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "ledger '%s': the run started by line %" PRId64 " ended as '%s', but this bundle is complete",
                       s->o->ledger, p.position, p.end);
    s->v->ledger = rp_alloc(sizeof *s->v->ledger);
    *s->v->ledger = (struct rp_attempts_answer){.position = p.position,
                                                .lines = p.lines,
                                                .attempt = p.earlier + 1,
                                                .attempts = p.earlier + 1 + p.later,
                                                .sealed = p.sealed,
                                                .failed = p.failed,
                                                .interrupted = p.interrupted,
                                                .open = p.open,
                                                .later = p.later,
                                                .recorded = *p.statement != 0};
    if (!*p.statement)
        result->state = RP_CHECK_NOTE;
    const char *begun = s->run.facts->ledger.begun;
    RP_FREE char *place = rp_asprintf(
        "line %" PRId64 " of %" PRId64 "%s%s; %s before it: %" PRId64 " (%" PRId64 " sealed, "
        "%" PRId64 " failed, %" PRId64 " interrupted, %" PRId64 " without an end); after it: %" PRId64 "%s",
        p.position, p.lines, begun ? ", begun " : "", begun ? begun : "",
        s->run.doc->command ? "attempts at this command" : "runs of this recipe", p.earlier, p.sealed, p.failed,
        p.interrupted, p.open, p.later, *p.statement ? "" : "; its end in this bundle is not recorded");
    set_text(s, &p, result, place);
    return 0;
}

static int find_place(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    if (s->o->ledger)
        return look_up_run(s, result, err);
    if (is->earlier >= is->position)
        return rp_fail(err, RP_MISMATCH, "line %" PRId64 " of a ledger cannot have %" PRId64 " runs before it",
                       is->position, is->earlier);
    RP_FREE char *place = rp_asprintf("line %" PRId64 " of the signer's ledger%s%s; the signer reports %" PRId64
                                      " earlier %s%s %s (check with --ledger FILE)",
                                      is->position, is->begun ? ", begun " : "", is->begun ? is->begun : "",
                                      is->earlier, s->run.doc->command ? "attempt" : "run", rp_s(is->earlier),
                                      s->run.doc->command ? "at this command" : "of this recipe");
    set_text(s, NULL, result, place);
    return 0;
}

/* No month has a day 32. */
static int check_dates(const struct rp_ledger_facts *is, struct rp_err *err)
{
    const char *const dates[][2] = {{"at", is->at}, {"begun", is->begun}, {"key_made", is->key_made}};
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
        if (dates[i][1] && rp_rfc3339_seconds(dates[i][1]) < 0)
            return rp_fail(err, RP_MISMATCH, "facts.json: ledger/%s is %.20s, a date that does not exist", dates[i][0],
                           dates[i][1]);
    return 0;
}

int rp_check_ledger(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_ledger_facts *is = &s->run.facts->ledger;
    const int entry = is->position > 0 && *is->head && is->earlier >= 0 && is->at && is->begun &&
                      !is->key_made == !is->key_made_known_from && (is->position > 1 || strcmp(is->at, is->begun) == 0);
    const int empty = is->position == RP_NO_INTEGER && !*is->head && is->earlier == RP_NO_INTEGER && !is->at &&
                      !is->begun && !is->key_made && !is->key_made_known_from && is->overlapping == RP_NO_INTEGER &&
                      !is->container_layer;
    if (is->reason ? !empty : !entry)
        return rp_fail(err, RP_MISMATCH, "facts.json: 'ledger' is neither an entry nor the reason why there is none");
    if (check_dates(is, err) < 0)
        return -1;
    if (is->reason)
        rp_check_note(result, "in no ledger: %.300s%s", is->reason,
                      s->o->ledger ? "; there is no entry to look up in --ledger" : "");
    else if (find_place(s, result, err) < 0)
        return -1;
    if (!is->reason)
        check_times(s, result);
    compare_with_seen(s, result);
    return 0;
}
