/* Attacks: what somebody does to a bundle, by name, which check has to see it first and with which exit status.
 *
 * What:    the verdict on one file, held against a row of a table.
 * Flow:    rows of test_attacks_*.c: a bundle made wrong on purpose at fx_path("attack") -> rp_verify() -> attack_expect().
 * Owner:   the caller's.
 * Extend:  an attack is a row with a name of its own in the file of its kind: form (container), seal (signature, statement), content.
 */
#pragma once

#include "tests/unit/verify_fixture.h"

#include "bundle/pack.h"
#include "sign/dsse.h"
#include "sign/minisign.h"
#include "sign/statement.h"

/* Nothing in the bundle is wrong: only who signed it tells it from an honest one. */
#define KEY_ALONE RP_CHECK_COUNT, 0

/* Signatures compress to another size every time: numbers of more than three digits are left out. */
static void said_without_sizes(const char *message)
{
    RP_BUF text = {0};
    for (size_t n; *message; message += n) {
        size_t digits = strspn(message, "0123456789");
        n = strspn(message, "0123456789abcdefghijklmnopqrstuvwxyz");
        n = n ? n : 1;
        rp_buf_add(&text, digits == n && n > 3 ? "N" : message, digits == n && n > 3 ? 1 : n);
    }
    SAID(rp_buf_text(&text));
}

static __attribute__((unused)) void attack_expect(const char *name, const char *trust, enum rp_check_id check, int status)
{
    struct rp_verification v;
    struct rp_verify_opts o = {.trust = trust};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("attack");
    int rc = rp_verify(&v, path, &o, &err), first = 0;
    while (first < RP_CHECK_COUNT && v.check[first].state != RP_CHECK_FAILED)
        first++;
    CHECK(first == (int)check, "%s: seen by '%s', not by '%s': %s", name, first < RP_CHECK_COUNT ? rp_check_name(first) : "nothing",
          check < RP_CHECK_COUNT ? rp_check_name((int)check) : "nothing", err.msg);
    CHECK((rc < 0 ? rp_exit_status(err.code) : 0) == status, "%s: status %d, not %d: %s", name, rc < 0 ? rp_exit_status(err.code) : 0, status,
          err.msg);
    CHECK(v.verdict == (status ? RP_VERDICT_FAILED : RP_VERDICT_UNKNOWN_KEY), "%s: %s", name, rp_verdict_text(v.verdict));
    RP_BUF text = {0};
    rp_verification_text(&text, &v, 0);
    if (status && !trust)
        said_without_sizes(err.msg);
    CHECK(!strpbrk(err.msg, "\n\033") && !strchr(text.data, 033), "%s: a terminal obeys the message", name);
    rp_verification_fini(&v);
}

static __attribute__((unused)) void attack_write(const struct rp_buf *file)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("attack");
    CHECK(rp_write_file(path, rp_buf_text(file), file->size, 0644, &err) == 0, "%s", err.msg);
}

/* What is changed, how far the attacker goes to hide it, and who has to see it.
 * was  "/a/b": the value there, which becomes the JSON text `is`, or goes where that is NULL. "" and "^": before the end, before the
 *      beginning. Anything else: the first place of that text. */
struct bend {
    const char *name, *member, *was, *is;
    enum level {
        LEFT,    /* nothing else: the honest signature stays */
        ENVELOPE, /* of the statement's payload: signed again, by the attacker */
        SEALED,  /* digests, sums and statement made again, signed by the attacker */
        REPORTED, /* reports too */
        COMPUTED /* all figures too */
    } level;
    enum rp_check_id check;
    int status;
};

static void bend_json(json_t *j, const struct bend *r)
{
    char key[64];
    const char *path = r->was + 1;
    size_t n;
    for (; path[n = strcspn(path, "/")]; path += n + 1) {
        snprintf(key, sizeof key, "%.*s", (int)n, path);
        j = json_is_array(j) ? json_array_get(j, (size_t)atoi(key)) : json_object_get(j, key);
    }
    json_t *value = r->is ? json_loads(r->is, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    CHECK(j && (value || !r->is), "%s: no %s", r->name, r->was);
    if (json_is_array(j) && value)
        json_array_set_new(j, (size_t)atoi(path), value);
    else if (json_is_array(j))
        json_array_remove(j, (size_t)atoi(path));
    else if (value)
        json_object_set_new(j, path, value);
    else
        CHECK(json_object_del(j, path) == 0, "%s: no %s", r->name, r->was);
}

static void bend_bytes(struct rp_buf *b, const struct bend *r)
{
    struct rp_err err;
    if (*r->was != '/') {
        fx_bend(b, r->was, r->is);
        return;
    }
    RP_JSON *j = rp_json_parse(b->data, b->size, r->name, &err);
    CHECK(j, "%s", err.msg);
    bend_json(j, r);
    rp_buf_fini(b);
    rp_json_write(b, j);
}

static __attribute__((unused)) void attack_pack(const struct rp_bundle *b)
{
    struct rp_err err;
    RP_BUF tar = {0}, file = {0};
    for (int i = 0; i < b->n; i++)
        rp_tar_add(&tar, b->member[i].name, b->member[i].bytes.data, b->member[i].bytes.size);
    rp_tar_end(&tar);
    CHECK(rp_zst_pack(&file, tar.data, tar.size, &err) == 0, "%s", err.msg);
    attack_write(&file);
}

static __attribute__((unused)) struct rp_buf *attack_bytes(struct rp_bundle *b, const char *name)
{
    return (struct rp_buf *)&rp_bundle_find(b, name)->bytes;
}

/* A new statement about b as it is now, or about `payload`, signed by that key. */
static __attribute__((unused)) void attack_sign(struct rp_bundle *b, const json_t *run, const struct rp_buf *payload, const struct rp_key_pair *key)
{
    static struct rp_subject subject[RP_BUNDLE_MEMBERS_MAX];
    struct rp_err err;
    char hex[RP_SHA256_HEX];
    RP_BUF text = {0}, envelope = {0};
    if (!payload) {
        rp_member_sha256(hex, rp_bundle_find(b, "run.json"));
        int n = rp_bundle_subjects(b, subject);
        RP_JSON *statement = rp_statement(subject, n, rp_statement_predicate(run, hex));
        rp_json_write(&text, statement);
        payload = &text;
    }
    CHECK(rp_dsse_seal(&envelope, payload->data, payload->size, key, &err) == 0, "%s", err.msg);
    struct rp_buf *is = attack_bytes(b, "statement.dsse.json");
    rp_buf_fini(is);
    *is = envelope;
    envelope = (struct rp_buf){0};
}

/* The sums of b as it is now, where they are not what is attacked, and their two signatures. */
static __attribute__((unused)) void attack_sums(struct rp_bundle *b, const char *attacked, const struct rp_key_pair *key)
{
    struct rp_err err;
    struct rp_buf *sums = attack_bytes(b, "SHA256SUMS"), *sig = attack_bytes(b, "SHA256SUMS.sig"), *minisig = attack_bytes(b, "SHA256SUMS.minisig");
    if (strcmp(attacked, "SHA256SUMS") != 0) {
        rp_buf_fini(sums);
        rp_bundle_sums(sums, b);
    }
    if (strncmp(attacked, "SHA256SUMS.", 11) == 0)
        return;
    rp_buf_fini(sig);
    rp_buf_fini(minisig);
    CHECK(rp_signify_sign(sig, key, sums->data, sums->size, &err) == 0 &&
              rp_minisign_sign(minisig, key, sums->data, sums->size, "SHA256SUMS", &err) == 0, "%s", err.msg);
}

/* Bytes of a sealed bundle. */
static void attack_member(const struct fx *x, const struct bend *r)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path("attack");
    FX_KEY *key = fx_key(r->level == LEFT ? "signer" : "attacker");
    fx_seal(x, r->level == LEFT ? "signer" : "attacker", "attack");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    if (r->level == ENVELOPE) {
        struct rp_envelope e;
        const struct rp_buf *is = attack_bytes(&b, "statement.dsse.json");
        CHECK(rp_dsse_parse(&e, is->data, is->size, &err) == 0, "%s", err.msg);
        bend_bytes(&e.payload, r);
        attack_sign(&b, NULL, &e.payload, key);
        rp_envelope_fini(&e);
    } else {
        bend_bytes(attack_bytes(&b, r->member), r);
    }
    if (r->level == SEALED) {
        attack_sums(&b, r->member, key);
        attack_sign(&b, x->run, NULL, key);
    }
    attack_pack(&b);
    rp_bundle_fini(&b);
}

/* What everything else is made from again. */
static void attack_source(struct fx *x, const struct bend *r)
{
    struct rp_err err = {0};
    if (strcmp(r->member, "steps/rank0.jsonl") == 0)
        fx_bend(&x->steps, r->was, r->is);
    else
        bend_json(strcmp(r->member, "run.json") == 0 ? x->run : strstr(r->member, "before") ? x->before : x->after, r);
    int failed = r->level == COMPUTED ? fx_documents(x, "complete", NULL, &err) : fx_report(x, &err);
    CHECK(failed == 0, "%s: %s", r->name, err.msg);
    fx_seal(x, "attacker", "attack");
}

static __attribute__((unused)) void attack(const struct bend *r)
{
    char print[RP_FINGERPRINT_SIZE];
    FX_KEY *key = fx_key("signer");
    rp_key_fingerprint(key, print);
    FX(x);
    if (r->level >= REPORTED)
        attack_source(&x, r);
    else
        attack_member(&x, r);
    attack_expect(r->name, NULL, r->check, r->status);
    if (r->level != LEFT && r->check > RP_CHECK_key) /* and who asks for the honest signer never comes that far */
        attack_expect(r->name, print, RP_CHECK_key, 6);
}

#define ATTACKS(rows)                                          \
    do {                                                       \
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) \
            attack(&rows[i]);                                  \
    } while (0)
