/* One line: its bytes, its digest and its signature. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "ledger/inner.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define PEM_BEGIN "-----BEGIN PUBLIC KEY-----\n"
#define PEM_END "\n-----END PUBLIC KEY-----\n"
#define PUBLIC_BASE64 60 /* characters of a SubjectPublicKeyInfo */
#define SIGNATURE_BYTES 64

#define RP_OBJECT_LIST "ledger/line.def"
#include "base/object_tables.inc.h"

json_t *rp_ledger_line_schema(void)
{
    json_t *schema =
        rp_object_schema(&rp_type_ledger_line, NULL, "One line of a ledger, or of the record of verifications");
    json_object_del(schema, "additionalProperties");
    return schema;
}

static int check_form(const struct rp_ledger_line *line, struct rp_err *err)
{
    if (line->n < 1 || !line->event || !line->at || !rp_is_rfc3339(line->at) || !rp_is_sha256(line->previous) ||
        !rp_is_sha256(line->sha256))
        return rp_fail(err, RP_MALFORMED, "n, event, at, previous or sha256 is missing or malformed");
    return 0;
}

/* The line as JSON, with its newline, without one or two of its keys. */
static void write_without(struct rp_buf *out, const json_t *line, const char *a, const char *b)
{
    RP_JSON *rest = json_copy((json_t *)line);
    json_object_del(rest, a);
    if (b)
        json_object_del(rest, b);
    rp_json_write_line(out, rest);
}

json_t *rp_ledger_line(struct rp_ledger_line *line, const char *text, size_t size, int64_t n, struct rp_err *err)
{
    RP_BUF again = {0}, bare = {0};
    char hex[RP_SHA256_HEX];
    rp_object_init(line, &rp_type_ledger_line);
    if (size > RP_LEDGER_LINE_MAX)
        return rp_fail_null(err, RP_MALFORMED, "%zu bytes; a line has %d at most", size, RP_LEDGER_LINE_MAX);
    RP_JSON *json = rp_json_parse(text, size, NULL, err);
    if (!json)
        return NULL;
    if (!json_is_object(json))
        return rp_fail_null(err, RP_MALFORMED, "not a JSON object");
    rp_object_read(line, &rp_type_ledger_line, json);
    if (check_form(line, err) < 0)
        return NULL;
    rp_json_write_line(&again, json);
    if (!rp_buf_is(&again, text, size))
        return rp_fail_null(err, RP_MALFORMED, "it is not written as this program writes it");
    write_without(&bare, json, "sha256", NULL);
    rp_sha256_hex(hex, bare.data, bare.size);
    if (strcmp(hex, line->sha256) != 0)
        return rp_fail_null(err, RP_MISMATCH, "it was changed: its SHA-256 is %.16s..., the line records %.16s...", hex,
                            line->sha256);
    if (n && line->n != n)
        return rp_fail_null(err, RP_MISMATCH, "it is numbered as line %" PRId64 ": lines were removed or inserted",
                            line->n);
    return json_incref(json);
}

int rp_ledger_line_finish(struct rp_buf *out, json_t *line, const struct rp_key_pair *key, char head[RP_SHA256_HEX],
                          struct rp_err *err)
{
    RP_BUF bare = {0}, text = {0};
    unsigned char sig[SIGNATURE_BYTES];
    if (key) {
        write_without(&text, line, "sha256", "signature");
        if (rp_key_sign(key, text.data, text.size, sig, err) < 0)
            return -1;
        RP_BUF base64 = {0};
        rp_base64(&base64, sig, sizeof sig);
        json_object_set_new(line, "signature", json_string(base64.data));
    }
    rp_json_write_line(&bare, line);
    rp_sha256_hex(head, bare.data, bare.size);
    json_object_set_new(line, "sha256", json_string(head));
    rp_json_write_line(out, line);
    return out->size <= RP_LEDGER_LINE_MAX ? 0 : rp_fail(err, RP_BUG, "a line of %zu bytes", out->size);
}

int rp_ledger_line_check(const struct rp_ledger_line *line, const json_t *json, const struct rp_key_pair *key,
                         struct rp_err *err)
{
    const char *base64 = line->signature;
    RP_BUF sig = {0}, text = {0};
    if (!base64)
        return rp_fail(err, RP_MALFORMED, "it is not signed, and a line before it is");
    if (rp_unbase64(&sig, base64, strlen(base64)) < 0 || sig.size != SIGNATURE_BYTES)
        return rp_fail(err, RP_MALFORMED, "its signature is not one of Ed25519 in base64");
    write_without(&text, json, "sha256", "signature");
    return rp_key_verify(key, text.data, text.size, (const unsigned char *)sig.data, err);
}

json_t *rp_ledger_key_json(const struct rp_ledger_writer *w)
{
    RP_BUF pem = {0};
    char made[32] = "";
    rp_key_public_pem(w->key, &pem);
    RP_BUG_IF(pem.size != sizeof PEM_BEGIN - 1 + PUBLIC_BASE64 + sizeof PEM_END - 1);
    if (w->made_ns)
        rp_rfc3339(made, w->made_ns);
    return json_pack("{s:s%, s:s*, s:s*}", "public", pem.data + sizeof PEM_BEGIN - 1, (size_t)PUBLIC_BASE64, "made",
                     *made ? made : NULL, "known_from",
                     !*made       ? NULL
                     : w->by_file ? "file"
                                  : "creation");
}

struct rp_key_pair *rp_ledger_line_key(const struct rp_ledger_key *key, struct rp_err *err)
{
    if (!key || !key->public || strlen(key->public) != PUBLIC_BASE64 || (key->made && !rp_is_rfc3339(key->made)) ||
        (key->made && !rp_same_text(key->known_from, "file") && !rp_same_text(key->known_from, "creation")))
        return rp_fail_null(err, RP_MALFORMED, "it is the first signed line, and its \"key\" is missing or malformed");
    RP_FREE char *pem = rp_asprintf(PEM_BEGIN "%s" PEM_END, key->public);
    return rp_key_load_public(pem, strlen(pem), "\"key\"", err);
}
