/* What was verified here before, against a bundle: a ledger that only grows has one line at each position, and later lines at later
 * times. */
#include "base/json.h"
#include "ledger/ledger.h"
#include "run/facts.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_S 300 /* what a clock may have been set back between two runs */

struct search {
    const char *signer, *head, *statement;
    int64_t position, at;
    struct rp_ledger_conflict *found;
};

/* Seconds of the exact form of rp_rfc3339(); -1: not of that form. */
static int64_t seconds_of(const char *text)
{
    struct tm t = {0};
    const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t);
    return end && !*end ? (int64_t)timegm(&t) : -1;
}

static int contradicts(const struct search *s, const json_t *is, const char *statement)
{
    int64_t position = json_integer_value(json_object_get(is, "position"));
    int64_t at = seconds_of(rp_json_text_at(is, "at"));
    if (position == s->position)
        return strcmp(rp_json_text_at(is, "head"), s->head) != 0 || strcmp(statement, s->statement) != 0;
    if (at < 0 || s->at < 0)
        return 0;
    return position < s->position ? at > s->at + CLOCK_S : at < s->at - CLOCK_S;
}

static int compare_line(void *arg, const json_t *line, struct rp_err *err)
{
    const struct search *s = arg;
    const json_t *is = json_object_get(line, "ledger");
    const char *statement = rp_json_text_at(line, "bundle/statement");
    (void)err;
    if (!is || strcmp(rp_json_text_at(line, "signer"), s->signer) != 0 || !contradicts(s, is, statement))
        return 0;
    s->found->position = json_integer_value(json_object_get(is, "position"));
    RP_FORMAT(s->found->head, "%s", rp_json_text_at(is, "head"));
    RP_FORMAT(s->found->statement, "%s", statement);
    RP_FORMAT(s->found->at, "%s", rp_json_text_at(line, "at"));
    return 0;
}

int rp_ledger_seen(const char *path, const char *signer, const struct rp_facts *facts, const char *statement,
                   struct rp_ledger_conflict *found, struct rp_err *err)
{
    struct rp_ledger_summary ignored;
    const struct rp_ledger_facts *is = &facts->ledger;
    struct search s = {.signer = signer,
                       .head = is->head,
                       .statement = statement,
                       .position = is->position,
                       .at = is->at ? seconds_of(is->at) : -1,
                       .found = found};
    *found = (struct rp_ledger_conflict){0};
    if (s.position < 1 || (access(path, F_OK) < 0 && errno == ENOENT))
        return 0;
    return rp_ledger_read(path, compare_line, &s, &ignored, err);
}

json_t *rp_ledger_claim(const struct rp_facts *facts)
{
    const struct rp_ledger_facts *is = facts ? &facts->ledger : NULL;
    if (!is || !*is->head)
        return NULL;
    return json_pack("{s:I, s:s, s:s*}", "position", (json_int_t)is->position, "head", is->head, "at", is->at);
}
