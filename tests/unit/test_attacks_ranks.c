/* Bundles of several ranks by somebody who had fewer: devices, exchanges and captures. */
#include "tests/unit/attacks_world.h"

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
    } rows[] = {
        {{"0", "0", "7"}, 8, 1}, {{"0-1", "1,3", "7"}, 8, 3}, {{"0-7", "0", "7"}, 2, 2}, {{NULL, "0", "7"}, 8, 8}};
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
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value",
                                      "NVIDIA H100 PCIe", "source", "NVML"));
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
        /* the second node's is older: 9 < 10 */
        {"min_devices: 4", 1}, {"min_devices: 5", 0},  {"device_models: [NVIDIA H200, NVIDIA H100 PCIe]", 1},
        {"min_driver: 570", 1}, {"min_driver: 570.9", 1}, {"min_driver: 570.10", 0},
        {"min_driver: 571", 0}, {"device_models: [NVIDIA H200]", 0},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        expect_policy("sealed", rules[i].rule, none, rules[i].holds);
    for (int i = 0; i < 2; i++) { /* not captured: as what is absent in the fixture */
        json_t *probes = json_object_get(second[i], "probes");
        json_object_set(json_object_get(probes, "nvidia"), "version",
                        json_object_get(json_object_get(probes, "cpu"), "vendor"));
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
    } rows[] = {{"levels", 1},
                {"bytes_per_step", 1},
                {"bytes_per_step", 1ll << 50},
                {"bytes_per_step_between_hosts", 0},
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
                                json_pack("{s:{s:s, s:s, s:s}}", "uuid", "state", "ok", "value",
                                          RP_FORMAT(uuid, "GPU-%d-%d", k == 511 ? 0 : i / 2, k), "source", "NVML"));
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
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "uuid", "state", "ok", "value", "sha256:" FX_ROOT,
                                      "source", "NVML"));
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

/* An address of both nodes: of an interface with a driver, or of one of a container. */
static void set_address(json_t *capture, const char *name, const char *address, const char *driver)
{
    json_t *interface = json_pack("{s:{s:s, s:s, s:s}}", "address", "state", "ok", "value", address, "source", "sysfs");
    if (driver)
        json_object_set_new(interface, "driver",
                            json_pack("{s:s, s:s, s:s}", "state", "ok", "value", driver, "source", "sysfs"));
    json_object_set_new((json_t *)rp_json_at(capture, "probes/network"), "interfaces",
                        json_pack("{s:o}", name, interface));
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
        enum rp_check_state state;
    } rows[] = {{"14:08:21", "14:08:24", 0, RP_CHECK_PASSED},      {"14:08:19", "14:08:22", 0, RP_CHECK_FAILED},
                {"14:18:18", "14:18:21", 0, RP_CHECK_PASSED},      {"14:18:19", "14:18:22", 0, RP_CHECK_FAILED},
                {"14:18:20", "14:18:23", 300, RP_CHECK_PASSED},    {"15:13:20", "15:13:23", 3600, RP_CHECK_WARNING},
                {"14:13:20", "14:13:23", 3600, RP_CHECK_FAILED},   {"13:13:20", "13:13:23", -3600, RP_CHECK_WARNING}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        RP_FREE char *before = rp_asprintf("2026-09-21T%sZ", rows[i].before),
                     *after = rp_asprintf("2026-09-21T%sZ", rows[i].after);
        json_object_set_new(j.node_before[1], "captured_at", json_string(before));
        json_object_set_new(j.node_after[1], "captured_at", json_string(after));
        json_object_set_new(member_of(j.processes, 1, "clock"), "wall_ns", json_integer(rows[i].ahead_s * 1000000000));
        if (rows[i].state == RP_CHECK_FAILED) {
            caught(&j, RP_CHECK_same_host, RP_MISMATCH);
        } else {
            seal(&j);
            expect_state_of("sealed", RP_CHECK_same_host, rows[i].state);
        }
    }
}

TEST(captures_by_a_clock_that_was_not_compared)
{
    JOB(j);
    json_object_set_new(member_of(j.processes, 1, "clock"), "error_ns", json_integer(-1));
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_PASSED);
    json_object_set_new(j.node_before[1], "captured_at", json_string("2026-09-20T14:13:20Z"));
    json_object_set_new(j.node_after[1], "captured_at", json_string("2026-09-20T14:13:23Z"));
    seal(&j);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

/* The times of a rank's steps, but the steps later: copied from another. */
TEST(steps_of_two_ranks_that_took_equally_long)
{
    JOB(j);
    RP_BUF later = {0};
    RP_FREE char *from = rp_strdup(rp_buf_text(&j.of_rank[2]));
    rp_buf_fini(&j.of_rank[3]);
    for (char *line = strtok(from, "\n"); line; line = strtok(NULL, "\n")) {
        RP_JSON *record = json_loads(line, 0, NULL);
        json_object_set_new(record, "rank", json_integer(3));
        const char *const times[] = {"start_ns", "end_ns"};
        for (size_t i = 0; i < 2 && json_object_get(record, times[i]); i++)
            json_object_set_new(record, times[i], json_integer(rp_json_integer_at(record, times[i]) + 12345));
        rp_json_write_line(&later, record);
    }
    j.of_rank[3] = later;
    later = (struct rp_buf){0};
    caught(&j, RP_CHECK_ranks, RP_MISMATCH);
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
