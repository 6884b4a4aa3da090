/* The nodes of a run of several as evidence: their captures, policies about them, and what pages show. */
#include "tests/unit/ranks.h"
#include "tests/unit/world_fixture.h"

#include "page/page.h"
#include "verify/state.h"

#include <time.h>

/* ---- captures of all nodes ---- */

/* Captures of a node that differ from those of the first; figures follow. */
static void set_node(struct fx *x, int node, const char *group, const char *name, json_t *before, json_t *after)
{
    json_decref(x->node_before[node]);
    json_decref(x->node_after[node]);
    x->node_before[node] = json_deep_copy(x->before);
    x->node_after[node] = json_deep_copy(x->after);
    if (before)
        fx_capture_value(x->node_before[node], group, name, before);
    if (after)
        fx_capture_value(x->node_after[node], group, name, after);
    fx_derive(x);
}

static void other_node(struct fx *x, const char *group, const char *name, json_t *before, json_t *after)
{
    set_node(x, 1, group, name, before, after);
}

TEST(captures_of_every_node_are_checked)
{
    FX(x);
    widen(&x, (struct width){.ranks = 2, .nodes = 2, .percent = 100});
    fx_compute(&x);
    fx_other_build(&x);
    other_node(&x, NULL, NULL, NULL, NULL);
    fx_capture_both(&x, "cpu", "flags", json_pack("[s, s, s, s]", "avx", "avx2", "fma", "f16c"));
    expect_state(&x, RP_CHECK_environment, RP_CHECK_PASSED);
    expect_state(&x, RP_CHECK_changes, RP_CHECK_PASSED);
    other_node(&x, "kernel", "release", json_string("6.1.0"), json_string("6.1.1"));
    refused(&x, RP_CHECK_same_host, RP_MISMATCH);
    /* which its rank could not run */
    other_node(&x, "cpu", "flags", json_pack("[s]", "sse2"), json_pack("[s]", "sse2"));
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    other_node(&x, "program", "compiler", json_string("another"), json_string("another"));
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    other_node(&x, "frequency", "governor", json_string("performance"), json_string("powersave"));
    expect_state(&x, RP_CHECK_changes, RP_CHECK_NOTE);
    other_node(&x, NULL, NULL, NULL, NULL);
    json_object_del(json_object_get(json_object_get(x.node_after[1], "probes"), "kernel"), "machine");
    refused(&x, RP_CHECK_environment, RP_MISMATCH);
    other_node(&x, NULL, NULL, NULL, NULL);
    json_object_set_new(x.node_before[1], "captured_at", json_string("2026-09-20T14:13:20Z"));
    json_object_set_new(x.node_after[1], "captured_at", json_string("2026-09-20T14:13:24Z"));
    refused(&x, RP_CHECK_same_host, RP_MISMATCH);
}

TEST(a_gpu_that_a_capture_has_twice)
{
    for (int same = 0; same < 2; same++) {
        FX(x);
        fx_gpus(&x, json_pack("{s:{s:{s:s, s:s, s:s}}, s:{s:{s:s, s:s, s:s}}}", "gpu0", "uuid", "state", "ok", "value",
                              "GPU-0", "source", "x", "gpu1", "uuid", "state", "ok", "value", same ? "GPU-0" : "GPU-1",
                              "source", "x"));
        fx_compute(&x);
        if (same)
            refused(&x, RP_CHECK_same_host, RP_MISMATCH);
        else
            expect_state(&x, RP_CHECK_same_host, RP_CHECK_PASSED);
    }
}

/* Whichever two of three nodes are one machine. */
TEST(any_two_nodes_with_one_boot_are_one_machine)
{
    static const struct {
        const char *boot; /* of each node */
        int machines;
    } rows[] = {{"abc", 3}, {"aac", 2}, {"aba", 2}, {"abb", 2}, {"aaa", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char rule[24];
        FX(x);
        widen(&x, (struct width){.ranks = 3, .nodes = 3, .percent = 125});
        x.processes = json_pack("[o, o, o]", fx_process(0, 1, 0, 0, 0), fx_process(1, 1, 1, 5000000, 60000),
                                fx_process(2, 1, 2, 9000000, 60000));
        fx_compute(&x);
        fx_other_build(&x);
        for (int node = 0; node < 3; node++) {
            const char boot[2] = {rows[i].boot[node]};
            if (node)
                set_node(&x, node, "host", "boot_id", json_string(boot), json_string(boot));
            else
                fx_capture_both(&x, "host", "boot_id", json_string(boot));
        }
        fx_derive(&x);
        expect_state(&x, RP_CHECK_same_host, rows[i].machines == 3 ? RP_CHECK_PASSED : RP_CHECK_WARNING);
        expect_policy("sealed", RP_FORMAT(rule, "min_nodes: %d\n", rows[i].machines), (struct rp_verify_opts){0}, 1);
        expect_policy("sealed", RP_FORMAT(rule, "min_nodes: %d\n", rows[i].machines + 1), (struct rp_verify_opts){0},
                      0);
    }
}

/* Ranks on two machines have the processors of both. */
TEST(peak_of_several_nodes)
{
    FX(x);
    widen(&x, (struct width){.ranks = 4, .nodes = 2, .percent = 100, .cpus = 2});
    fx_capture_both(&x, "frequency", "hardware_max", json_integer(2500000000));
    seal_world(&x, "sealed");
    expect_state_of("sealed", RP_CHECK_peak, RP_CHECK_PASSED);
    struct rp_captures node[] = {{x.before, x.after}, {x.before, x.after}};
    CHECK(rp_run_devices(&(struct rp_run){.facts = &x.doc->facts, .node = node, .nodes = 2}) == 4, "threads of both");
}

/* ---- policies ---- */

TEST(rules_for_worlds)
{
    RP_FREE char *one = fx_path("one");
    const struct rp_verify_opts none = {0}, base = {.baseline = one};
    wide("one", (struct width){.percent = 100});
    wide("many", (struct width){.ranks = 4, .nodes = 2, .percent = 125});
    expect_policy("many", "min_ranks: 4\nmin_nodes: 2\n", none, 1);
    expect_policy("many", "min_ranks: 5\n", none, 0);
    expect_policy("many", "min_nodes: 3\n", none, 0);
    expect_policy("one", "min_ranks: 2\n", none, 0);
    expect_policy("many", "min_efficiency_percent: 70\n", base, 1);
    expect_policy("many", "min_efficiency_percent: 95\n", base, 0);
    expect_policy("many", "min_efficiency_percent: 70\n", none, 0);
    expect_policy("one", "min_efficiency_percent: 70\n", base, 0);
}

/* What holds for node 0 alone does not hold. */
TEST(rules_look_at_every_node)
{
    static const char other[] = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    const struct rp_verify_opts none = {0};
    FX(x);
    widen(&x, (struct width){.ranks = 2, .nodes = 2, .percent = 125});
    fx_capture_both(&x, "frequency", "core_throttles", json_integer(7));
    fx_capture_both(&x, "program", "sha256", json_string(FX_ROOT));
    seal_world(&x, "unknown");
    expect_policy("unknown", "programs: [" FX_ROOT "]\n", none, 0);
    json_t *one;
    size_t i;
    json_array_foreach(json_object_get(x.facts, "process"), i, one)
        json_object_set_new(one, "program", json_string(FX_ROOT));
    fx_seal(&x, "signer", "alike");
    expect_policy("alike", "no_throttling: true\nprograms: [" FX_ROOT "]\n", none, 1);
    set_node(&x, 1, "frequency", "core_throttles", json_integer(7), json_integer(9));
    fx_seal(&x, "signer", "throttled");
    expect_policy("throttled", "no_throttling: true\n", none, 0);
    set_node(&x, 1, "program", "sha256", json_string(other), json_string(other));
    fx_seal(&x, "signer", "program");
    expect_policy("program", "programs: [" FX_ROOT "]\n", none, 0);
}

/* Marks of nodes, however many there are, are compared in time that does not grow with their pairs. */
TEST(thousands_of_invented_devices)
{
    FX(x);
    widen(&x, (struct width){.ranks = 4, .nodes = 4, .percent = 125});
    fx_compute(&x);
    fx_other_build(&x);
    for (int node = 1; node < 4; node++) {
        set_node(&x, node, NULL, NULL, NULL, NULL);
        for (int side = 0; side < 2; side++) {
            json_t *devices = json_object(), *capture = side ? x.node_after[node] : x.node_before[node];
            for (int i = 0; i < 4000; i++) {
                char name[24], uuid[48];
                json_object_set_new(devices, RP_FORMAT(name, "gpu%d", i),
                                    json_pack("{s:{s:s, s:s, s:s}}", "uuid", "state", "ok", "value",
                                              RP_FORMAT(uuid, "GPU-%d-%d", node, i), "source", "x"));
            }
            json_object_set_new(json_object_get(json_object_get(capture, "probes"), "gpu"), "devices", devices);
        }
    }
    fx_seal(&x, "signer", "devices");
    struct rp_verification v;
    struct rp_err err = {0};
    struct rp_verify_opts o = {0};
    RP_FREE char *path = fx_path("devices");
    struct timespec used[2];
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[0]);
    (void)!rp_verify(&v, path, &o, &err);
    CHECK(v.check[RP_CHECK_same_host].state != RP_CHECK_SKIPPED, "not looked at: %s", err.msg);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used[1]);
    CHECK(used[1].tv_sec - used[0].tv_sec < 5, "verify took %ld s of a processor",
          (long)(used[1].tv_sec - used[0].tv_sec));
    rp_verification_fini(&v);
}

/* ---- pages ---- */

static void page_of(struct rp_buf *out, const char *const *files, int n)
{
    __attribute__((cleanup(rp_page_bundles_free))) struct rp_page_bundles *all = rp_alloc(sizeof *all);
    struct rp_err err;
    for (int i = 0; i < n; i++) {
        RP_FREE char *path = fx_path(files[i]);
        CHECK(rp_page_bundles_add(all, path, (struct rp_verify_opts){0}, &err) == 0, "%s", err.msg);
    }
    rp_page_html(out, all->b, n);
}

static int count_of(const struct rp_buf *page, const char *what)
{
    int n = 0;
    for (const char *at = page->data; (at = strstr(at, what)); at++)
        n++;
    return n;
}

TEST(ranks_on_pages)
{
    RP_BUF one = {0}, few = {0}, many = {0}, both = {0};
    wide("one", (struct width){.percent = 100});
    wide("few", (struct width){.ranks = 4, .nodes = 2, .percent = 125});
    wide("many", (struct width){.ranks = 12, .percent = 140});
    page_of(&one, (const char *const[]){"one"}, 1);
    CHECK(!strstr(one.data, "id=\"b0-ranks\"") && !strstr(one.data, "rank-steps"), "ranks of one rank");
    page_of(&few, (const char *const[]){"few"}, 1);
    CHECK(strstr(few.data, "id=\"b0-rank-steps\"") && strstr(few.data, "id=\"b0-rank-wait\"") &&
              strstr(few.data, "rank-step"),
          "plots");
    CHECK(count_of(&few, "class=\"line r3\"") == 3 && count_of(&few, "class=\"line r4\"") == 0, "a line for each rank");
    page_of(&many, (const char *const[]){"many"}, 1);
    CHECK(count_of(&many, "class=\"line r2\"") == 3 && count_of(&many, "class=\"line r3\"") == 0, "the spread of many");
    page_of(&both, (const char *const[]){"few", "one"}, 2);
    CHECK(strstr(both.data, "80.0 %") && strstr(both.data, "3.20"), "speed-up of two bundles");
    CHECK(!strstr(few.data, "80.0 %"), "speed-up of one bundle");
}

/* What is alike is shown once; what differs is listed with its nodes, whoever wrote it. */
TEST(nodes_on_pages)
{
    static const char evil[] = "<script>alert(1)</script>";
    RP_BUF page = {0};
    const struct width w = {.ranks = 7, .nodes = 7, .percent = 125};
    FX(alike);
    widen(&alike, w);
    seal_world(&alike, "alike");
    page_of(&page, (const char *const[]){"alike"}, 1);
    CHECK(strstr(page.data, "No node differs") && strstr(page.data, "Alike: nodes 1-6.") &&
              count_of(&page, "<h4>Node ") == 1,
          "all alike");
    FX(x);
    widen(&x, w);
    fx_compute(&x);
    fx_other_build(&x);
    for (int node = 2; node < 4; node++)
        set_node(&x, node, "frequency", "governor", json_string(evil), json_string(evil));
    for (int node = 4; node < 7; node++)
        set_node(&x, node, "cpu", "cores", json_integer(node), json_integer(node));
    fx_seal(&x, "signer", "unlike");
    page.size = 0;
    page_of(&page, (const char *const[]){"unlike"}, 1);
    CHECK(count_of(&page, "<td>2-3</td>") == 1 && strstr(page.data, "&lt;script&gt;") && !strstr(page.data, "<script"),
          "a setting of two nodes");
    CHECK(!strstr(page.data, "No node differs") && count_of(&page, "<h4>Node ") == 4 &&
              strstr(page.data, "<h4>Node 6</h4>"),
          "kinds of nodes");
    CHECK(strstr(page.data, "Alike: nodes 1-3.") && !strstr(page.data, "Not drawn"), "nodes that are alike");
    CHECK(strstr(page.data, "env/node5.before.json#/probes/cpu/cores"), "a figure names its node");
    set_node(&x, 1, "cpu", "cores", json_integer(64), json_integer(64));
    fx_seal(&x, "signer", "many_kinds");
    page.size = 0;
    page_of(&page, (const char *const[]){"many_kinds"}, 1);
    CHECK(count_of(&page, "<h4>Node ") == 4 && strstr(page.data, "Not drawn: node 6."), "one kind too many");
}
