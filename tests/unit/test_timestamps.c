/* Bundles with time stamps: what `verify` makes of them, with and without the authority's certificates. */
#include "tests/unit/verify_fixture.h"
#include "tests/unit/tsa_fixture.h"

#include "sign/timestamp.h"

/* the run of the fixture, and the clock of whoever runs this, are earlier and later */
#define AFTER (1790000000 + 7200ll)
#define SECOND 1000000000ll

static void make_authority(struct tsa *t)
{
    tsa_make(t, (struct tsa_kind){.key = "EC", .until = 3650 * TSA_DAY});
}

static void stamp(struct rp_buf *out, const struct tsa *t, const struct rp_buf *of, struct tsa_stamp s)
{
    RP_BUF request = {0};
    struct rp_err err = {0};
    CHECK(rp_timestamp_request(&request, of, &err) == 0, "%s", err.msg);
    s.time = s.time ? s.time : AFTER;
    tsa_write(out, tsa_answer(t, &request, s));
}

static void put(struct rp_bundle *b, int number, const struct rp_buf *answer)
{
    char name[32];
    fx_add(b, RP_FORMAT(name, "timestamps/%d.tsr", number), answer->data, answer->size);
}

static void put_stamp(struct rp_bundle *b, int number, const struct tsa *t, struct tsa_stamp s)
{
    RP_BUF answer = {0};
    stamp(&answer, t, &rp_bundle_find(b, "statement.dsse.json")->bytes, s);
    put(b, number, &answer);
}

static struct rp_tsa_ca *ca_of(const struct tsa *t)
{
    RP_BUF pem = {0};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("ca.pem");
    tsa_root_pem(t, &pem);
    CHECK(rp_write_file(path, pem.data, pem.size, 0644, &err) == 0, "%s", err.msg);
    struct rp_tsa_ca *ca = rp_tsa_ca_load(path, &err);
    CHECK(ca, "%s", err.msg);
    return ca;
}

/* Verifies "stamped"; the caller frees *v. */
static void verify_with(struct rp_verification *v, const struct rp_tsa_ca *ca, enum rp_check_state state,
                        enum rp_code code)
{
    struct rp_verify_opts o = {.tsa_ca = ca};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path("stamped");
    int rc = rp_verify(v, path, &o, &err);
    CHECK(v->check[RP_CHECK_timestamps].state == state, "%s: %s",
          rp_check_state_name(v->check[RP_CHECK_timestamps].state), err.msg);
    CHECK((rc < 0) == (code != RP_OK) && err.code == code, "%s: %s", rp_code_name(err.code), err.msg);
    SAID(v->check[RP_CHECK_timestamps].text);
}

/* Hours before: its clock may be that fast, but that is not silent. */
TEST(a_run_that_ended_hours_after_its_stamp_is_a_warning)
{
    RP_BUNDLE b = {0};
    struct rp_verification v;
    TSA t = {0};
    make_authority(&t);
    RP_TSA_CA *ca = ca_of(&t);
    begin_amended(&b);
    put_stamp(&b, 0, &t, (struct tsa_stamp){.time = AFTER - 4 * 3600});
    finish_amended(&b, "stamped");
    verify_with(&v, ca, RP_CHECK_PASSED, RP_OK);
    CHECK(v.check[RP_CHECK_time].state == RP_CHECK_WARNING);
    SAID(v.check[RP_CHECK_time].text);
    rp_verification_fini(&v);
}

TEST(the_earliest_verified_stamp_counts)
{
    RP_BUNDLE b = {0};
    struct rp_verification v;
    TSA one = {0}, two = {0}, none = {0};
    make_authority(&one);
    make_authority(&two);
    make_authority(&none);
    begin_amended(&b);
    put_stamp(&b, 0, &one, (struct tsa_stamp){.time = AFTER + 60, .accuracy_s = 2});
    put_stamp(&b, 1, &one, (struct tsa_stamp){.time = AFTER + 30, .accuracy_s = 3, .accuracy_ms = 500});
    put_stamp(&b, 2, &two, (struct tsa_stamp){.time = AFTER});
    finish_amended(&b, "stamped");
    RP_TSA_CA *ca = ca_of(&one), *other = ca_of(&none);

    verify_with(&v, ca, RP_CHECK_NOTE, RP_OK); /* the third is by another authority */
    CHECK(v.stamped_ns == (AFTER + 34) * SECOND + SECOND / 2, "%lld", (long long)v.stamped_ns);
    const struct rp_timestamped_answer *row = v.timestamps->row;
    CHECK(row[0].checked && row[1].checked && !row[2].checked && row[2].valid);
    CHECK_STR(row[1].time, "2026-09-21T16:13:50Z");
    CHECK_STR(row[1].not_after, "2026-09-21T16:13:55Z"); /* at the end of the second that its time has */
    CHECK(row[1].accuracy_s == 3.5 && isnan(row[2].accuracy_s));
    CHECK_STR(row[1].serial, "ABC123");
    CHECK_STR(row[1].policy, "1.2.3.4.1");
    CHECK_STR(row[1].hash, "SHA-256");
    RP_JSON *j = rp_verification_json(&v);
    CHECK_STR(rp_json_text_at(j, "timestamps/1/serial"), "ABC123");
    CHECK(json_is_null(rp_json_at(j, "timestamps/2/accuracy_s")));
    rp_verification_fini(&v);

    verify_with(&v, NULL, RP_CHECK_NOTE, RP_OK);
    CHECK(v.stamped_ns == 0 && v.timestamps->row_n == 3 && !v.timestamps->row[0].checked, "a claim counts");
    rp_verification_fini(&v);

    verify_with(&v, other, RP_CHECK_FAILED, RP_SIGNATURE);
    CHECK(v.stamped_ns == 0 && v.verdict == RP_VERDICT_FAILED && v.timestamps->row[0].valid);
    rp_verification_fini(&v);
}

TEST(a_bundle_without_stamps)
{
    RP_BUNDLE b = {0};
    struct rp_verification v;
    TSA t = {0};
    make_authority(&t);
    begin_amended(&b);
    finish_amended(&b, "stamped");
    RP_TSA_CA *ca = ca_of(&t);
    verify_with(&v, NULL, RP_CHECK_NOT_APPLICABLE, RP_OK);
    CHECK(!v.timestamps && v.stamped_ns == 0);
    rp_verification_fini(&v);
    verify_with(&v, ca, RP_CHECK_NOT_APPLICABLE, RP_OK);
    rp_verification_fini(&v);
}

/* Attacks: each with and without the authority's certificate. */
static void refuse_bundle(struct rp_bundle *b, const struct rp_tsa_ca *ca, enum rp_code code)
{
    struct rp_verification v;
    finish_amended(b, "stamped");
    verify_with(&v, ca, RP_CHECK_FAILED, code);
    CHECK(v.stamped_ns == 0);
    rp_verification_fini(&v);
    verify_with(&v, NULL, RP_CHECK_FAILED, code);
    rp_verification_fini(&v);
}

TEST(stamps_that_do_not_belong_are_refused)
{
    RP_BUNDLE b = {0};
    RP_BUF foreign = {0}, good = {0};
    TSA t = {0};
    make_authority(&t);
    RP_TSA_CA *ca = ca_of(&t);

    begin_amended(&b); /* about another member */
    stamp(&foreign, &t, &rp_bundle_find(&b, "run.json")->bytes, (struct tsa_stamp){0});
    put(&b, 0, &foreign);
    refuse_bundle(&b, ca, RP_MISMATCH);

    begin_amended(&b); /* next to a good one */
    put_stamp(&b, 0, &t, (struct tsa_stamp){0});
    put(&b, 1, &foreign);
    refuse_bundle(&b, ca, RP_MISMATCH);

    begin_amended(&b); /* a number left out */
    put_stamp(&b, 1, &t, (struct tsa_stamp){0});
    refuse_bundle(&b, ca, RP_MALFORMED);

    begin_amended(&b);
    fx_add(&b, "timestamps/0.tsr", "", 0);
    refuse_bundle(&b, ca, RP_MALFORMED);

    begin_amended(&b); /* the signature */
    stamp(&good, &t, &rp_bundle_find(&b, "statement.dsse.json")->bytes, (struct tsa_stamp){0});
    good.data[good.size - 3] = (char)(good.data[good.size - 3] ^ 1);
    put(&b, 0, &good);
    refuse_bundle(&b, ca, RP_SIGNATURE);

    begin_amended(&b);
    for (int i = 0; i <= RP_TIMESTAMP_MAX; i++)
        put_stamp(&b, i, &t, (struct tsa_stamp){0});
    refuse_bundle(&b, ca, RP_MALFORMED);
}

/* An authority says that the bundle existed days before its run ended. */
TEST(a_run_that_ended_after_its_stamp_is_refused)
{
    RP_BUNDLE b = {0};
    struct rp_verification v;
    TSA t = {0};
    make_authority(&t);
    RP_TSA_CA *ca = ca_of(&t);
    begin_amended(&b);
    put_stamp(&b, 0, &t, (struct tsa_stamp){.time = AFTER - 3 * TSA_DAY});
    finish_amended(&b, "stamped");
    verify_with(&v, ca, RP_CHECK_PASSED, RP_MISMATCH);
    CHECK(v.check[RP_CHECK_time].state == RP_CHECK_FAILED);
    SAID(v.check[RP_CHECK_time].text);
    rp_verification_fini(&v);
    verify_with(&v, NULL, RP_CHECK_NOTE, RP_OK); /* by nobody's checked word */
    rp_verification_fini(&v);
}
