/* Bundles of several ranks by somebody who had fewer machines than they say: two nodes with two ranks each, every part
 * of which can be bent and sealed again. */
#include "tests/unit/attacks_world.h"

TEST(two_honest_nodes_verify)
{
    JOB(j);
    seal(&j);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_PASSED);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_PASSED);
}

/* A host that died left no capture, and no word on its exchange. */
TEST(a_run_whose_second_node_died_verifies)
{
    struct rp_err err = {0};
    JOB(j);
    json_t **const lost[] = {&j.node_after[1], &j.node_before[1]};
    for (int i = 0; i < 2; i++) {
        json_decref(*lost[i]);
        *lost[i] = json_null();
        CHECK(fx_documents(&j, "failed", "host 1 is gone", &err) == 0, "%s", err.msg);
        accepted(&j);
    }
    json_object_del(fx_rank(&j, 3), "exchange");
    accepted(&j);
}

/* ---- the two lists of ranks ---- */

/* One of four ranks, of two nodes, in one of the documents. */
static const struct bend lists[] = {
    {"a rank less among the facts", FACTS, "/rank/3", NULL, SEALED, RP_CHECK_schema, 4},
    {"a rank less among the figures", RUN, "/rank/3", NULL, SEALED, RP_CHECK_schema, 4},
    {"a rank more among the facts", FACTS, "/rank/4",
     "{\"node\": 1, \"cpus\": null, \"peak_rss_bytes\": null, \"no_telemetry\": null}", SEALED, RP_CHECK_schema, 4},
    {"a figure for a rank more", RUN, "/rank/4",
     "{\"samples_per_step\": 4, \"records_sha256\": \"" FX_ROOT
     "\", \"timed_s\": 0.5, \"exchange_s\": 0.01, \"wait_s\": null, \"overlap_s\": null}",
     SEALED, RP_CHECK_schema, 4},
    {"fewer ranks in the world", RUN, "/world/ranks", "3", SEALED, RP_CHECK_schema, 4},
    {"a slowest rank that there is not", RUN, "/world/slowest", "4", SEALED, RP_CHECK_schema, 4},
    {"another slowest rank", RUN, "/world/slowest", "1", SEALED, RP_CHECK_ranks, 5},
    {"a rank on a third node", FACTS, "/rank/3/node", "2", SEALED, RP_CHECK_schema, 4},
    {"three nodes in the world", RUN, "/world/nodes", "3", SEALED, RP_CHECK_schema, 4},
    {"a node less among the figures", RUN, "/node/1", NULL, SEALED, RP_CHECK_schema, 4},
    {"a node more among the figures", RUN, "/node/2", "{\"change\": []}", SEALED, RP_CHECK_schema, 4},
    {"all ranks on one node", FACTS, "/rank/2/node", "0", SEALED, RP_CHECK_ranks, 5},
    {"a node by a text", FACTS, "/rank/2/node", "\"1\"", SEALED, RP_CHECK_schema, 4},
    {"a rank that is null", FACTS, "/rank/2", "null", SEALED, RP_CHECK_schema, 4},
    {"a list of ranks that is an object", FACTS, "/rank", "{}", SEALED, RP_CHECK_schema, 4},
    {"one rank with a field of its own", FACTS, "/rank/2/speed", "\"fast\"", SEALED, RP_CHECK_schema, 4},
    {"one rank with a figure of its own", RUN, "/rank/2/throughput", "99.5", SEALED, RP_CHECK_schema, 4},
    {"the records of one rank", RUN, "/rank/2/records_sha256", "\"" FX_ROOT "\"", SEALED, RP_CHECK_ranks, 5},
    {"the time of one rank", RUN, "/rank/2/timed_s", "0.25", SEALED, RP_CHECK_ranks, 5},
    {"the waiting of one rank", RUN, "/rank/2/wait_s", "0.0", SEALED, RP_CHECK_ranks, 5},
    {"no word on the waiting of one rank", RUN, "/rank/2/wait_s", "null", SEALED, RP_CHECK_ranks, 5},
    {"the samples of one rank", RUN, "/rank/2/samples_per_step", "16", SEALED, RP_CHECK_ranks, 5},
    {"the device of one rank", FACTS, "/rank/2/device/threads", "4097", SEALED, RP_CHECK_environment, 5},
    {"no device of one rank", FACTS, "/rank/2/device", NULL, SEALED, RP_CHECK_environment, 5},
    {"the memory of one rank, figures left", FACTS, "/rank/2/peak_rss_bytes", "99345678", SEALED, RP_CHECK_ranks, 5},
    {"memory of a device that one rank has not", FACTS, "/rank/2/device_bytes", "{\"reserved\": 1, \"used\": 1}",
     SEALED, RP_CHECK_environment, 5},
    {"ceilings of another rank", FACTS, "/ceilings/rank", "1", SEALED, RP_CHECK_ceilings, 5},
    {"ceilings of a rank that there is not", FACTS, "/ceilings/rank", "4", SEALED, RP_CHECK_schema, 4},
    {"a change on the second node that was none", RUN, "/node/1/change/0",
     "{\"field\": \"cpu.model\", \"impact\": \"none\", \"varies\": true, \"before\": null, \"after\": null}", SEALED,
     RP_CHECK_changes, 5},
    {"changes on the second node taken out", RUN, "/node/1/change", "[]", SEALED, RP_CHECK_changes, 5},
    {"ranks that divide tensors", FACTS, "/layout", "{\"data\": 2, \"tensor\": 2, \"pipeline\": 1}", SEALED,
     RP_CHECK_numbers, 5},
    {"a layout for more ranks", FACTS, "/layout/pipeline", "2", SEALED, RP_CHECK_schema, 4},
    {"a process less", FACTS, "/process/1", NULL, SEALED, RP_CHECK_schema, 4},
};

TEST(attacks_on_two_lists_of_ranks)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        JOB(j);
        fx_compute(&j);
        attack_on(&j, &lists[i]);
    }
}

/* ---- clocks ---- */

static void set_clock(struct fx *j, int64_t offset, int64_t error)
{
    json_t *clock = member_of(j->processes, 1, "clock");
    json_object_set_new(clock, "monotonic_ns", json_integer(offset));
    json_object_set_new(clock, "error_ns", json_integer(error));
}

/* Whose steps begin and end by clocks that are hardly known, or differ from themselves. */
TEST(clocks_that_prove_nothing)
{
    JOB(j);
    set_clock(&j, OFFSET + 2000000000, 9999999999);
    seal(&j);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_WARNING);
    JOB(first);
    json_object_set_new(member_of(first.processes, 0, "clock"), "monotonic_ns", json_integer(7));
    caught(&first, RP_CHECK_schema, RP_MALFORMED);
}

/* The second node started so long after the first. */
static void set_start(struct fx *j, int64_t offset, int64_t error)
{
    set_clock(j, offset, error);
    for (int i = 2; i < RANKS; i++) {
        rp_buf_fini(&j->of_rank[i]);
        write_steps(&j->of_rank[i], i, offset);
    }
    set_machine(j->node_before[1], "sha256:" FF_ROOT, 5000.5, 9000000000);
    set_machine(j->node_after[1], "sha256:" FF_ROOT, 5003.75, 8900000000);
}

/* Two machines do not start in the same millisecond, where clocks are known as exactly. */
TEST(machines_with_one_clock)
{
    static const struct {
        int64_t offset, error;
        enum rp_check_state state;
    } rows[] = {{20000, 60000, RP_CHECK_WARNING},  {-20000, 60000, RP_CHECK_WARNING},
                {999999, 60000, RP_CHECK_WARNING}, {1000000, 60000, RP_CHECK_PASSED},
                {20000, 999999, RP_CHECK_WARNING}, {20000, 1000000, RP_CHECK_PASSED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        set_start(&j, rows[i].offset, rows[i].error);
        seal(&j);
        expect_state_of("sealed", RP_CHECK_same_host, rows[i].state);
    }
}

TEST(clocks_by_which_no_rank_waited_for_another)
{
    static const int64_t offsets[] = {0,       OFFSET + 200000000, OFFSET - 200000000,
                                      -OFFSET, (1ll << 62) - 1,    -(1ll << 62)};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        JOB(j);
        set_clock(&j, offsets[i], 60000);
        caught(&j, RP_CHECK_ranks, RP_MISMATCH);
    }
}

TEST(clocks_that_none_are)
{
    static const int64_t clocks[][2] = {{INT64_MIN, 0}, {INT64_MAX, 0}, {OFFSET, 3600000000000ll}, {OFFSET, INT64_MAX}};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        JOB(j);
        set_clock(&j, clocks[i][0], clocks[i][1]);
        caught(&j, RP_CHECK_schema, RP_MALFORMED);
    }
}

TEST(a_clock_that_was_not_measured_is_a_warning)
{
    JOB(j);
    set_clock(&j, 0, -1);
    seal(&j);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_WARNING);
}

/* ---- places ---- */

TEST(processes_that_do_not_have_the_ranks)
{
    static const struct {
        const char *key;
        int process, value;
        enum rp_check_id by;
        enum rp_code code;
    } rows[] = {{"first_rank", 1, 1, RP_CHECK_schema, RP_MALFORMED}, {"ranks", 1, 1, RP_CHECK_schema, RP_MALFORMED},
                {"ranks", 1, 3, RP_CHECK_schema, RP_MALFORMED},      {"ranks", 0, 4096, RP_CHECK_schema, RP_MALFORMED},
                {"host", 1, 0, RP_CHECK_ranks, RP_MISMATCH},         {"host", 0, 1, RP_CHECK_ranks, RP_MISMATCH},
                {"network_namespace", 1, 0, RP_CHECK_ranks, RP_MISMATCH},
                {"network_namespace", 1, 2, RP_CHECK_ranks, RP_MISMATCH},
                {"local_rank", 1, 2, RP_CHECK_ranks, RP_MISMATCH},   {"local_rank", 0, 1, RP_CHECK_ranks, RP_MISMATCH}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        json_object_set_new(json_array_get(j.processes, (size_t)rows[i].process), rows[i].key,
                            json_integer(rows[i].value));
        caught(&j, rows[i].by, rows[i].code);
    }
    JOB(j);
    json_array_clear(j.processes);
    caught(&j, RP_CHECK_ranks, RP_MISMATCH);
}

TEST(a_rank_on_a_node_of_another_process)
{
    JOB(j);
    fx_compute(&j);
    json_object_set_new(fx_rank(&j, 1), "node", json_integer(1));
    caught_as_bent(&j, RP_CHECK_ranks, RP_MISMATCH);
}

TEST(a_launcher_of_another_job)
{
    static const struct {
        const char *key;
        int value;
    } rows[] = {{"rank", 1}, {"size", 3}, {"size", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        json_object_set_new(j.launch, rows[i].key, json_integer(rows[i].value));
        caught(&j, RP_CHECK_ranks, RP_MISMATCH);
    }
    JOB(j);
    fx_compute(&j);
    json_object_del(j.facts, "launch");
    caught_as_bent(&j, RP_CHECK_ranks, RP_MISMATCH);
}

/* All of it as zeros. */
static void without_exchange_time(struct rp_buf *steps)
{
    static const char *const keys[] = {"\"exchange_ns\":", "\"wait_ns\":"};
    RP_BUF out = {0};
    for (const char *at = rp_buf_text(steps); *at;) {
        size_t n = 1;
        for (size_t k = 0; k < 2; k++)
            n = strncmp(at, keys[k], strlen(keys[k])) == 0 ? strlen(keys[k]) : n;
        rp_buf_add(&out, at, n);
        at += n;
        if (n > 1) {
            rp_buf_puts(&out, "0");
            at += strspn(at, "0123456789");
        }
    }
    rp_buf_fini(steps);
    *steps = out;
    out = (struct rp_buf){0};
}

/* More bytes than any link moves in the time, or none of it. */
TEST(exchanges_that_no_link_makes)
{
    JOB(j);
    set_exchange(&j, 1, "sent_bytes", json_integer(4000000000000000ll));
    caught(&j, RP_CHECK_ranks, RP_MISMATCH);
    JOB(k);
    without_exchange_time(&k.of_rank[2]);
    caught(&k, RP_CHECK_ranks, RP_MISMATCH);
}
