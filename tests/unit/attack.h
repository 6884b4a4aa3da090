/* Attacks: what somebody does to a bundle, by name, which check has to see it first and with which exit status.
 *
 * What:    the verdict on one file, held against a row of a table.
 * Flow:    rows of test_attacks_*.c: a bundle made wrong on purpose at fx_path("attack") -> rp_verify() ->
 *          attack_expect().
 * Owner:   the caller's.
 * Extend:  an attack is a row with a name of its own, the check that must detect it and its exit status, in the file of
 *          its kind: form (frame, tar, names), seal (envelope, statement, key); signed again by the attacker: content,
 *          records, images, device, scale (mixed precision); of several ranks: world. Bundles that exhaust memory or
 *          time are in test_bombs.c, archives against verify.sh in tests/cli/verify/hostile_archives.sh.
 *          tests/bench/bundle_gen.c makes valid bundles of any size. A parser of untrusted input has a target in
 *          tests/fuzz/.
 */
#pragma once

#include "report/template.h"
#include "tests/unit/verify_fixture.h"

#include "bundle/pack.h"
#include "sign/dsse.h"
#include "sign/minisign.h"
#include "sign/statement.h"

/* Nothing in the bundle is wrong: only who signed it tells it from an honest one. */
#define KEY_ALONE RP_CHECK_COUNT, 0

/* Signatures compress to another size every time: numbers of more than three digits are left out, except in the name of
 * the directory, which is random and hidden by SAID. */
static void said_without_sizes(const char *message)
{
    const char *dir = scratch_dir();
    RP_BUF text = {0};
    for (size_t n; *message; message += n) {
        size_t digits = strspn(message, "0123456789");
        int is_dir = strncmp(message, dir, strlen(dir)) == 0;
        n = is_dir ? strlen(dir) : strspn(message, "0123456789abcdefghijklmnopqrstuvwxyz");
        n = n ? n : 1;
        rp_buf_add(&text, digits == n && n > 3 ? "N" : message, digits == n && n > 3 ? 1 : n);
    }
    SAID(rp_buf_text(&text));
}

/* names: what the message has to name, such as the pointer of a figure; NULL: anything. */
static __attribute__((unused)) void attack_expect_named(const char *name, const char *trust, enum rp_check_id check,
                                                        int status, const char *names)
{
    struct rp_verification v;
    struct rp_verify_opts o = {.trust = trust};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("attack");
    int rc = rp_verify(&v, path, &o, &err), first = 0;
    const int other_version = v.verdict == RP_VERDICT_OTHER_VERSION;
    while (first < RP_CHECK_COUNT && v.check[first].state != (other_version ? RP_CHECK_SKIPPED : RP_CHECK_FAILED))
        first++;
    CHECK(first == (int)check, "%s: seen by '%s', not by '%s': %s", name,
          first < RP_CHECK_COUNT ? rp_check_name(first) : "nothing",
          check < RP_CHECK_COUNT ? rp_check_name((int)check) : "nothing", err.msg);
    CHECK((rc < 0 ? rp_exit_status(err.code) : 0) == status, "%s: status %d, not %d: %s", name,
          rc < 0 ? rp_exit_status(err.code) : 0, status, err.msg);
    const enum rp_verdict verdict = status == rp_exit_status(RP_VERSION) ? RP_VERDICT_OTHER_VERSION
                                    : status                             ? RP_VERDICT_FAILED
                                                                         : RP_VERDICT_UNKNOWN_KEY;
    CHECK(v.verdict == verdict, "%s: %s", name, rp_verdict_text(v.verdict));
    CHECK(!names || strstr(err.msg, names), "%s: the message does not name %s: %s", name, names ? names : "", err.msg);
    RP_BUF text = {0};
    RP_JSON *document = rp_verification_json(&v);
    rp_verification_text(&text, RP_FILL_TEXT, document, NULL, 1, 0);
    if (status && !trust)
        said_without_sizes(err.msg);
    CHECK(!strpbrk(err.msg, "\n\033") && !strchr(text.data, 033), "%s: a terminal obeys the message", name);
    rp_verification_fini(&v);
}

static __attribute__((unused)) void attack_expect(const char *name, const char *trust, enum rp_check_id check,
                                                  int status)
{
    attack_expect_named(name, trust, check, status, NULL);
}

static __attribute__((unused)) void attack_write(const struct rp_buf *file)
{
    struct rp_err err;
    RP_FREE char *path = fx_path("attack");
    CHECK(rp_write_file(path, rp_buf_text(file), file->size, 0644, &err) == 0, "%s", err.msg);
}

/* What is changed, how far the attacker goes to hide it, and who has to see it.
 * was  "/a/b": the value there, which becomes the JSON text `is`, or goes where that is NULL; after the last element of
 *      a list it is added. "" and "^": before the end, before the beginning. Anything else: the first place of that
 *      text. */
struct bend {
    const char *name, *member, *was, *is;
    enum level {
        LEFT,     /* nothing else: the honest signature stays */
        ENVELOPE, /* of the statement's payload: signed again, by the attacker */
        SEALED,   /* digests, sums and statement made again, signed by the attacker */
        COMPUTED  /* all figures too */
    } level;
    enum rp_check_id check;
    int status;
};

static void bend_list(json_t *j, size_t at, json_t *value)
{
    if (!value)
        json_array_remove(j, at);
    else if (at == json_array_size(j))
        json_array_append_new(j, value);
    else
        json_array_set_new(j, at, value);
}

static void bend_json(json_t *j, const struct bend *r)
{
    const char *key;
    json_t *in = fx_parent(j, r->was + 1, &key),
           *value = r->is ? json_loads(r->is, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;
    CHECK(in && (value || !r->is), "%s: no %s", r->name, r->was);
    if (json_is_array(in))
        bend_list(in, (size_t)atoi(key), value);
    else if (value)
        json_object_set_new(in, key, value);
    else
        CHECK(json_object_del(in, key) == 0, "%s: no %s", r->name, r->was);
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
static __attribute__((unused)) void attack_sign(struct rp_bundle *b, const json_t *facts, const json_t *run,
                                                const struct rp_buf *payload, const struct rp_key_pair *key)
{
    static struct rp_subject subject[RP_BUNDLE_MEMBERS_MAX];
    struct rp_err err;
    char hex[RP_SHA256_HEX];
    RP_BUF text = {0}, envelope = {0};
    if (!payload) {
        rp_member_sha256(hex, rp_bundle_find(b, "run.json"));
        int n = rp_bundle_subjects(b, subject);
        RP_JSON *statement = rp_statement(subject, n, rp_statement_predicate(facts, run, hex));
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
static __attribute__((unused)) void attack_sums(struct rp_bundle *b, const char *attacked,
                                                const struct rp_key_pair *key)
{
    struct rp_err err;
    struct rp_buf *sums = attack_bytes(b, "SHA256SUMS"), *sig = attack_bytes(b, "SHA256SUMS.sig"),
                  *minisig = attack_bytes(b, "SHA256SUMS.minisig");
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

/* The document of a member as it is now; the honest one where that is none. */
static json_t *attack_document(const struct rp_bundle *b, const char *name, json_t *honest)
{
    struct rp_err err;
    const struct rp_buf *is = &rp_bundle_find(b, name)->bytes;
    json_t *j = rp_json_parse(is->data, is->size, name, &err);
    return j ? j : json_incref(honest);
}

/* The sums and the statement of a bundle with a bent member. What is seen before the predicate is read is seen whatever
 * that says. */
static void attack_seal(struct rp_bundle *b, json_t *honest_facts, json_t *honest_run, const struct bend *r,
                        const struct rp_key_pair *key)
{
    const int bent = r->check > RP_CHECK_predicate;
    RP_JSON *facts = bent ? attack_document(b, "facts.json", honest_facts) : json_incref(honest_facts);
    RP_JSON *run = bent ? attack_document(b, "run.json", honest_run) : json_incref(honest_run);
    attack_sums(b, r->member, key);
    attack_sign(b, facts, run, NULL, key);
}

/* Whose key sealed what is attacked. */
static const char *attack_signer(const struct bend *r)
{
    return r->level == LEFT ? "signer" : "attacker";
}

/* Bytes of the bundle at fx_path("attack"), which attack_signer() has sealed; its honest documents. */
static void attack_sealed(const struct bend *r, json_t *facts, json_t *run)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_FREE char *path = fx_path("attack");
    FX_KEY *key = fx_key(attack_signer(r));
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    if (r->level == ENVELOPE) {
        struct rp_envelope e;
        const struct rp_buf *is = attack_bytes(&b, "statement.dsse.json");
        CHECK(rp_dsse_parse(&e, is->data, is->size, &err) == 0, "%s", err.msg);
        bend_bytes(&e.payload, r);
        attack_sign(&b, NULL, NULL, &e.payload, key);
        rp_envelope_fini(&e);
    } else {
        bend_bytes(attack_bytes(&b, r->member), r);
    }
    if (r->level == SEALED)
        attack_seal(&b, facts, run, r, key);
    attack_pack(&b);
    rp_bundle_fini(&b);
}

/* What all figures are made from again. */
static void attack_source(struct fx *x, const struct bend *r)
{
    const int facts = strcmp(r->member, "facts.json") == 0;
    if (strcmp(r->member, "steps/rank0.jsonl") == 0)
        fx_bend(&x->steps, r->was, r->is);
    else
        bend_json(facts ? x->facts : strstr(r->member, "before") ? x->before : x->after, r);
    if (facts)
        fx_derive(x);
    else
        fx_compute(x);
    fx_seal(x, "attacker", "attack");
}

/* The pointer that the message on a forged figure names: where an element of a list is missing, the list. */
static char *attack_names(const struct bend *r)
{
    const size_t n = r->is ? strlen(r->was) : (size_t)(strrchr(r->was, '/') - r->was);
    return rp_asprintf("%.*s", n > 0 ? (int)n - 1 : 0, r->was + 1);
}

/* On the run of x, of which nothing is left afterwards. */
static __attribute__((unused)) void attack_on(struct fx *x, const struct bend *r)
{
    char print[RP_FINGERPRINT_SIZE];
    const int forged = r->level == SEALED && r->status == 5 && strcmp(r->member, "run.json") == 0 && *r->was == '/';
    RP_FREE char *names = forged ? attack_names(r) : NULL;
    FX_KEY *key = fx_key("signer");
    rp_key_fingerprint(key, print);
    if (r->level == COMPUTED) {
        attack_source(x, r);
    } else {
        fx_seal(x, attack_signer(r), "attack");
        attack_sealed(r, x->facts, x->run);
    }
    attack_expect_named(r->name, NULL, r->check, r->status, names);
    if (r->level != LEFT && r->check > RP_CHECK_key) /* and who asks for the honest signer never comes that far */
        attack_expect(r->name, print, RP_CHECK_key, 6);
}

static __attribute__((unused)) void attack(const struct bend *r)
{
    FX(x);
    attack_on(&x, r);
}

#define ATTACKS(rows)                                          \
    do {                                                       \
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) \
            attack(&rows[i]);                                  \
    } while (0)
