#include "sign/challenge.h"

#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "sign/dsse.h"
#include "sign/public_value.h"
#include "sign/statement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define SECONDS_MAX 9000000000 /* in the year 2255: nanoseconds have 63 bits */

struct challenge_text {
    char nonce[RP_SHA256_HEX], at[32], program[64], note[201];
    int64_t parts;
    struct rp_buf pem;
};

static void write_payload(struct rp_buf *out, const struct challenge_text *t)
{
    RP_JSON *j = json_pack("{s:s, s:[{s:s, s:{s:s}}], s:s, s:{s:s, s:s, s:s, s:I, s:s}}", "_type", RP_STATEMENT_TYPE,
                           "subject", "name", "nonce", "digest", "sha256", t->nonce, "predicateType", RP_CHALLENGE_TYPE,
                           "predicate", "at", t->at, "key", rp_buf_text(&t->pem), "note", t->note, "parts",
                           (json_int_t)t->parts, "program", t->program);
    RP_BUG_IF(!j);
    rp_json_write(out, j);
}

static int is_note(const char *text)
{
    return strlen(text) < sizeof((struct rp_challenge *)0)->note &&
           rp_plain_size(text, strlen(text), 0) == strlen(text);
}

static int is_parts(int64_t parts)
{
    return parts >= RP_PARTS_LEAST && parts <= RP_PARTS_MOST;
}

int rp_challenge_make(struct rp_buf *out, const char *note, int64_t parts, const struct rp_key_pair *key,
                      struct rp_err *err)
{
    unsigned char random[RP_SHA256_SIZE];
    struct challenge_text t = {.parts = parts};
    RP_BUF payload = {0};
    if (!is_parts(parts))
        return rp_fail(err, RP_USAGE, "a run is divided into %d to %d parts, not %" PRId64, RP_PARTS_LEAST,
                       RP_PARTS_MOST, parts);
    if (!is_note(note))
        return rp_fail(err, RP_USAGE, "a note is one line of at most 200 bytes of UTF-8, without control characters");
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return rp_fail(err, RP_IO, "the system gives no random bytes for the nonce");
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(t.nonce + 2 * i, 3, "%02x", random[i]);
    rp_rfc3339(t.at, rp_wall_ns());
    snprintf(t.program, sizeof t.program, "repro %s", rp_build_record()->version);
    snprintf(t.note, sizeof t.note, "%s", note);
    rp_key_public_pem(key, &t.pem);
    write_payload(&payload, &t);
    rp_buf_fini(&t.pem);
    return rp_dsse_seal(out, payload.data, payload.size, key, err);
}

static int copy_text(char *out, size_t size, const char *text, const char *path, struct rp_err *err)
{
    if (!text || strlen(text) >= size)
        return rp_fail(err, RP_MALFORMED, "challenge: %s is missing or too long", path);
    snprintf(out, size, "%s", text);
    return 0;
}

/* The payload is parsed for its key before its signature is checked: it came as a file, and the key in it is believed
 * by nobody. */
static int read_payload(struct challenge_text *t, const struct rp_buf *payload, struct rp_err *err)
{
    RP_BUF again = {0};
    RP_JSON *j = rp_json_parse(payload->data, payload->size, "challenge", err);
    if (!j)
        return -1;
    RP_READ(statement_document, statement, j);
    if (!rp_same_text(statement.predicateType, RP_CHALLENGE_TYPE))
        return rp_fail(err, RP_MALFORMED,
                       "this envelope is not a challenge: its predicateType is '%.60s', expected '%s'",
                       rp_text_or_empty(statement.predicateType), RP_CHALLENGE_TYPE);
    const struct rp_statement_predicate *p = &statement.predicate;
    const char *nonce = statement.subject_n ? statement.subject[0].digest.sha256 : NULL;
    if (copy_text(t->nonce, sizeof t->nonce, nonce, "subject/0/digest/sha256", err) < 0 ||
        copy_text(t->at, sizeof t->at, p->at, "predicate/at", err) < 0 ||
        copy_text(t->program, sizeof t->program, p->program, "predicate/program", err) < 0 ||
        copy_text(t->note, sizeof t->note, p->note, "predicate/note", err) < 0)
        return -1;
    t->parts = p->parts;
    rp_buf_puts(&t->pem, rp_text_or_empty(p->key));
    if (!rp_is_sha256(t->nonce) || !is_parts(t->parts) || rp_rfc3339_seconds(t->at) < 0 ||
        rp_rfc3339_seconds(t->at) > SECONDS_MAX || !is_note(t->note) ||
        rp_plain_size(t->program, strlen(t->program), 0) != strlen(t->program))
        return rp_fail(err, RP_MALFORMED,
                       "challenge: its nonce, time, note, parts or program has another form than this program writes");
    write_payload(&again, t);
    return rp_buf_is(&again, payload->data, payload->size)
               ? 0
               : rp_fail(err, RP_MALFORMED, "challenge: the statement is not written as this program writes it");
}

static int read_envelope(struct rp_challenge *c, struct challenge_text *t, const struct rp_envelope *e,
                         struct rp_err *err)
{
    if (read_payload(t, &e->payload, err) < 0)
        return -1;
    RP_KEY *key = rp_key_load_public(rp_buf_text(&t->pem), t->pem.size, "the key in the challenge", err);
    if (!key || rp_dsse_check(e, key, err) < 0)
        return key ? rp_wrap(err, "challenge") : -1;
    snprintf(c->kind, sizeof c->kind, "repro");
    memcpy(c->nonce, t->nonce, sizeof c->nonce);
    memcpy(c->note, t->note, sizeof c->note);
    c->parts = t->parts;
    c->made_ns = (uint64_t)rp_rfc3339_seconds(t->at) * 1000000000u;
    rp_key_fingerprint(key, c->by);
    snprintf(c->checked, sizeof c->checked, "signed by the challenger's key");
    return 0;
}

static int read_public_value(struct rp_challenge *c, const void *data, size_t size, struct rp_err *err)
{
    struct rp_public_value v;
    if (rp_public_value_read(&v, data, size, err) < 0)
        return rp_wrap(err, "neither a challenge by 'repro challenge new' nor a public value (%s)",
                       RP_PUBLIC_VALUE_KINDS);
    snprintf(c->kind, sizeof c->kind, "%s", v.kind);
    rp_hex(c->nonce, v.nonce, sizeof v.nonce);
    c->made_ns = (uint64_t)(v.time_ns - v.early_ns);
    c->parts = RP_PARTS_LEAST;
    c->proved = v.proved;
    snprintf(c->note, sizeof c->note, "%s", v.name);
    snprintf(c->checked, sizeof c->checked, "%s; %s", v.checked, v.claimed);
    return 0;
}

/* A DSSE envelope has a payloadType; public values do not. */
static int is_envelope(const char *data, size_t size)
{
    return memmem(data, size, "\"payloadType\"", strlen("\"payloadType\"")) != NULL;
}

int rp_challenge_read(struct rp_challenge *c, const void *data, size_t size, struct rp_err *err)
{
    struct challenge_text t = {0};
    struct rp_envelope e;
    *c = (struct rp_challenge){0};
    if (size > RP_CHALLENGE_MAX)
        return rp_fail(err, RP_MALFORMED, "a challenge has at most %d bytes, this file has %zu", RP_CHALLENGE_MAX,
                       size);
    if (size == 0)
        return rp_fail(err, RP_MALFORMED, "empty; expected a challenge or a public value");
    rp_sha256_hex(c->sha256, data, size);
    if (!is_envelope(data, size))
        return read_public_value(c, data, size, err);
    if (rp_dsse_parse(&e, data, size, err) < 0)
        return -1;
    int failed = read_envelope(c, &t, &e, err) < 0;
    rp_envelope_fini(&e);
    rp_buf_fini(&t.pem);
    return failed ? -1 : 0;
}

int rp_challenge_load(struct rp_challenge *c, struct rp_buf *bytes, const char *path, struct rp_err *err)
{
    if (rp_read_file(bytes, path, RP_CHALLENGE_MAX, err) < 0)
        return -1;
    return rp_challenge_read(c, rp_buf_text(bytes), bytes->size, err) < 0 ? rp_wrap(err, "'%s'", path) : 0;
}

json_t *rp_challenge_json(const struct rp_challenge *c)
{
    char made_at[32];
    rp_rfc3339(made_at, c->made_ns);
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s*}", "kind", c->kind, "sha256", c->sha256, "nonce", c->nonce,
                     "made_at", made_at, "parts", (json_int_t)c->parts, "by", *c->by ? c->by : NULL);
}

uint64_t rp_challenge_draw(const struct rp_challenge *c, const char *statement, int i, uint64_t n)
{
    RP_BUF text = {0};
    rp_buf_printf(&text, "repro-draw/2\n%s\n%s\n%d\n", c->nonce, statement, i);
    return rp_sha256_word(text.data, text.size) % n;
}
