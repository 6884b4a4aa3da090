#include "sign/countersign.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "sign/dsse.h"
#include "sign/statement.h"

#include <stdio.h>
#include <string.h>

#define SUBJECT "statement.dsse.json"

static int is_role(const char *role)
{
    for (const char *p = RP_COUNTERSIGN_ROLES; p; p = strchr(p, '|') ? strchr(p, '|') + 1 : NULL)
        if (strcspn(p, "|") == strlen(role) && strncmp(p, role, strlen(role)) == 0)
            return 1;
    return 0;
}

static int is_plain(const char *text)
{
    return rp_plain_size(text, strlen(text), 0) == strlen(text);
}

static int check_fields(const struct rp_countersignature *c, enum rp_code code, struct rp_err *err)
{
    char shown[72];
    if (!is_role(c->role))
        return rp_fail(err, code, "role '%s' is unknown: expected one of %s", rp_excerpt(shown, c->role),
                       RP_COUNTERSIGN_ROLES);
    if (!rp_is_rfc3339(c->at))
        return rp_fail(err, code, "'%s' is not a time like 2026-11-21T06:27:54Z", rp_excerpt(shown, c->at));
    if (!is_plain(c->note) || !is_plain(c->program))
        return rp_fail(err, code, "a note is one line of UTF-8 without control characters, also of writing direction");
    if (*c->replication && (strcmp(c->role, "replicator") != 0 || !rp_is_sha256(c->replication)))
        return rp_fail(err, code, "only a replicator names a replication, by the SHA-256 of its statement");
    return 0;
}

static void write_statement(struct rp_buf *out, const struct rp_countersignature *c, const struct rp_buf *of)
{
    char hex[RP_SHA256_HEX];
    rp_sha256_hex(hex, of->data, of->size);
    RP_JSON *j = json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:{s:s, s:s, s:s, s:s, s:s*}}", "_type", RP_STATEMENT_TYPE,
                           "subject", "name", SUBJECT, "digest", "sha256", hex, "predicateType", RP_COUNTERSIGN_TYPE,
                           "predicate", "role", c->role, "note", c->note, "at", c->at, "program", c->program,
                           "replication", *c->replication ? c->replication : NULL);
    RP_BUG_IF(!j);
    rp_json_write(out, j);
}

int rp_countersign_seal(struct rp_buf *out, const struct rp_countersignature *c, const struct rp_buf *of,
                        const struct rp_key_pair *key, struct rp_err *err)
{
    RP_BUF payload = {0};
    if (check_fields(c, RP_USAGE, err) < 0)
        return -1;
    write_statement(&payload, c, of);
    return rp_dsse_seal(out, payload.data, payload.size, key, err);
}

static int copy_text(char *out, size_t size, const json_t *predicate, const char *key, struct rp_err *err)
{
    const char *text;
    if (rp_json_str(predicate, key, &text, "predicate", err) < 0)
        return -1;
    if (strlen(text) >= size)
        return rp_fail(err, RP_MALFORMED, "predicate: %s has more than %zu bytes", key, size - 1);
    snprintf(out, size, "%s", text);
    return 0;
}

/* Parses the signed bytes; digest: of the first subject, or "". The caller writes the result again, which detects
 * anything else. */
static int parse_payload(struct rp_countersignature *c, char digest[RP_SHA256_HEX], const struct rp_buf *payload,
                         struct rp_err *err)
{
    RP_JSON *j = rp_json_parse(payload->data, payload->size, "statement", err);
    if (!j)
        return -1;
    RP_READ(statement_document, statement, j);
    const char *type, *subject = rp_text_or_empty(statement.subject_n ? statement.subject[0].digest.sha256 : NULL);
    if (!json_is_object(j))
        return rp_fail(err, RP_MALFORMED, "statement is not a JSON object");
    if (rp_json_str(j, "predicateType", &type, "statement", err) < 0)
        return -1;
    if (strcmp(type, RP_COUNTERSIGN_TYPE) != 0)
        return rp_fail(err, RP_MALFORMED, "statement: predicateType is '%.80s'; expected '%s'", type,
                       RP_COUNTERSIGN_TYPE);
    const json_t *p = rp_json_obj(j, "predicate", "statement", err);
    if (!p || copy_text(c->role, sizeof c->role, p, "role", err) < 0 ||
        copy_text(c->at, sizeof c->at, p, "at", err) < 0 ||
        copy_text(c->program, sizeof c->program, p, "program", err) < 0 ||
        copy_text(c->note, sizeof c->note, p, "note", err) < 0)
        return -1;
    if (json_object_get(p, "replication") &&
        copy_text(c->replication, sizeof c->replication, p, "replication", err) < 0)
        return -1;
    snprintf(digest, RP_SHA256_HEX, "%s", rp_is_sha256(subject) ? subject : "");
    return check_fields(c, RP_MALFORMED, err);
}

static int open_envelope(struct rp_countersignature *c, const struct rp_envelope *e, const struct rp_buf *of,
                         const struct rp_key_pair *key, struct rp_err *err)
{
    RP_BUF again = {0};
    char digest[RP_SHA256_HEX], hex[RP_SHA256_HEX];
    if (rp_dsse_check(e, key, err) < 0 || parse_payload(c, digest, &e->payload, err) < 0)
        return -1;
    write_statement(&again, c, of);
    if (rp_buf_is(&again, e->payload.data, e->payload.size))
        return 0;
    rp_sha256_hex(hex, of->data, of->size);
    if (*digest && strcmp(digest, hex) != 0)
        return rp_fail(err, RP_MISMATCH, "it is about another bundle, whose %s has the SHA-256 %.16s...", SUBJECT,
                       digest);
    return rp_fail(err, RP_MALFORMED, "the statement is not written as this program writes it");
}

int rp_countersign_open(struct rp_countersignature *c, const char *text, size_t size, const struct rp_buf *of,
                        const struct rp_key_pair *key, struct rp_err *err)
{
    struct rp_envelope e;
    *c = (struct rp_countersignature){0};
    if (rp_dsse_parse(&e, text, size, err) < 0)
        return -1;
    int failed = open_envelope(c, &e, of, key, err);
    rp_envelope_fini(&e);
    return failed;
}
