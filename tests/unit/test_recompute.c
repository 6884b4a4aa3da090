/* Every leaf of facts.json and run.json, one after the other, bent and signed by the right key: a check refuses each
 * one of run.json, and one of facts.json unless it stands in the list below, which is what `claims` and a replay are
 * for. */
#include "tests/unit/verify_fixture.h"

#include "base/build.h"

/* What a bundle of the fixture leaves to the signer, by the beginning of the path. Times are held within bounds that 1
 * % stays within; samples that are not called pinned are an understatement. */
static const char *const claimed[] = {"/recipe_name",
                                      "/data/digest",
                                      "/data/pinned",
                                      "/plan/available_bytes",
                                      "/rank/0/phases_s/",
                                      "/rank/0/device/name",
                                      "/ceilings/before/gemm/ns/0",
                                      "/ceilings/after/gemm/ns/0",
                                      "/elapsed_s",
                                      "/ledger/reason"};
static int used[sizeof claimed / sizeof *claimed];

static int is_claimed(const char *path)
{
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++)
        if (strncmp(path, claimed[i], strlen(claimed[i])) == 0) {
            used[i] = 1;
            return 1;
        }
    return 0;
}

static enum rp_check_state honest[RP_CHECK_COUNT];

static json_t *other(const json_t *v)
{
    const char *text = json_string_value(v);
    if (json_is_integer(v))
        return json_integer(json_integer_value(v) + 1);
    if (json_is_real(v))
        return json_real(json_real_value(v) * 1.01 + 1e-3);
    if (json_is_boolean(v))
        return json_boolean(!json_is_true(v));
    if (json_is_null(v))
        return NULL;
    RP_FREE char *bent = rp_strdup(text);
    if (*bent)
        bent[strlen(bent) / 2] = bent[strlen(bent) / 2] == '1' ? '2' : '1';
    return json_string(*bent ? bent : "x");
}

/* of_facts: the document, which may claim something. */
static void try(struct fx *x, int of_facts, json_t *parent, const char *key, size_t index, const char *path)
{
    struct rp_err err = {0};
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *file = fx_path("bent");
    RP_JSON *keep = json_incref(key ? json_object_get(parent, key) : json_array_get(parent, index));
    json_t *bent = other(keep);
    if (!bent)
        return;
    if (key)
        json_object_set_new(parent, key, bent);
    else
        json_array_set_new(parent, index, bent);
    fx_seal(x, "signer", "bent");
    int failed = rp_verify(&v, file, &o, &err) < 0;
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        failed |= v.check[i].state != honest[i]; /* a remark is an answer too */
    CHECK(failed != (of_facts && is_claimed(path)), "%s: %s", path, failed ? err.msg : "nobody minds");
    rp_verification_fini(&v);
    if (key)
        json_object_set(parent, key, keep);
    else
        json_array_set(parent, index, keep);
}

static void walk(struct fx *x, int of_facts, json_t *j, const char *path)
{
    const char *key;
    json_t *part;
    RP_JSON *names = json_object();
    if (json_is_object(j))
        json_object_update(names, j); /* the walk bends the original */
    json_object_foreach(names, key, part)
    {
        RP_FREE char *below = rp_asprintf("%s/%s", path, key);
        if (json_is_object(part) || json_is_array(part))
            walk(x, of_facts, part, below);
        else if (strncmp(path, "/recipe/", 8) != 0 ||
                 strncmp(path, "/recipe/train.", 14) == 0) /* settings are compared as a whole */
            try(x, of_facts, j, key, 0, below);
    }
    for (size_t i = 0; json_is_array(j) && i < json_array_size(j); i++) {
        RP_FREE char *below = rp_asprintf("%s/%zu", path, i);
        part = json_array_get(j, i);
        if (json_is_object(part) || json_is_array(part))
            walk(x, of_facts, part, below);
        else
            try(x, of_facts, j, NULL, i, below);
    }
}

TEST(every_leaf_is_recomputed_or_claimed)
{
    struct rp_err err;
    struct rp_verification v;
    struct rp_verify_opts o = {0};
    RP_FREE char *file = fx_path("bent");
    FX(x);
    fx_seal(&x, "signer", "bent");
    CHECK(rp_verify(&v, file, &o, &err) == 0, "%s", err.msg);
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        honest[i] = v.check[i].state;
    rp_verification_fini(&v);
    walk(&x, 0, x.run, "");
    walk(&x, 1, x.facts, "");
    for (size_t i = 0; i < sizeof claimed / sizeof *claimed; i++)
        CHECK(used[i], "%s is in the list of claims and not in facts.json", claimed[i]);
}

/* Sums that fit and do not follow: a note where another build may have planned it so, and refused where it was this
 * one. */
TEST(a_plan_of_memory_that_does_not_follow_is_found)
{
    static const char *const paths[] = {"plan/bytes/gradients", "plan/bytes/backend_buffers", "plan/host_bytes",
                                        "plan/max_batch"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        FX(x);
        expect_state(&x, RP_CHECK_memory, RP_CHECK_PASSED);
        set_path(x.facts, paths[i], json_integer(json_integer_value(rp_json_at(x.facts, paths[i])) + 4096));
        if (i < 3)
            set_path(x.facts, "plan/total_bytes", json_integer((json_int_t)x.doc->facts.plan.total_bytes + 4096));
        refused(&x, RP_CHECK_memory, RP_MISMATCH);
        fx_build.dirty = "dirty";
        expect_state_of("sealed", RP_CHECK_memory, RP_CHECK_NOTE);
        fx_build.dirty = "clean";
        fx_other_build(&x);
        expect_state(&x, RP_CHECK_memory, RP_CHECK_NOTE);
    }
}
