/* Challenges: the file, the seeds that follow from it, what it draws, and bundles that pretend to answer one. */
#include "tests/unit/verify_fixture.h"

#include "base/clock.h"
#include "sign/challenge.h"
#include "sign/dsse.h"
#include "sign/trust.h"
#include "verify/challenge/draw.h"
#include "verify/levels.h"

/* A challenge of that moment: the bytes of one made now, with another time, signed again. */
static void make_challenge(struct rp_buf *out, const char *key, const char *at)
{
    struct rp_err err;
    struct rp_envelope e;
    RP_BUF now = {0};
    FX_KEY *k = fx_key(key);
    CHECK(rp_challenge_make(&now, "a note", k, &err) == 0 && rp_dsse_parse(&e, now.data, now.size, &err) == 0, "%s", err.msg);
    char *was = strstr((char *)(uintptr_t)rp_buf_text(&e.payload), "\"at\": \"") + strlen("\"at\": \"");
    memcpy(was, at, strlen(at));
    CHECK(rp_dsse_seal(out, e.payload.data, e.payload.size, k, &err) == 0, "%s", err.msg);
    rp_envelope_fini(&e);
}

static struct rp_challenge read_challenge(const struct rp_buf *file)
{
    struct rp_challenge c;
    struct rp_err err;
    CHECK(rp_challenge_read(&c, file->data, file->size, &err) == 0, "%s", err.msg);
    return c;
}

TEST(a_challenge_names_its_maker_and_its_moment)
{
    RP_BUF file = {0};
    char print[RP_FINGERPRINT_SIZE];
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    struct rp_challenge c = read_challenge(&file);
    FX_KEY *k = fx_key("lab");
    rp_key_fingerprint(k, print);
    CHECK_STR(c.by, print);
    CHECK_STR(c.kind, "repro");
    CHECK_STR(c.note, "a note");
    CHECK(c.made_ns == 1789999200000000000u, "made %llu", (unsigned long long)c.made_ns);
}

TEST(every_changed_byte_of_a_challenge_is_refused)
{
    RP_BUF file = {0};
    struct rp_challenge c;
    struct rp_err err;
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    for (size_t i = 0; i < file.size; i++) {
        file.data[i] ^= 1;
        CHECK(rp_challenge_read(&c, file.data, file.size, &err) < 0, "byte %zu may be anything", i);
        file.data[i] ^= 1;
    }
    for (size_t n = 0; n < file.size; n += 7)
        CHECK(rp_challenge_read(&c, file.data, n, &err) < 0, "%zu bytes are enough", n);
    CHECK(rp_challenge_read(&c, file.data, file.size, &err) == 0, "%s", err.msg);
}

TEST(hostile_notes_and_sizes_are_refused)
{
    static const char *const notes[] = {"two\nlines", "an escape \033[2J", "\xe2\x80\xae", "\xff"};
    char longest[202];
    RP_BUF out = {0}, large = {0};
    struct rp_challenge c;
    struct rp_err err;
    fx_dir();
    FX_KEY *k = fx_key("lab");
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        CHECK(rp_challenge_make(&out, notes[i], k, &err) < 0 && err.code == RP_USAGE, "note %zu: %s", i, err.msg);
    memset(longest, 'n', 201);
    longest[201] = 0;
    CHECK(rp_challenge_make(&out, longest, k, &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
    longest[200] = 0;
    CHECK(rp_challenge_make(&out, longest, k, &err) == 0, "%s", err.msg);
    while (large.size <= RP_CHALLENGE_MAX)
        rp_buf_puts(&large, "{\"payloadType\": 1}\n");
    CHECK(rp_challenge_read(&c, large.data, large.size, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
}

/* The recipe of the fixture with a challenge's seeds. */
static void apply(struct rp_recipe *r, const struct rp_challenge *c, const char *setting)
{
    struct rp_err err;
    CHECK(rp_recipe_parse(r, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", &setting, setting != NULL, &err) == 0, "%s", err.msg);
    CHECK(rp_recipe_challenge(r, c->nonce, "SHA256:", &err) == 0, "%s", err.msg);
}

TEST(seeds_follow_from_nonce_recipe_and_key)
{
    RP_BUF one = {0}, two = {0};
    struct rp_recipe a, again, b;
    struct rp_err err;
    fx_dir();
    make_challenge(&one, "lab", "2026-09-21T14:00:00Z");
    make_challenge(&two, "lab", "2026-09-21T14:00:00Z");
    struct rp_challenge first = read_challenge(&one), second = read_challenge(&two);
    apply(&a, &first, NULL);
    apply(&again, &first, NULL);
    apply(&b, &second, NULL);
    CHECK(a.seed_init == again.seed_init && a.seed_data == again.seed_data && a.seed_dropout == again.seed_dropout, "not twice the same");
    CHECK(a.seed_init != b.seed_init && a.seed_data != b.seed_data && a.seed_dropout != b.seed_dropout, "the nonce does not matter");
    CHECK(a.seed_init != a.seed_data && a.seed_data != a.seed_dropout, "the key does not matter");
    CHECK(a.evidence_state_root_every == 1, "roots every %lld of 7 steps", (long long)a.evidence_state_root_every);
    rp_recipe_fini(&a);
    rp_recipe_fini(&again);
    rp_recipe_fini(&b);
    const char *own = "seed.init=7";
    CHECK(rp_recipe_parse(&a, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", &own, 1, &err) == 0, "%s", err.msg);
    CHECK(rp_recipe_challenge(&a, first.nonce, "SHA256:", &err) < 0 && err.code == RP_USAGE, "a seed of one's own: %s", err.msg);
    rp_recipe_fini(&a);
}

/* Every part is drawn, about as often as the others, and the statement matters. */
TEST(draws_reach_every_part)
{
    RP_BUF file = {0};
    int count[5] = {0};
    char statement[65];
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    struct rp_challenge c = read_challenge(&file);
    for (int i = 0; i < 1000; i++) {
        snprintf(statement, sizeof statement, "%064d", i);
        uint64_t part = rp_challenge_draw(&c, statement, 5);
        CHECK(part < 5 && part == rp_challenge_draw(&c, statement, 5), "part %llu", (unsigned long long)part);
        count[part % 5]++;
    }
    for (int i = 0; i < 5; i++)
        CHECK(count[i] > 140 && count[i] < 260, "part %d was drawn %d times of 1000", i, count[i]);
}

/* Before the run: a challenge of that moment by that key, and seeds that follow from it; "1000": the only root is the last one. */
static void accept_challenge(struct fx *x, const char *by, const char *at)
{
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    make_challenge(&x->challenge, by, at);
    struct rp_challenge c = read_challenge(&x->challenge);
    FX_SET(x, "evidence.state_root_every=1000");
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    CHECK(rp_recipe_challenge(&x->recipe, c.nonce, print, &err) == 0, "%s", err.msg);
}

/* An honest run that answers a challenge of that moment. */
static void answer(struct fx *x, const char *at)
{
    accept_challenge(x, "lab", at);
    fx_compute(x);
}

TEST(an_honest_answer_verifies)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    accepted(&x);
}

static void expect_bound(const char *received, enum rp_code code)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("sealed"), *member = fx_path("lab.challenge");
    struct rp_challenge c;
    RP_BUF bytes = {0};
    CHECK(rp_challenge_load(&c, &bytes, member, &err) == 0, "%s", err.msg);
    const struct rp_verify_opts o = {.challenge = &c, .received_ns = rp_rfc3339_seconds(received) * 1000000000};
    int rc = rp_verify(&v, path, &o, &err);
    CHECK(err.code == code, "%s: %s", received, err.msg);
    if (rc < 0)
        return;
    CHECK(v.timed.samples == 28 && v.timed.seconds == 40.0, "%lld samples in %g s", (long long)v.timed.samples, v.timed.seconds);
    struct rp_level l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_NO, "timed without a replay: %s", l.text);
    v.replayed = 7;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_PART, "a recipe of the signer's own: %s", l.text);
    CHECK_STR(v.own_setting, "recipe.yaml");
    *v.own_setting = 0; /* one of this program: tests/cli/verify/challenge.sh */
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_YES, "not timed: %s", l.text);
    v.replayed = 1;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_PART, "the first step is enough: %s", l.text);
    v.drawn = 1;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_YES, "a drawn step is not: %s", l.text);
}

TEST(the_challengers_clock_bounds_the_run)
{
    struct rp_err err;
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    fx_seal(&x, "signer", "sealed");
    RP_FREE char *path = fx_path("lab.challenge");
    CHECK(rp_write_file(path, x.challenge.data, x.challenge.size, 0644, &err) == 0, "%s", err.msg);
    expect_bound("2026-09-21T14:13:40Z", RP_OK);
    expect_bound("2026-09-21T14:13:00Z", RP_MISMATCH); /* before it was made */
}

TEST(less_time_outside_than_inside_is_refused)
{
    struct rp_err err;
    FX(x);
    answer(&x, "2026-09-21T14:13:20Z");
    fx_seal(&x, "signer", "sealed");
    RP_FREE char *path = fx_path("lab.challenge");
    CHECK(rp_write_file(path, x.challenge.data, x.challenge.size, 0644, &err) == 0, "%s", err.msg);
    expect_bound("2026-09-21T14:13:21Z", RP_MISMATCH); /* it took 2.5 s */
}

/* Who gave one challenge does not accept the answer to another one, or none. */
TEST(an_answer_to_another_challenge_is_refused)
{
    RP_BUF other = {0};
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    fx_seal(&x, "signer", "answered");
    make_challenge(&other, "lab", "2026-09-21T14:13:00Z");
    fx_again(&x);
    fx_seal(&x, "signer", "unasked");
    static const char *const files[] = {"answered", "unasked"};
    for (int i = 0; i < 2; i++) {
        struct rp_challenge c = read_challenge(&other);
        struct rp_verify_opts o = {.challenge = &c, .received_ns = rp_rfc3339_seconds("2026-09-21T14:13:40Z") * 1000000000};
        RP_VERIFICATION v = {0};
        struct rp_err err = {0};
        RP_FREE char *path = fx_path(files[i]);
        CHECK(rp_verify(&v, path, &o, &err) < 0 && err.code == RP_MISMATCH, "%s: %s", files[i], err.msg);
        CHECK(v.check[RP_CHECK_challenge].state == RP_CHECK_FAILED, "%s: %s", files[i], v.check[RP_CHECK_challenge].text);
        SAID(err.msg);
    }
}

TEST(nothing_is_drawn_of_a_run_without_roots_between_its_steps)
{
    RP_BUF file = {0}, steps = {0};
    struct rp_records rs = {0};
    struct rp_err err = {0};
    int64_t first, n;
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    struct rp_challenge c = read_challenge(&file);
    fx_records_until(&steps, 1, 3, 2, 5);
    CHECK(rp_records_parse(&rs, steps.data, steps.size, &err) == 0, "%s", err.msg);
    CHECK(rp_draw_part(&first, &n, &rs, &c, FX_ROOT, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    rp_records_fini(&rs);
}

/* ---- runs that answer a public value ---- */

static void answer_public_value(struct fx *x)
{
    struct rp_challenge c = read_challenge(&x->challenge);
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    FX_SET(x, "evidence.state_root_every=1000");
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    CHECK(rp_recipe_challenge(&x->recipe, c.nonce, print, &err) == 0, "%s", err.msg);
    fx_compute(x);
    fx_seal(x, "signer", "sealed");
}

/* How far the level timed comes if every step was replayed, and what the check says. */
static void expect_timed(const struct rp_challenge *given, enum rp_check_state state, enum rp_level_state reached)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("sealed");
    struct rp_verify_opts o = {.challenge = given,
                               .received_ns = rp_rfc3339_seconds("2026-09-21T14:13:40Z") * 1000000000};
    CHECK(rp_verify(&v, path, &o, &err) == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_challenge].state == state, "%s: %s", rp_check_state_name(v.check[RP_CHECK_challenge].state),
          v.check[RP_CHECK_challenge].text);
    SAID(v.check[RP_CHECK_challenge].text);
    v.replayed = 7;
    *v.own_setting = 0;
    struct rp_level l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == reached, "timed: %s", l.text);
}

/* Of a round the signature is not checked, and this one is made up. */
TEST(a_round_counts_in_part_and_only_if_the_verifier_gives_it)
{
    unsigned char signature[48] = {0x5a}, randomness[RP_SHA256_SIZE];
    char signature_hex[2 * sizeof signature + 1], randomness_hex[RP_SHA256_HEX];
    FX(x);
    rp_sha256_bytes(randomness, signature, sizeof signature);
    rp_hex(signature_hex, signature, sizeof signature);
    rp_hex(randomness_hex, randomness, sizeof randomness);
    rp_buf_printf(&x.challenge, "{\"round\": 32398872, \"randomness\": \"%s\", \"signature\": \"%s\"}", randomness_hex,
                  signature_hex);
    answer_public_value(&x);
    struct rp_challenge c = read_challenge(&x.challenge);
    CHECK(!c.proved && c.made_ns == (uint64_t)rp_rfc3339_seconds("2026-09-21T14:13:00Z") * 1000000000);
    expect_timed(NULL, RP_CHECK_NOTE, RP_LEVEL_NO);
    expect_timed(&c, RP_CHECK_PASSED, RP_LEVEL_PART);
}

TEST(a_block_counts_by_itself)
{
    struct rp_err err;
    FX(x);
    CHECK(rp_read_file(&x.challenge, "tests/vectors/public_values/bitcoin-840000.hex", RP_CHALLENGE_MAX, &err) == 0,
          "%s", err.msg);
    answer_public_value(&x);
    struct rp_challenge c = read_challenge(&x.challenge);
    CHECK(c.proved);
    expect_timed(NULL, RP_CHECK_PASSED, RP_LEVEL_YES);
    expect_timed(&c, RP_CHECK_PASSED, RP_LEVEL_YES);
}

/* ---- bundles by somebody who did not do what they say ---- */

/* The signer is trusted, and so is the key of the challenge: it is the same. */
TEST(a_challenge_by_the_signer_bounds_nothing)
{
    RP_VERIFICATION v = {0};
    struct rp_err err = {0};
    FX(x);
    accept_challenge(&x, "signer", "2026-09-21T14:13:00Z");
    fx_compute(&x);
    fx_seal(&x, "signer", "sealed");
    FX_KEY *k = fx_key("signer");
    CHECK(rp_trust_add("alice", NULL, k, &err) == 0, "%s", err.msg);
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){0}, &err) == 0 && v.timed.rate == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_challenge].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_challenge].text);
    rp_verification_fini(&v);
    struct rp_challenge c = read_challenge(&x.challenge); /* given with --challenge, by a verifier who got it from the signer */
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){.challenge = &c}, &err) == 0 && v.timed.rate == 0, "%s", err.msg);
    CHECK(v.check[RP_CHECK_challenge].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_challenge].text);
    CHECK(rp_trust_remove("alice", &err) == 0, "%s", err.msg);
}

/* Of somebody else, sealed again under another key: the seeds are another's. */
TEST(an_answer_that_was_copied_is_refused)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    fx_seal(&x, "copier", "sealed");
    expect("sealed", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH);
}

/* Steps after the last root are in no part that can be drawn. */
TEST(only_steps_up_to_the_last_root_count)
{
    struct rp_err err;
    FX(x);
    accept_challenge(&x, "lab", "2026-09-21T14:13:00Z");
    struct rp_challenge c = read_challenge(&x.challenge);
    rp_buf_fini(&x.steps);
    fx_records_until(&x.steps, 1, 3, 2, 5);
    CHECK(fx_documents(&x, "incomplete", "interrupted", &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "sealed");
    RP_VERIFICATION v = {0};
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){.challenge = &c}, &err) == 0, "%s", err.msg);
    CHECK(v.timed.samples == 0 && v.timed.rate == 0, "%lld samples", (long long)v.timed.samples);
}

TEST(a_run_that_began_before_its_challenge_is_refused)
{
    FX(x);
    answer(&x, "2026-09-21T15:13:00Z");
    refused(&x, RP_CHECK_challenge, RP_MISMATCH);
}

TEST(seeds_that_do_not_follow_are_refused)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    set_path(x.facts, "recipe/seed.data/value", json_integer(3));
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
}

TEST(an_older_run_with_a_challenge_put_in_is_refused)
{
    FX(x);
    make_challenge(&x.challenge, "lab", "2026-09-21T14:13:00Z");
    fx_compute(&x); /* with the seeds of the recipe */
    refused(&x, RP_CHECK_recipe, RP_MISMATCH);
}

TEST(another_nonce_or_moment_in_facts_json_is_refused)
{
    static const char *const changed[][2] = {{"made_at", "\"2026-09-21T14:13:10Z\""}, {"sha256", "\"" FX_ROOT "\""}, {"kind", "\"drand\""}};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++) {
        FX(x);
        answer(&x, "2026-09-21T14:13:00Z");
        json_object_set_new(json_object_get(x.facts, "challenge"), changed[i][0],
                            json_loads(changed[i][1], JSON_DECODE_ANY, NULL));
        refused(&x, RP_CHECK_challenge, RP_MISMATCH);
    }
}

TEST(a_challenge_without_its_file_or_its_entry_is_refused)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    struct rp_buf file = x.challenge;
    x.challenge = (struct rp_buf){0};
    refused(&x, RP_CHECK_challenge, RP_MISMATCH);
    x.challenge = file;
    json_object_del(x.facts, "challenge");
    refused(&x, RP_CHECK_recipe, RP_MISMATCH); /* its seeds follow from nothing */
}

TEST(a_damaged_challenge_is_refused)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    memcpy(strstr(x.challenge.data, "keyid"), "keyed", 5);
    refused(&x, RP_CHECK_challenge, RP_MISMATCH);
}
