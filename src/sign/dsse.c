#include "sign/dsse.h"

#include "base/json.h"

#include <string.h>

#define SIG_BASE64 88 /* of 64 bytes */

void rp_dsse_pae(struct rp_buf *out, const char *type, const void *body, size_t size)
{
    rp_buf_printf(out, "DSSEv1 %zu %s %zu ", strlen(type), type, size);
    rp_buf_add(out, body, size);
}

/* The only accepted form of an envelope. */
static void write_envelope(struct rp_buf *out, const void *payload, size_t size, const char *keyid,
                           const unsigned char sig[64])
{
    RP_BUF body = {0}, s = {0};
    rp_base64(&body, payload, size);
    rp_base64(&s, sig, 64);
    RP_JSON *j = json_pack("{s:s%, s:s, s:[{s:s, s:s}]}", "payload", rp_buf_text(&body), body.size, "payloadType",
                           RP_DSSE_PAYLOAD_TYPE, "signatures", "keyid", keyid, "sig", s.data);
    RP_BUG_IF(!j);
    rp_json_write(out, j);
}

int rp_dsse_seal(struct rp_buf *out, const void *payload, size_t size, const struct rp_key_pair *key,
                 struct rp_err *err)
{
    RP_BUF pae = {0};
    unsigned char sig[64];
    char keyid[RP_FINGERPRINT_SIZE];
    rp_dsse_pae(&pae, RP_DSSE_PAYLOAD_TYPE, payload, size);
    if (rp_key_sign(key, pae.data, pae.size, sig, err) < 0)
        return -1;
    rp_key_fingerprint(key, keyid);
    write_envelope(out, payload, size, keyid, sig);
    return 0;
}

/* The one signature: keyid and 64 bytes. */
static int parse_signature(struct rp_envelope *e, const json_t *list, struct rp_err *err)
{
    const char *what = "DSSE envelope", *keyid, *sig;
    RP_BUF raw = {0};
    if (json_array_size(list) != 1)
        return rp_fail(err, RP_MALFORMED, "%s holds %zu signatures; expected exactly one", what, json_array_size(list));
    const json_t *one = json_array_get(list, 0);
    if (!json_is_object(one))
        return rp_fail(err, RP_MALFORMED, "%s: the signature is not an object", what);
    if (rp_json_str(one, "keyid", &keyid, what, err) < 0 || rp_json_str(one, "sig", &sig, what, err) < 0)
        return -1;
    if (strlen(keyid) >= sizeof e->keyid)
        return rp_fail(err, RP_MALFORMED, "%s: keyid is longer than a fingerprint", what);
    if (strlen(sig) != SIG_BASE64 || rp_unbase64(&raw, sig, SIG_BASE64) < 0 || raw.size != 64)
        return rp_fail(err, RP_MALFORMED, "%s: sig is not the base64 form of 64 bytes", what);
    memcpy(e->sig, raw.data, 64);
    memcpy(e->keyid, keyid, strlen(keyid) + 1);
    return 0;
}

static int parse_envelope(struct rp_envelope *e, const json_t *j, struct rp_err *err)
{
    const char *what = "DSSE envelope", *payload, *type;
    const json_t *list;
    if (rp_json_str(j, "payloadType", &type, what, err) < 0 || rp_json_str(j, "payload", &payload, what, err) < 0)
        return -1;
    if (strcmp(type, RP_DSSE_PAYLOAD_TYPE) != 0)
        return rp_fail(err, RP_MALFORMED, "%s: payloadType is '%.80s'; expected '%s'", what, type,
                       RP_DSSE_PAYLOAD_TYPE);
    if (rp_unbase64(&e->payload, payload, strlen(payload)) < 0 || e->payload.size == 0)
        return rp_fail(err, RP_MALFORMED, "%s: payload is not base64 with padding and without line breaks", what);
    list = rp_json_arr(j, "signatures", what, err);
    return list ? parse_signature(e, list, err) : -1;
}

int rp_dsse_parse(struct rp_envelope *e, const char *text, size_t size, struct rp_err *err)
{
    RP_BUF again = {0};
    *e = (struct rp_envelope){0};
    RP_JSON *j = rp_json_parse(text, size, "DSSE envelope", err);
    if (!j)
        return -1;
    if (!json_is_object(j))
        return rp_fail(err, RP_MALFORMED, "DSSE envelope is not a JSON object");
    if (parse_envelope(e, j, err) < 0) {
        rp_envelope_fini(e);
        return -1;
    }
    write_envelope(&again, e->payload.data, e->payload.size, e->keyid, e->sig);
    if (!rp_buf_is(&again, text, size)) {
        rp_envelope_fini(e);
        return rp_fail(err, RP_MALFORMED,
                       "DSSE envelope is not written as this program writes it (order, white space, or more fields)");
    }
    return 0;
}

int rp_dsse_check(const struct rp_envelope *e, const struct rp_key_pair *key, struct rp_err *err)
{
    RP_BUF pae = {0};
    char keyid[RP_FINGERPRINT_SIZE];
    rp_key_fingerprint(key, keyid);
    if (strcmp(keyid, e->keyid) != 0)
        return rp_fail(err, RP_SIGNATURE, "the envelope names the key '%s', not %s", e->keyid, keyid);
    rp_dsse_pae(&pae, RP_DSSE_PAYLOAD_TYPE, e->payload.data, e->payload.size);
    return rp_key_verify(key, pae.data, pae.size, e->sig, err);
}

void rp_envelope_fini(struct rp_envelope *e)
{
    rp_buf_fini(&e->payload);
    *e = (struct rp_envelope){0};
}
