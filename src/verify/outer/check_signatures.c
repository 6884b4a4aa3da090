/* Countersignatures, and whether the trust store of this user has their keys. */
#include "base/json.h"
#include "base/text.h"
#include "sign/countersign.h"
#include "sign/trust.h"
#include "verify/state.h"

#include <stdio.h>
#include <string.h>

static const struct rp_member *member(const struct rp_verify_state *s, int number, const char *ending)
{
    char name[64];
    snprintf(name, sizeof name, RP_COUNTERSIGN_FOLDER "%d.%s", number, ending);
    return rp_bundle_find(&s->bundle, name);
}

/* Checks one pair of members and puts the contents into `row`. */
static int open_countersignature(struct rp_verify_state *s, int number, struct rp_countersigned_answer *row,
                                 struct rp_err *err)
{
    const struct rp_member *envelope = member(s, number, "dsse.json"), *pem = member(s, number, "pem"),
                           *statement = rp_bundle_find(&s->bundle, "statement.dsse.json");
    char print[RP_FINGERPRINT_SIZE];
    RP_BUF again = {0};
    struct rp_countersignature c;
    if (!envelope || !pem)
        return rp_fail(err, RP_MALFORMED, "missing member " RP_COUNTERSIGN_FOLDER "%d.%s", number,
                       envelope ? "pem" : "dsse.json");
    RP_KEY *k = rp_key_load_public(rp_buf_text(&pem->bytes), pem->bytes.size, pem->name, err);
    if (!k)
        return -1;
    rp_key_public_pem(k, &again);
    rp_key_fingerprint(k, print);
    if (!rp_buf_is(&again, pem->bytes.data, pem->bytes.size)) {
        rp_fail(err, RP_MALFORMED, "%s is not one public key in canonical form", pem->name);
        return rp_wrap(err, "%s", envelope->name);
    }
    if (rp_countersign_open(&c, rp_buf_text(&envelope->bytes), envelope->bytes.size, &statement->bytes, k, err) < 0)
        return rp_wrap(err, "%s", envelope->name);
    row->fingerprint = rp_strdup(print);
    row->role = rp_strdup(c.role);
    row->at = rp_strdup(c.at);
    row->program = rp_strdup(c.program);
    row->note = rp_strdup(c.note);
    row->replication = *c.replication ? rp_strdup(c.replication) : NULL;
    return 0;
}

static void add_trust(struct rp_countersigned_answer *row)
{
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    struct rp_err why;
    row->trusted = rp_trust_find(row->fingerprint, name, until, &why) > 0;
    row->name = *name ? rp_strdup(name) : NULL;
    row->until = *until ? rp_strdup(until) : NULL;
}

void rp_countersign_text(struct rp_buf *out, const struct rp_countersigned_answer *row)
{
    if (rp_countersign_says(row))
        rp_buf_printf(out, "countersigned (says to be %s %s) by %s", *row->role == 'a' ? "an" : "a", row->role,
                      row->fingerprint);
    else
        rp_buf_printf(out, "countersigned as %s by %s", row->role, row->fingerprint);
    if (row->replication)
        rp_buf_printf(out, " with the replication whose statement has SHA-256 %s%s", row->replication,
                      rp_countersign_says(row) ? "" : ", of which keyed roots were recomputed here");
}

static int signed_before(const struct rp_countersigned_answer *first, const struct rp_countersigned_answer *row)
{
    for (const struct rp_countersigned_answer *other = first; other < row; other++)
        if (rp_same_text(other->fingerprint, row->fingerprint) && rp_same_text(other->role, row->role))
            return 1;
    return 0;
}

static int count_members(const struct rp_verify_state *s)
{
    int n = 0;
    for (int i = 0; i < s->bundle.n; i++)
        n += strncmp(s->bundle.member[i].name, RP_COUNTERSIGN_FOLDER, strlen(RP_COUNTERSIGN_FOLDER)) == 0;
    return n;
}

int rp_check_countersignatures(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    int members = count_members(s), n = (members + 1) / 2, failed = 0, trusted = 0;
    if (n > RP_COUNTERSIGN_MAX)
        return rp_fail(err, RP_MALFORMED, "%d countersignatures; at most %d are accepted", n, RP_COUNTERSIGN_MAX);
    struct rp_countersigned_list *all = s->v->signatures = rp_alloc(sizeof *all);
    for (int i = 0; i < n; i++) {
        struct rp_err why = {0};
        struct rp_countersigned_answer *row = rp_object_add(&all->row, &all->row_n, &rp_type_countersigned_answer);
        row->number = i;
        int good = open_countersignature(s, i, row, &why) == 0;
        if (good && strcmp(row->fingerprint, s->v->fingerprint) == 0)
            good =
                rp_fail(&why, RP_MALFORMED, RP_COUNTERSIGN_FOLDER "%d.dsse.json: made by the author's own key", i) == 0;
        if (good && signed_before(all->row, row))
            good = rp_fail(&why, RP_MALFORMED,
                           RP_COUNTERSIGN_FOLDER "%d.dsse.json: the same key signed in the same role before", i) == 0;
        row->valid = good;
        if (good) {
            RP_BUF text = {0};
            rp_countersign_text(&text, row);
            row->text = rp_buf_take(&text);
            add_trust(row);
            trusted += row->trusted;
        } else {
            row->why = rp_strdup(why.msg);
            if (!failed++)
                *err = why;
        }
    }
    if (failed)
        return -1;
    if (n == 0)
        rp_check_not_applicable(result, "none besides the author's signature");
    else
        rp_check_text(result, "%d, of which %d by keys in your trust store; listed below", n, trusted);
    return 0;
}

const char *rp_countersign_role(const struct rp_verification *v, const char *fingerprint)
{
    const struct rp_countersigned_list *all = v->signatures;
    for (int64_t i = 0; all && i < all->row_n; i++)
        if (all->row[i].valid && strcmp(all->row[i].fingerprint, fingerprint) == 0)
            return all->row[i].role;
    return NULL;
}

int rp_countersign_says(const struct rp_countersigned_answer *row)
{
    return strcmp(row->role, "author") == 0 || (strcmp(row->role, "replicator") == 0 && row->replicated != 1);
}

json_t *rp_countersigned_json(const struct rp_verification *v)
{
    const struct rp_countersigned_list *all = v->signatures;
    json_t *list = all ? json_array() : NULL;
    for (int64_t i = 0; all && i < all->row_n; i++)
        json_array_append_new(list, rp_object_json(&all->row[i], &rp_type_countersigned_answer));
    return list;
}
