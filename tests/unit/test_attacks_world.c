/* Bundles of several ranks by somebody who had fewer machines than they say: two nodes with two ranks each, every part of which can be
 * bent and sealed again. */
#include "tests/unit/attack.h"

#include "base/text.h"
#include "comm/comm.h"
#include "train/train.h"
#include "verify/state.h"
#include "worker/worker.h"

#define RANKS 4
#define NODES 2
#define OFFSET 3600000000000ll /* of the second node's monotonic clock: it started an hour earlier */
#define FACTS "facts.json"
#define RUN "run.json"
#define FF_ROOT "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* The steps of a rank, which are about 100 ms long and end within microseconds of those of the others. */
static void write_steps(struct rp_buf *out, int rank, int64_t offset)
{
    int64_t now = 5000000000ll + offset + 10007 * rank;
    rp_buf_printf(out, "{\"phase\":\"init\",\"rank\":%d,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n", rank);
    for (int i = 0; i < 7; i++) {
        const int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7) + 1013 * rank * (i + 1), root = i == 6 ? 2000000 : 0;
        rp_buf_printf(out, "{\"counters\":{\"padded_tokens\":64,\"tokens\":%d},\"end_ns\":%lld,\"exchange_ns\":%d,\"grad_norm\":\"0x1.%dp+1\","
                           "\"input_ns\":%d,\"learning_rate\":%.17g,\"loss\":\"0x1.%dp+2\",\"loss_parts\":{\"mlm\":\"0x1.%dp+2\",\"nsp\":\"0x0p+0\"},"
                           "\"phase\":\"%s\",\"rank\":%d,\"repeat\":%d,",
                      50 + i, (long long)(now + ns), 900001 + 11 * i + rank, i % 9 + 1, 300000 + 1001 * i, fx_rate(i), 9 - i, 9 - i,
                      i < 1 ? "warm-up" : "timed", rank, i < 1 ? 0 : (i - 1) / 3);
        if (root)
            rp_buf_printf(out, "\"root_ns\":%lld,", (long long)root);
        rp_buf_printf(out, "\"samples\":4,\"start_ns\":%lld,%s\"step\":%d,\"wait_ns\":%d}\n", (long long)now,
                      root ? "\"state_root\":\"" FX_ROOT "\"," : "", i, 5000 + i + rank);
        now += ns + 1000000;
    }
}

static void set_machine(json_t *capture, const char *boot, double uptime, long long available)
{
    fx_capture_value(capture, "host", "boot_id", json_string(boot));
    fx_capture_value(capture, "kernel", "uptime", json_real(uptime));
    fx_capture_value(capture, "memory", "available", json_integer(available));
    fx_capture_value(capture, "memory", "free", json_integer(available / 2 + 4096));
}

static void set_device(struct fx *x, int rank, const char *device)
{
    json_decref(x->hello[rank]);
    x->hello[rank] = json_pack("{s:o}", "device", fx_device(device));
}

/* Of what the last record of a rank has of its exchanges. */
static void set_exchange(struct fx *x, int rank, const char *key, json_t *value)
{
    if (!x->ended[rank])
        x->ended[rank] = json_pack("{s:{}}", "exchange");
    json_object_set_new(json_object_get(x->ended[rank], "exchange"), key, value);
}

/* What a rank sends in all its steps, by which nobody was faster than a link is. */
static void set_sent(struct fx *x, const int *host, int rank)
{
    struct rp_comm place = fx_place(x, host, rank);
    struct rp_exchange_sizes n = {0};
    struct rp_err err;
    CHECK(rp_train_exchange_at(&n, &x->recipe, &place, &err) == 0, "%s", err.msg);
    CHECK(n.levels == 2 && (n.between_bytes > 0 || rank % 2 == 0), "rank %d: %d levels", rank,
          n.levels); /* the share of others is empty */
    set_exchange(x, rank, "sent_bytes", json_integer((json_int_t)n.sent_bytes * 7 + 1000));
}

static struct fx job_new(void)
{
    static const int host[RANKS] = {0, 0, 1, 1};
    struct fx x;
    fx_init(&x);
    FX_SET(&x, "train.accumulation_steps=4");
    x.ranks = RANKS;
    x.nodes = NODES;
    x.node_before[1] = fx_capture("2026-09-21T14:13:20Z");
    x.node_after[1] = fx_capture("2026-09-21T14:13:23Z");
    set_machine(x.before, "sha256:" FX_ROOT, 5000.25, 8000000000);
    set_machine(x.after, "sha256:" FX_ROOT, 5003.5, 7900000000);
    set_machine(x.node_before[1], "sha256:" FF_ROOT, 8600.5, 9000000000);
    set_machine(x.node_after[1], "sha256:" FF_ROOT, 8603.75, 8900000000);
    for (int i = 0; i < RANKS; i++) {
        write_steps(&x.of_rank[i], i, i / 2 * OFFSET);
        set_device(&x, i, "isa=avx2 threads=1");
        set_sent(&x, host, i);
    }
    x.processes = json_pack("[o, o]", fx_process(0, 2, 0, 0, 0), fx_process(2, 2, 1, OFFSET, 60000));
    x.launch = json_pack("{s:s, s:s, s:i, s:i}", "kind", "ranks", "launcher", "openmpi", "rank", 0, "size", 2);
    return x;
}
#define JOB(x) __attribute__((cleanup(fx_fini))) struct fx x = job_new()

/* From the parts as they are now. */
static void seal(struct fx *x)
{
    fx_compute(x);
    fx_seal(x, "signer", "sealed");
}

static void caught(struct fx *x, enum rp_check_id by, enum rp_code code)
{
    fx_compute(x);
    refused(x, by, code);
}

/* Of facts that were bent. */
static void caught_as_bent(struct fx *x, enum rp_check_id by, enum rp_code code)
{
    fx_derive(x);
    refused(x, by, code);
}

static json_t *member_of(json_t *list, int i, const char *key)
{
    return json_object_get(json_array_get(list, (size_t)i), key);
}

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
     "\", \"timed_s\": 0.5, \"exchange_s\": 0.01, \"wait_s\": null, "
     "\"overlap_s\": null}",
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
    } rows[] = {{20000, 60000, RP_CHECK_WARNING},   {-20000, 60000, RP_CHECK_WARNING}, {999999, 60000, RP_CHECK_WARNING},
                {1000000, 60000, RP_CHECK_PASSED},  {20000, 999999, RP_CHECK_WARNING}, {20000, 1000000, RP_CHECK_PASSED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        set_start(&j, rows[i].offset, rows[i].error);
        seal(&j);
        expect_state_of("sealed", RP_CHECK_same_host, rows[i].state);
    }
}

TEST(clocks_by_which_no_rank_waited_for_another)
{
    static const int64_t offsets[] = {0, OFFSET + 200000000, OFFSET - 200000000, -OFFSET, (1ll << 62) - 1, -(1ll << 62)};
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
        json_object_set_new(json_array_get(j.processes, (size_t)rows[i].process), rows[i].key, json_integer(rows[i].value));
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

/* ---- devices ---- */

TEST(devices_that_the_captures_do_not_have)
{
    JOB(j);
    fx_capture_value(j.node_before[1], "cpu", "threads", json_integer(2));
    set_device(&j, 3, "isa=avx2 threads=64");
    caught(&j, RP_CHECK_environment, RP_MISMATCH);
    set_device(&j, 3, "gpu0 NVIDIA H100 PCIe sm_90");
    caught(&j, RP_CHECK_environment, RP_MISMATCH);
    set_device(&j, 3, "isa=avx2 threads=1");
    set_device(&j, 0, "isa=avx512 threads=1");
    caught(&j, RP_CHECK_environment, RP_MISMATCH);
}

/* Rank 1 is of the process whose settings are in run.json, ranks 2 and 3 may have others. */
TEST(devices_that_the_settings_do_not_allow)
{
    static const char *const devices[] = {"isa=avx2 threads=2", "isa=scalar threads=1"};
    for (size_t i = 0; i < 2; i++) {
        JOB(j);
        FX_SET(&j, "train.accumulation_steps=4", "run.threads=1");
        if (i == 0) {
            set_device(&j, 3, devices[0]);
            seal(&j);
            accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
        }
        set_device(&j, 1, devices[i]);
        caught(&j, RP_CHECK_environment, RP_MISMATCH);
    }
}

/* Processors that ranks of a node could run on, all together. */
TEST(processors_of_a_node)
{
    static const struct {
        const char *cpus[3];
        int most, expected;
    } rows[] = {{{"0", "0", "7"}, 8, 1}, {{"0-1", "1,3", "7"}, 8, 3}, {{"0-7", "0", "7"}, 2, 2}, {{NULL, "0", "7"}, 8, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_facts facts = {.backend = (char *)"cpu"};
        for (int k = 0; k < 3; k++) {
            struct rp_rank_facts *rank = rp_object_add(&facts.rank, &facts.rank_n, &rp_type_rank_facts);
            rank->node = k / 2;
            rank->cpus = rp_text_copy(rows[i].cpus[k]);
        }
        const int n = rp_run_processors(&(struct rp_run){.facts = &facts}, 0, rows[i].most);
        facts.backend = NULL;
        rp_object_fini(&facts, &rp_type_facts);
        CHECK(n == rows[i].expected, "row %zu: %d", i, n);
    }
}

/* The second process numbers its GPUs from 0 too. */
TEST(gpus_of_two_nodes_verify)
{
    JOB(j);
    char gpu[64];
    j.backend = "cuda";
    json_t *const second[] = {j.node_before[1], j.node_after[1]};
    for (int i = 0; i < 2; i++)
        json_object_set_new(json_object_get(json_object_get(second[i], "probes"), "gpu"), "devices",
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value", "NVIDIA H100 PCIe", "source", "NVML"));
    for (int i = 0; i < RANKS; i++) {
        set_device(&j, i, RP_FORMAT(gpu, "gpu%d NVIDIA H100 PCIe sm_90", i % 2));
    }
    fx_capture_both(&j, "nvidia", "version", json_string("570.86.10"));
    for (int i = 0; i < 2; i++)
        fx_capture_value(second[i], "nvidia", "version", json_string("570.9"));
    seal(&j);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    const struct rp_verify_opts none = {0};
    static const struct {
        const char *rule;
        int holds;
    } rules[] = {
        {"min_devices: 4", 1}, {"min_devices: 5", 0},  {"device_models: [NVIDIA H200, NVIDIA H100 PCIe]", 1},
        {"min_driver: 570", 1}, {"min_driver: 570.9", 1}, {"min_driver: 570.10", 0}, /* the second node's is older: 9 < 10 */
        {"min_driver: 571", 0}, {"device_models: [NVIDIA H200]", 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        expect_policy("sealed", rules[i].rule, none, rules[i].holds);
    for (int i = 0; i < 2; i++) { /* not captured: as what is absent in the fixture */
        json_t *probes = json_object_get(second[i], "probes");
        json_object_set(json_object_get(probes, "nvidia"), "version", json_object_get(json_object_get(probes, "cpu"), "vendor"));
    }
    seal(&j);
    expect_policy("sealed", "min_driver: 1", none, 0);
}

static void set_clocks_of_cores(struct fx *j, double hz)
{
    json_t *const all[] = {j->before, j->after, j->node_before[1], j->node_after[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fx_capture_value(all[i], "frequency", "hardware_max", json_real(hz));
}

/* Products at 80 GFLOP/s: what one thread of 3 GHz may do, and four of 1 GHz together, but one of these not. */
TEST(a_ceiling_that_one_rank_cannot_have)
{
    JOB(j);
    set_clocks_of_cores(&j, 3e9);
    seal(&j);
    expect_state_of("sealed", RP_CHECK_peak, RP_CHECK_PASSED);
    set_clocks_of_cores(&j, 1e9);
    caught(&j, RP_CHECK_peak, RP_MISMATCH);
}

/* ---- exchanges ---- */

TEST(exchanges_that_do_not_follow)
{
    static const struct {
        const char *key;
        long long value;
    } rows[] = {{"levels", 1}, {"bytes_per_step", 1}, {"bytes_per_step", 1ll << 50}, {"bytes_per_step_between_hosts", 0},
                {"sent_bytes", 100}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        set_exchange(&j, 3, rows[i].key, json_integer(rows[i].value));
        caught(&j, RP_CHECK_ranks, RP_MISMATCH);
    }
    JOB(j);
    const json_int_t sent = json_integer_value(rp_json_at(j.ended[3], "exchange/sent_bytes"));
    set_exchange(&j, 3, "sent_bytes_by_group", /* another sum */
                 json_pack("{s:I, s:i, s:i, s:i}", "data", sent - 1, "tensor", 0, "pipeline", 0, "world", 0));
    caught(&j, RP_CHECK_ranks, RP_MISMATCH);
}

/* The records of every rank without a key and its value, digits alone. */
static void take_out(struct fx *j, const char *key)
{
    for (int i = 0; i < RANKS; i++) {
        RP_BUF out = {0};
        const char *at = j->of_rank[i].data, *next;
        for (; (next = strstr(at, key)); at = next + strlen(key) + strspn(next + strlen(key), "0123456789") + 1)
            rp_buf_add(&out, at, (size_t)(next - at));
        rp_buf_puts(&out, at);
        rp_buf_fini(&j->of_rank[i]);
        j->of_rank[i] = out;
        out = (struct rp_buf){0};
    }
}

/* wait_ns, the last key of a record, and exchange_ns, of which it is a part. */
TEST(ranks_that_do_not_say_what_their_exchanges_took)
{
    JOB(j);
    for (int i = 0; i < RANKS; i++)
        for (char *at = j.of_rank[i].data; (at = strstr(at, ",\"wait_ns\":"));)
            memmove(at, strchr(at, '}'), strlen(strchr(at, '}')) + 1);
    for (int i = 0; i < RANKS; i++)
        j.of_rank[i].size = strlen(j.of_rank[i].data);
    take_out(&j, "\"exchange_ns\":");
    caught(&j, RP_CHECK_ranks, RP_MISMATCH);
}

TEST(a_rank_without_its_records)
{
    struct rp_err err;
    struct rp_bundle b;
    FX_KEY *key = fx_key("signer");
    JOB(j);
    seal(&j);
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    int at = 0;
    while (strcmp(b.member[at].name, "steps/rank3.jsonl") != 0)
        at++;
    free(b.member[at].name);
    rp_buf_fini(&b.member[at].bytes);
    memmove(&b.member[at], &b.member[at + 1], (size_t)(--b.n - at) * sizeof *b.member);
    attack_sums(&b, "", key);
    attack_sign(&b, j.facts, j.run, NULL, key);
    attack_pack(&b);
    attack_expect("a rank without its records", NULL, RP_CHECK_schema, 4);
    rp_bundle_fini(&b);
}

/* Nothing says where they ran. */
TEST(nodes_without_processes)
{
    JOB(j);
    fx_compute(&j);
    json_object_set_new(j.facts, "process", json_array());
    json_object_del(j.facts, "launch");
    refused(&j, RP_CHECK_ranks, RP_MISMATCH);
}

TEST(a_rank_without_its_exchange)
{
    JOB(j);
    fx_compute(&j);
    json_object_del(fx_rank(&j, 3), "exchange");
    caught_as_bent(&j, RP_CHECK_ranks, RP_MISMATCH);
}

/* ---- captures ---- */

/* The captures of the first node as those of the second. */
static void copy_captures(struct fx *j)
{
    json_decref(j->node_before[1]);
    json_decref(j->node_after[1]);
    j->node_before[1] = json_deep_copy(j->before);
    j->node_after[1] = json_deep_copy(j->after);
}

TEST(captures_of_one_machine_are_a_warning)
{
    JOB(j);
    copy_captures(&j);
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

/* As many devices as are compared, of which the last one is on both nodes. */
TEST(the_last_of_many_gpus_on_two_nodes)
{
    JOB(j);
    json_t *const captures[] = {j.before, j.after, j.node_before[1], j.node_after[1]};
    for (int i = 0; i < 4; i++) {
        json_t *devices = json_object();
        for (int k = 0; k < 512; k++) {
            char name[8], uuid[32];
            json_object_set_new(devices, RP_FORMAT(name, "%d", k),
                                json_pack("{s:{s:s, s:s, s:s}}", "uuid", "state", "ok", "value", RP_FORMAT(uuid, "GPU-%d-%d", k == 511 ? 0 : i / 2, k),
                                          "source", "NVML"));
        }
        json_object_set_new(json_object_get(json_object_get(captures[i], "probes"), "gpu"), "devices", devices);
    }
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

TEST(nodes_with_one_gpu)
{
    JOB(j);
    json_t *const captures[] = {j.before, j.after, j.node_before[1], j.node_after[1]};
    for (int i = 0; i < 4; i++)
        json_object_set_new(json_object_get(json_object_get(captures[i], "probes"), "gpu"), "devices",
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "uuid", "state", "ok", "value", "sha256:" FX_ROOT, "source", "NVML"));
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

/* An address of both nodes: of an interface with a driver, or of one of a container. */
static void set_address(json_t *capture, const char *name, const char *address, const char *driver)
{
    json_t *interface = json_pack("{s:{s:s, s:s, s:s}}", "address", "state", "ok", "value", address, "source", "sysfs");
    if (driver)
        json_object_set_new(interface, "driver", json_pack("{s:s, s:s, s:s}", "state", "ok", "value", driver, "source", "sysfs"));
    json_object_set_new((json_t *)rp_json_at(capture, "probes/network"), "interfaces", json_pack("{s:o}", name, interface));
}

TEST(nodes_of_one_machine_count_once)
{
    static const struct {
        const char *driver;
        enum rp_check_state state;
    } rows[] = {{"mlx5_core", RP_CHECK_WARNING}, {NULL, RP_CHECK_PASSED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        json_t *const all[] = {j.before, j.after, j.node_before[1], j.node_after[1]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            set_address(all[k], k < 2 ? "eth0" : "ens3", "sha256:" FX_ROOT, rows[i].driver);
        seal(&j);
        expect_state_of("sealed", RP_CHECK_same_host, rows[i].state);
        expect_policy("sealed", "min_nodes: 2\n", (struct rp_verify_opts){0}, !rows[i].driver);
        expect_policy("sealed", "min_nodes: 1\n", (struct rp_verify_opts){0}, 1);
    }
    JOB(j);
    copy_captures(&j);
    seal(&j);
    expect_policy("sealed", "min_nodes: 2\n", (struct rp_verify_opts){0}, 0);
    expect_policy("sealed", "min_devices: 1\n", (struct rp_verify_opts){0}, 0); /* they may be counted twice */
}

TEST(captures_of_another_day)
{
    JOB(j);
    json_object_set_new(j.node_before[1], "captured_at", json_string("2026-09-20T14:13:20Z"));
    json_object_set_new(j.node_after[1], "captured_at", json_string("2026-09-20T14:13:23Z"));
    caught(&j, RP_CHECK_same_host, RP_MISMATCH);
}

/* Both lie within 300 s of the run, which was from 14:13:20 to 14:13:22 by the clock of the first node. */
TEST(captures_at_the_time_of_the_run_by_the_clock_of_their_node)
{
    static const struct {
        const char *before, *after;
        int64_t ahead_s; /* the clock of the second node */
        int caught;
    } rows[] = {{"14:08:21", "14:08:24", 0, 0},   {"14:08:19", "14:08:22", 0, 1},   {"14:18:18", "14:18:21", 0, 0},
                {"14:18:19", "14:18:22", 0, 1},   {"15:13:20", "15:13:23", 3600, 0}, {"14:13:20", "14:13:23", 3600, 1},
                {"13:13:20", "13:13:23", -3600, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        RP_FREE char *before = rp_asprintf("2026-09-21T%sZ", rows[i].before), *after = rp_asprintf("2026-09-21T%sZ", rows[i].after);
        json_object_set_new(j.node_before[1], "captured_at", json_string(before));
        json_object_set_new(j.node_after[1], "captured_at", json_string(after));
        json_object_set_new(member_of(j.processes, 1, "clock"), "wall_ns", json_integer(rows[i].ahead_s * 1000000000));
        if (rows[i].caught) {
            caught(&j, RP_CHECK_same_host, RP_MISMATCH);
        } else {
            seal(&j);
            expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_PASSED);
        }
    }
}

TEST(captures_by_another_program)
{
    JOB(j);
    fx_capture_value(j.node_before[1], "program", "commit", json_string("0123456789abcdef0123456789abcdef01234567"));
    fx_capture_value(j.node_after[1], "program", "commit", json_string("0123456789abcdef0123456789abcdef01234567"));
    caught(&j, RP_CHECK_environment, RP_MISMATCH);
}

TEST(captures_that_lack_values)
{
    JOB(j);
    json_object_del(json_object_get(json_object_get(j.node_after[1], "probes"), "host"), "machine_id");
    caught(&j, RP_CHECK_environment, RP_MISMATCH);
}
