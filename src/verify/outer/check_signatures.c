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
static int open_countersignature(struct rp_verify_state *s, int number, json_t *row, struct rp_err *err)
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
    json_object_set_new(row, "fingerprint", json_string(print));
    json_object_set_new(row, "role", json_string(c.role));
    json_object_set_new(row, "at", json_string(c.at));
    json_object_set_new(row, "program", json_string(c.program));
    json_object_set_new(row, "note", json_string(c.note));
    if (*c.replication)
        json_object_set_new(row, "replication", json_string(c.replication));
    return 0;
}

static void add_trust(json_t *row)
{
    char name[RP_TRUST_NAME], until[RP_DATE_SIZE];
    struct rp_err why;
    int found = rp_trust_find(json_string_value(json_object_get(row, "fingerprint")), name, until, &why);
    json_object_set_new(row, "trusted", json_boolean(found > 0));
    if (*name)
        json_object_set_new(row, "name", json_string(name));
    if (*until)
        json_object_set_new(row, "until", json_string(until));
}

void rp_countersign_text(struct rp_buf *out, const json_t *row)
{
    const char *role = rp_json_text_at(row, "role"), *print = rp_json_text_at(row, "fingerprint");
    const char *replication = rp_json_text_at(row, "replication");
    if (rp_countersign_says(row))
        rp_buf_printf(out, "countersigned (says to be %s %s) by %s", *role == 'a' ? "an" : "a", role, print);
    else
        rp_buf_printf(out, "countersigned as %s by %s", role, print);
    if (*replication)
        rp_buf_printf(out, " with the replication whose statement has SHA-256 %s%s", replication,
                      rp_countersign_says(row) ? "" : ", of which keyed roots were recomputed here");
}

static int signed_before(const json_t *list, const json_t *row)
{
    size_t i;
    json_t *other;
    json_array_foreach((json_t *)list, i, other)
        if (json_equal(json_object_get(other, "fingerprint"), json_object_get(row, "fingerprint")) &&
            json_equal(json_object_get(other, "role"), json_object_get(row, "role")))
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
    s->v->signatures = json_array();
    for (int i = 0; i < n; i++) {
        struct rp_err why = {0};
        json_t *row = json_pack("{s:i}", "number", i);
        int good = open_countersignature(s, i, row, &why) == 0;
        if (good && strcmp(json_string_value(json_object_get(row, "fingerprint")), s->v->fingerprint) == 0)
            good =
                rp_fail(&why, RP_MALFORMED, RP_COUNTERSIGN_FOLDER "%d.dsse.json: made by the author's own key", i) == 0;
        if (good && signed_before(s->v->signatures, row))
            good = rp_fail(&why, RP_MALFORMED,
                           RP_COUNTERSIGN_FOLDER "%d.dsse.json: the same key signed in the same role before", i) == 0;
        json_object_set_new(row, "valid", json_boolean(good));
        if (good) {
            RP_BUF text = {0};
            rp_countersign_text(&text, row);
            json_object_set_new(row, "text", json_string(text.data));
            add_trust(row);
            trusted += json_is_true(json_object_get(row, "trusted"));
        } else {
            json_object_set_new(row, "why", json_string(why.msg));
            if (!failed++)
                *err = why;
        }
        json_array_append_new(s->v->signatures, row);
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
    size_t i;
    json_t *row;
    json_array_foreach(v->signatures, i, row)
    {
        const char *print = json_string_value(json_object_get(row, "fingerprint"));
        if (json_is_true(json_object_get(row, "valid")) && print && strcmp(print, fingerprint) == 0)
            return json_string_value(json_object_get(row, "role"));
    }
    return NULL;
}

int rp_countersign_says(const json_t *row)
{
    const char *role = rp_json_text_at(row, "role");
    return strcmp(role, "author") == 0 ||
           (strcmp(role, "replicator") == 0 && !json_is_true(json_object_get(row, "replicated")));
}
