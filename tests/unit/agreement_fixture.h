/* A run and one that repeats it, as bundles. */
#pragma once

#include "run/agreement.h"
#include "tests/unit/verify_fixture.h"

/* fx_path("first.zst") and its verified parts, made once. */
static struct rp_verification first_v;
static struct rp_verified first_kept;

static char *first_file;

static void first_fini(void)
{
    rp_verification_fini(&first_v);
    rp_verified_fini(&first_kept);
    free(first_file);
}

static const char *first_path(void)
{
    struct rp_err err;
    if (first_file)
        return first_file;
    FX(x);
    fx_seal(&x, "alice.pem", "first.zst");
    first_file = fx_path("first.zst");
    atexit(first_fini);
    struct rp_verify_opts o = {.keep = &first_kept};
    int failed = rp_verify(&first_v, first_file, &o, &err);
    CHECK(failed == 0, "%s", err.msg);
    return first_file;
}

/* The second run says what it has to say of the first. */
static void say_agreement(struct fx *x)
{
    struct rp_err err;
    struct rp_records records;
    struct rp_agreement agreement;
    const struct rp_run *other = &first_kept.run;
    first_path();
    int failed = rp_records_parse(&records, x->steps.data, x->steps.size, &err);
    CHECK(failed == 0, "%s", err.msg);
    const struct rp_agreement_side first = {other->facts, other->figures, other->node[0].before, &other->records},
                                   here = {&x->doc->facts, &x->doc->figures, x->before, &records};
    CHECK(rp_agreement_derive(&agreement, &first, &here, &err) == 0, "%s", err.msg);
    json_object_set_new(x->facts, "replicates",
                        json_pack("{s:s, s:s, s:s}", "statement", first_v.statement, "bundle", "first.zst", "signer",
                                  first_v.fingerprint));
    json_object_set_new(x->run, "agreement", rp_object_json(&agreement, &rp_type_agreement));
    rp_object_fini(&agreement, &rp_type_agreement);
    rp_records_fini(&records);
}

/* Slower by a tenth, on a machine with another processor. */
static void second_run(struct fx *x)
{
    fx_init(x);
    fx_capture_both(x, "cpu", "model_name", json_string("Another | CPU"));
    rp_buf_fini(&x->steps);
    int64_t now = 7000000000;
    rp_buf_puts(&x->steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++) {
        fx_step(&x->steps, i, 1, 3, now, 110000000 + 1000003 * (i % 3), i == 6 ? 2000000 : 0);
        now += 114000000;
    }
    fx_keyed(&x->steps);
    fx_compute(x);
}

static __attribute__((unused)) struct fx second_new(void)
{
    struct fx x;
    second_run(&x);
    return x;
}

/* FX_SECOND(x); declares such a run, which ends with its block. */
#define FX_SECOND(x) __attribute__((cleanup(fx_fini))) struct fx x = second_new()

static void seal_second(const struct fx *x)
{
    fx_seal(x, "bob.pem", "second.zst");
}
