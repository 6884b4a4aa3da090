/* Challenges: the file, the seeds that follow from it, what it draws, and bundles that pretend to answer one. */
#include "tests/unit/verify_fixture.h"

#include "base/clock.h"
#include "sign/challenge.h"
#include "sign/dsse.h"
#include "sign/trust.h"
#include "verify/challenge/draw.h"
#include "verify/levels.h"
#include "verify/replay/samples.h"

#include <math.h>

/* A challenge of that moment: the bytes of one made now, with another time, signed again. */
static void make_challenge(struct rp_buf *out, const char *key, const char *at)
{
    struct rp_err err;
    struct rp_envelope e;
    RP_BUF now = {0};
    FX_KEY *k = fx_key(key);
    CHECK(rp_challenge_make(&now, "a note", RP_PARTS_LEAST, k, &err) == 0 &&
              rp_dsse_parse(&e, now.data, now.size, &err) == 0,
          "%s", err.msg);
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
    CHECK(c.parts == 64, "%lld parts", (long long)c.parts);
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
        CHECK(rp_challenge_make(&out, notes[i], RP_PARTS_LEAST, k, &err) < 0 && err.code == RP_USAGE, "note %zu: %s", i,
              err.msg);
    memset(longest, 'n', 201);
    longest[201] = 0;
    CHECK(rp_challenge_make(&out, longest, RP_PARTS_LEAST, k, &err) < 0 && err.code == RP_USAGE, "%s", err.msg);
    longest[200] = 0;
    CHECK(rp_challenge_make(&out, longest, RP_PARTS_LEAST, k, &err) == 0, "%s", err.msg);
    CHECK(rp_challenge_make(&out, "", 63, k, &err) < 0 && err.code == RP_USAGE, "63 parts: %s", err.msg);
    CHECK(rp_challenge_make(&out, "", 4097, k, &err) < 0 && err.code == RP_USAGE, "4097 parts: %s", err.msg);
    while (large.size <= RP_CHALLENGE_MAX)
        rp_buf_puts(&large, "{\"payloadType\": 1}\n");
    CHECK(rp_challenge_read(&c, large.data, large.size, &err) < 0 && err.code == RP_MALFORMED, "%s", err.msg);
}

/* The recipe of the fixture with a challenge's seeds. */
static void apply(struct rp_recipe *r, const struct rp_challenge *c, const char *setting)
{
    struct rp_err err;
    CHECK(rp_recipe_parse(r, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", &setting, setting != NULL, &err) == 0,
          "%s", err.msg);
    CHECK(rp_recipe_challenge(r, c->nonce, c->parts, "SHA256:", &err) == 0, "%s", err.msg);
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
    CHECK(a.seed_init == again.seed_init && a.seed_data == again.seed_data && a.seed_dropout == again.seed_dropout,
          "not twice the same");
    CHECK(a.seed_init != b.seed_init && a.seed_data != b.seed_data && a.seed_dropout != b.seed_dropout,
          "the nonce does not matter");
    CHECK(a.seed_init != a.seed_data && a.seed_data != a.seed_dropout, "the key does not matter");
    CHECK(a.seed_perturbation && a.seed_perturbation != a.seed_init && a.seed_perturbation != b.seed_perturbation,
          "weights are not perturbed");
    CHECK(a.evidence_state_root_every == 1, "roots every %lld of 7 steps", (long long)a.evidence_state_root_every);
    rp_recipe_fini(&a);
    rp_recipe_fini(&again);
    rp_recipe_fini(&b);
    apply(&b, &second, "measure.repeats=333"); /* 1 + 3 * 333 steps */
    CHECK(b.evidence_state_root_every == 1000 / 64, "roots every %lld of 1000 steps",
          (long long)b.evidence_state_root_every);
    rp_recipe_fini(&b);
    const char *own = "seed.init=7";
    CHECK(rp_recipe_parse(&a, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", &own, 1, &err) == 0, "%s", err.msg);
    CHECK(rp_recipe_challenge(&a, first.nonce, first.parts, "SHA256:", &err) < 0 && err.code == RP_USAGE,
          "a seed of one's own: %s", err.msg);
    rp_recipe_fini(&a);
    own = "evidence.state_root_every=500"; /* few parts of which one is drawn */
    CHECK(rp_recipe_parse(&a, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", &own, 1, &err) == 0, "%s", err.msg);
    CHECK(rp_recipe_challenge(&a, first.nonce, first.parts, "SHA256:", &err) < 0 && err.code == RP_USAGE,
          "parts of one's own: %s", err.msg);
    rp_recipe_fini(&a);
}

/* Records of n steps with a root after every `every` of them, and after the last. */
static void make_records(struct rp_records *rs, int n, int every)
{
    struct rp_err err;
    RP_BUF text = {0};
    fx_root_every = every;
    fx_records(&text, 1, n - 1, 1);
    fx_root_every = 0;
    CHECK(rp_records_parse(rs, text.data, text.size, &err) == 0, "%s", err.msg);
}

/* Every part is drawn, about as often as the others, none twice, and the statement matters. */
TEST(draws_reach_every_part)
{
    RP_BUF file = {0};
    int count[5] = {0}, same = 0;
    struct rp_records rs;
    struct rp_err err;
    char statement[65];
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    make_records(&rs, 14, 3); /* 3, 3, 3, 3 and 2 steps */
    struct rp_challenge c = read_challenge(&file);
    for (int i = 0; i < 1000; i++) {
        RP_DRAW d = {0}, again = {0};
        snprintf(statement, sizeof statement, "%064d", i);
        CHECK(rp_draw_parts(&d, &rs, &c, statement, 2, &err) == 0 &&
                  rp_draw_parts(&again, &rs, &c, statement, 2, &err) == 0,
              "%s", err.msg);
        CHECK(d.parts == 5 && d.n == 2 && d.part[0].first < d.part[1].first, "%d of %lld parts", d.n,
              (long long)d.parts);
        for (int k = 0; k < 2; k++) {
            same += d.part[k].first == again.part[k].first;
            CHECK(d.part[k].first % 3 == 0 && d.part[k].first < 14 &&
                      d.part[k].steps == (d.part[k].first == 12 ? 2 : 3),
                  "part at %lld of %lld", (long long)d.part[k].first, (long long)d.part[k].steps);
            count[d.part[k].first / 3 % 5]++;
        }
    }
    CHECK(same == 2000, "the same draw gives other parts");
    for (int i = 0; i < 5; i++)
        CHECK(count[i] > 320 && count[i] < 480, "part %d was drawn %d times of 1000", i, count[i]);
    rp_records_fini(&rs);
}

/* A run of `steps` steps that skipped half of them, in the longest parts, against the probability that is stated. */
static void try_odds(int steps, int every, int draws, double least, double most)
{
    RP_BUF file = {0};
    struct rp_records rs;
    struct rp_err err;
    char statement[65];
    double stated = 0;
    int missed = 0, trials = 4000;
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    make_records(&rs, steps, every);
    struct rp_challenge c = read_challenge(&file);
    for (int i = 0; i < trials; i++) {
        RP_DRAW d = {0};
        int found = 0;
        snprintf(statement, sizeof statement, "%064d", i);
        CHECK(rp_draw_parts(&d, &rs, &c, statement, draws, &err) == 0, "%s", err.msg);
        for (int k = 0; k < d.n; k++)
            found |= d.part[k].first < steps / 2; /* its last part is the shorter one */
        missed += !found;
        stated = d.undetected;
    }
    CHECK(stated >= least && stated <= most, "%d draws of %d steps: %g is stated", draws, steps, stated);
    const double off = fabs((double)missed / trials - stated), deviation = sqrt(stated * (1 - stated) / trials);
    CHECK(off <= 5 * deviation, "%d draws of %d steps: %d of %d missed, stated is %g",
          draws, steps, missed, trials, stated);
    rp_records_fini(&rs);
}

TEST(odds_are_those_of_a_run_that_skipped_half)
{
    fx_dir();
    try_odds(64, 1, 7, 1 / 185.0, 1 / 184.0);
    try_odds(64, 1, 6, 0.0120, 0.0121); /* more than 1 in 100 */
    try_odds(128, 2, 7, 1 / 185.0, 1 / 184.0);
    try_odds(64, 1, 1, 0.5, 0.5);
    try_odds(8, 1, 2, 3 / 14.0 - 1e-9, 3 / 14.0 + 1e-9);
    try_odds(8, 1, 5, 0, 0); /* one of five is among the four skipped */
    try_odds(3, 1, 7, 0, 0);  /* all are drawn */
}

static void record_parts(struct fx *x)
{
    fx_root_every = 1;
    rp_buf_fini(&x->steps);
    fx_records(&x->steps, 1, 3, 2);
    fx_root_every = 0;
}

/* Before the run: a challenge of that moment by that key, and seeds that follow from it; each step is a part. */
static void accept_challenge(struct fx *x, const char *by, const char *at)
{
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    make_challenge(&x->challenge, by, at);
    struct rp_challenge c = read_challenge(&x->challenge);
    record_parts(x);
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    CHECK(rp_recipe_challenge(&x->recipe, c.nonce, c.parts, print, &err) == 0, "%s", err.msg);
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
    CHECK(v.timed.samples == 28 && v.timed.seconds == 40.0, "%lld samples in %g s", (long long)v.timed.samples,
          v.timed.seconds);
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
    v.parts = 64;
    v.replayed_parts = 6;
    v.undetected = 0.0121;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_PART && strstr(l.text, "1 in 82"), "six parts of 64 are enough: %s", l.text);
    SAID(l.text);
    v.replayed_parts = 7;
    v.undetected = 1 / 184.5;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_YES && strstr(l.text, "1 in 184"), "seven are not: %s", l.text);
    v.repeated = 0.25;
    l = rp_level_of(&v, RP_LEVEL_timed);
    CHECK(l.state == RP_LEVEL_PART, "samples that a step has twice: %s", l.text);
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
        struct rp_verify_opts o = {.challenge = &c,
                                   .received_ns = rp_rfc3339_seconds("2026-09-21T14:13:40Z") * 1000000000};
        RP_VERIFICATION v = {0};
        struct rp_err err = {0};
        RP_FREE char *path = fx_path(files[i]);
        CHECK(rp_verify(&v, path, &o, &err) < 0 && err.code == RP_MISMATCH, "%s: %s", files[i], err.msg);
        CHECK(v.check[RP_CHECK_challenge].state == RP_CHECK_FAILED, "%s: %s", files[i],
              v.check[RP_CHECK_challenge].text);
        SAID(err.msg);
    }
}

TEST(nothing_is_drawn_of_a_run_without_roots_between_its_steps)
{
    RP_BUF file = {0}, steps = {0};
    struct rp_records rs = {0};
    struct rp_err err = {0};
    RP_DRAW d = {0};
    fx_dir();
    make_challenge(&file, "lab", "2026-09-21T14:00:00Z");
    struct rp_challenge c = read_challenge(&file);
    fx_records_until(&steps, 1, 3, 2, 5);
    CHECK(rp_records_parse(&rs, steps.data, steps.size, &err) == 0, "%s", err.msg);
    CHECK(rp_draw_parts(&d, &rs, &c, FX_ROOT, 1, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    rp_records_fini(&rs);
}

/* ---- samples that a step has twice ---- */

static struct rp_recipe recipe_of(const char *text)
{
    struct rp_recipe r;
    struct rp_err err;
    CHECK(rp_recipe_parse(&r, text, strlen(text), "r.yaml", "cpu", NULL, 0, &err) == 0, "%s: %s", text, err.msg);
    return r;
}

TEST(samples_are_distinct_with_dropout_or_crops)
{
    static const struct {
        const char *text;
        int distinct;
    } cases[] = {
        {"workload: bert\n", 1},
        {"workload: bert\nmodel: {hidden_dropout_prob: 0, attention_probs_dropout_prob: 0}\n", 0},
        {"workload: gpt\nmodel: {hidden_dropout_prob: 0, attention_probs_dropout_prob: 0, embedding_dropout_prob: 0}\n",
         0},
        {"workload: gpt\nmodel: {hidden_dropout_prob: 0, attention_probs_dropout_prob: 0, embedding_dropout_prob: "
         "0.1}\n",
         1},
        {"workload: resnet50\n", 1},
        {"workload: resnet50\ndata: {augment: none}\n", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_recipe r = recipe_of(cases[i].text);
        CHECK(rp_samples_are_distinct(&r) == cases[i].distinct, "%s", cases[i].text);
        rp_recipe_fini(&r);
    }
}

TEST(samples_that_a_step_has_twice_are_counted)
{
    struct rp_recipe r = recipe_of("workload: bert\ndata: {shuffle: false}\n"),
                     shuffled = recipe_of("workload: bert\n");
    int64_t most = 0, all = 0;
    CHECK(rp_samples_repeated(&r, 0, 40, 32) == 8 && rp_samples_repeated(&r, 5, 96, 32) == 64,
          "a step of more samples than there are");
    CHECK(rp_samples_repeated(&r, 0, 32, 32) == 0 && rp_samples_repeated(&r, 3, 8, 32) == 0, "whole epochs");
    CHECK(rp_samples_repeated(&r, 1, 20, 32) == 0, "in the order of the files 20 follow each other");
    for (int step = 0; step < 64; step++) {
        const int64_t n = rp_samples_repeated(&shuffled, step, 20, 32);
        CHECK(n <= 10 && (n == 0 || step * 20 / 32 != (step * 20 + 19) / 32), "step %d has %lld twice", step,
              (long long)n);
        most = n > most ? n : most;
        all += n;
    }
    CHECK(most > 2 && all > 64, "at most %lld of 20 samples at the end of an epoch, %lld in all", (long long)most,
          (long long)all);
    rp_recipe_fini(&r);
    rp_recipe_fini(&shuffled);
}

/* ---- runs that answer a public value ---- */

static void answer_public_value(struct fx *x)
{
    struct rp_challenge c = read_challenge(&x->challenge);
    struct rp_err err;
    char print[RP_FINGERPRINT_SIZE];
    record_parts(x);
    FX_KEY *k = fx_key("signer");
    rp_key_fingerprint(k, print);
    CHECK(rp_recipe_challenge(&x->recipe, c.nonce, c.parts, print, &err) == 0, "%s", err.msg);
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

/* The signature of a round is not checked, and this one is made up. */
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
    /* given with --challenge, by a verifier who got it from the signer */
    struct rp_challenge c = read_challenge(&x.challenge);
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){.challenge = &c}, &err) == 0 && v.timed.rate == 0, "%s",
          err.msg);
    CHECK(v.check[RP_CHECK_challenge].state == RP_CHECK_NOTE, "%s", v.check[RP_CHECK_challenge].text);
    CHECK(rp_trust_remove("alice", &err) == 0, "%s", err.msg);
}

/* Another's answer, sealed again under another key: the seeds are not its own. */
TEST(an_answer_that_was_copied_is_refused)
{
    FX(x);
    answer(&x, "2026-09-21T14:13:00Z");
    fx_seal(&x, "copier", "sealed");
    expect("sealed", NULL, RP_VERDICT_FAILED, RP_CHECK_recipe, RP_MISMATCH);
}

/* Steps after the last root are in no part that can be drawn: of 1 + 3 * 50 every second one has a root. */
TEST(only_steps_up_to_the_last_root_count)
{
    struct rp_err err;
    FX(x);
    FX_SET(&x, "measure.repeats=50");
    accept_challenge(&x, "lab", "2026-09-21T14:13:00Z");
    struct rp_challenge c = read_challenge(&x.challenge);
    rp_buf_fini(&x.steps);
    fx_root_every = 2;
    fx_records_until(&x.steps, 1, 3, 50, 5);
    fx_root_every = 0;
    CHECK(fx_documents(&x, "incomplete", "interrupted", &err) == 0, "%s", err.msg);
    fx_seal(&x, "signer", "sealed");
    RP_VERIFICATION v = {0};
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_verify(&v, path, &(struct rp_verify_opts){.challenge = &c}, &err) == 0, "%s", err.msg);
    CHECK(v.timed.samples == 16, "%lld samples", (long long)v.timed.samples);
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
    static const char *const changed[][2] = {
        {"made_at", "\"2026-09-21T14:13:10Z\""}, {"sha256", "\"" FX_ROOT "\""}, {"kind", "\"drand\""}};
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
