/* The run's entry in its signer's ledger of attempts. */
#include "ledger/ledger.h"
#include "verify/state.h"

#include <inttypes.h>
#include <string.h>

static int look_up_run(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_ledger_standing p;
    if (rp_ledger_find(s->o->ledger, s->run, &p, err) < 0)
        return -1;
    if (*p.statement && strcmp(p.statement, s->v->statement) != 0)
        return rp_fail(err, RP_MISMATCH, "ledger '%s': the run started by line %" PRId64 " ended in another bundle, %.16s...",
                       s->o->ledger, p.position, p.statement);
    int complete = strcmp(json_string_value(json_object_get(s->run, "status")), "complete") == 0;
    if (complete && *p.end && strcmp(p.end, rp_ledger_event_name(RP_LEDGER_SEALED)) != 0)
        return rp_fail(err, RP_MISMATCH, "ledger '%s': the run started by line %" PRId64 " ended as '%s', but this bundle is complete",
                       s->o->ledger, p.position, p.end);
    s->v->ledger = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "position", (json_int_t)p.position, "lines",
                             (json_int_t)p.lines, "attempt", (json_int_t)p.earlier + 1, "attempts", (json_int_t)(p.earlier + 1 + p.later),
                             "sealed", (json_int_t)p.sealed, "failed", (json_int_t)p.failed, "interrupted", (json_int_t)p.interrupted,
                             "open", (json_int_t)p.open, "later", (json_int_t)p.later, "recorded", *p.statement != 0);
    if (!*p.statement)
        result->state = RP_CHECK_NOTE;
    rp_check_text(result,
                 "line %" PRId64 " of %" PRId64 "; runs of this recipe before it: %" PRId64 " (%" PRId64 " sealed, %" PRId64 " failed, "
                 "%" PRId64 " interrupted, %" PRId64 " without an end); after it: %" PRId64 "%s",
                 p.position, p.lines, p.earlier, p.sealed, p.failed, p.interrupted, p.open, p.later,
                 *p.statement ? "" : "; its end in this bundle is not recorded");
    return 0;
}

int rp_check_ledger(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const json_t *is = json_object_get(s->run, "ledger"), *reason = json_object_get(is, "reason");
    int64_t position = json_integer_value(json_object_get(is, "position")), earlier = json_integer_value(json_object_get(is, "earlier"));
    if (s->o->ledger && !reason)
        return look_up_run(s, result, err);
    if (!reason && earlier >= position)
        return rp_fail(err, RP_MISMATCH, "line %" PRId64 " of a ledger cannot have %" PRId64 " runs before it", position, earlier);
    const char *cannot = s->o->ledger ? "; there is no entry to look up in --ledger" : "";
    if (!reason)
        return rp_check_text(result, "line %" PRId64 " of the signer's ledger; earlier runs of this recipe according to the signer: %"
                                     PRId64 " (--ledger FILE looks it up)", position, earlier);
    return rp_check_note(result, "in no ledger: %.300s%s", json_string_value(reason), cannot);
}
