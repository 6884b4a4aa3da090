/* What was verified here before, against a bundle: a ledger that only grows has one beginning, one line at each
 * position, and later lines at later times. */
#include "base/text.h"
#include "ledger/ledger.h"
#include "run/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What another bundle of the key cites. */
struct seen_line {
    int64_t position; /* 0: it is in no ledger */
    char head[RP_SHA256_HEX], begun[32], at[32];
    char statement[RP_SHA256_HEX], verified[32];
};

struct seen_search {
    const char *signer, *statement;
    const struct rp_ledger_facts *is;
    struct rp_ledger_conflict *found;
    struct seen_line *line; /* of other bundles in a ledger, in the order of positions while a file is read */
    size_t n, next;
};

/* Seconds of the exact form of rp_rfc3339(); -1: not of that form, or NULL. */
static int64_t seconds_of(const char *text)
{
    struct tm t = {0};
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%SZ", &t) : NULL;
    return end && !*end ? (int64_t)timegm(&t) : -1;
}

/* Whether a is later than b by more than a clock is set back; not if one of them is unknown. */
static int is_later(const char *a, const char *b)
{
    int64_t x = seconds_of(a), y = seconds_of(b);
    return x >= 0 && y >= 0 && x > y + RP_LEDGER_CLOCK_S;
}

static enum rp_ledger_conflict_kind compare_lines(const struct seen_search *s, const struct seen_line *other)
{
    const struct rp_ledger_facts *is = s->is;
    const int another = strcmp(other->statement, s->statement) != 0;
    if (is->position < 1)
        return other->position && another ? RP_LEDGER_LEFT : RP_LEDGER_AGREES;
    if (!other->position)
        return another && is_later(is->begun, other->verified) ? RP_LEDGER_AFTER : RP_LEDGER_AGREES;
    if (other->position == is->position)
        return another || strcmp(other->head, is->head) != 0 ? RP_LEDGER_LINE : RP_LEDGER_AGREES;
    if (is->begun && *other->begun && strcmp(is->begun, other->begun) != 0)
        return RP_LEDGER_BEGUN;
    const int before = other->position < is->position;
    return is_later(before ? other->at : is->at, before ? is->at : other->at) ? RP_LEDGER_ORDER : RP_LEDGER_AGREES;
}

static void note_conflict(struct rp_ledger_conflict *found, enum rp_ledger_conflict_kind kind,
                          const struct seen_line *other)
{
    if (kind == RP_LEDGER_AGREES || kind < found->kind)
        return;
    found->kind = kind;
    found->position = other->position;
    RP_FORMAT(found->head, "%s", other->head);
    RP_FORMAT(found->begun, "%s", other->begun);
    RP_FORMAT(found->statement, "%s", other->statement);
    RP_FORMAT(found->at, "%s", other->verified);
}

static int note_verification(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct seen_search *s = arg;
    const struct rp_ledger_claim *is = line->ledger;
    struct seen_line other = {.position = is ? is->position : 0};
    (void)json;
    (void)err;
    if (!rp_same_text(line->signer, s->signer))
        return 0;
    RP_FORMAT(other.head, "%s", is ? is->head : "");
    RP_FORMAT(other.begun, "%s", is && is->begun ? is->begun : "");
    RP_FORMAT(other.at, "%s", is && is->at ? is->at : "");
    RP_FORMAT(other.statement, "%s", line->bundle ? line->bundle->statement : "");
    RP_FORMAT(other.verified, "%s", line->at);
    note_conflict(s->found, compare_lines(s, &other), &other);
    if (other.position < 1)
        return 0;
    if (s->n == 0 || (s->n >= 16 && (s->n & (s->n - 1)) == 0))
        s->line = rp_realloc(s->line, (s->n ? 2 * s->n : 16) * sizeof *s->line);
    s->line[s->n++] = other;
    return 0;
}

static int by_position(const void *a, const void *b)
{
    const struct seen_line *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

static int compare_line_of_file(void *arg, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct seen_search *s = arg;
    (void)json;
    (void)err;
    for (; s->next < s->n && s->line[s->next].position <= line->n; s->next++)
        if (strcmp(s->line[s->next].head, line->sha256) != 0)
            note_conflict(s->found, RP_LEDGER_MISSING, &s->line[s->next]);
    return 0;
}

/* Every line that was cited is in the file. A file that was exported before such a line cannot have it. */
static int compare_with_file(struct seen_search *s, const char *ledger, struct rp_err *err)
{
    struct rp_ledger_summary sum;
    if (s->n)
        qsort(s->line, s->n, sizeof *s->line, by_position);
    if (rp_ledger_read(ledger, compare_line_of_file, s, &sum, err) < 0)
        return -1;
    for (; s->next < s->n; s->next++)
        if (is_later(sum.at, s->line[s->next].at))
            note_conflict(s->found, RP_LEDGER_MISSING, &s->line[s->next]);
        else
            s->found->beyond += s->next == 0 || s->line[s->next - 1].position != s->line[s->next].position;
    return 0;
}

int rp_ledger_seen(const char *path, const char *ledger, const char *signer, const struct rp_facts *facts,
                   const char *statement, struct rp_ledger_conflict *found, struct rp_err *err)
{
    struct rp_ledger_summary ignored;
    struct seen_search s = {.signer = signer, .statement = statement, .is = &facts->ledger, .found = found};
    *found = (struct rp_ledger_conflict){0};
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return 0;
    int failed = rp_ledger_read(path, note_verification, &s, &ignored, err) < 0 ||
                 (ledger && compare_with_file(&s, ledger, err) < 0);
    free(s.line);
    return failed ? -1 : 0;
}

json_t *rp_ledger_claim(const struct rp_facts *facts)
{
    const struct rp_ledger_facts *is = facts ? &facts->ledger : NULL;
    if (!is || !*is->head)
        return NULL;
    return json_pack("{s:I, s:s, s:s*, s:s*}", "position", (json_int_t)is->position, "head", is->head, "at", is->at,
                     "begun", is->begun);
}
