/* Bundles of several ranks by somebody who had fewer machines than they say: two nodes with two ranks each, every part of which can be
 * bent and sealed again. */
#include "tests/unit/verify_fixture.h"

#include "base/text.h"
#include "comm/comm.h"
#include "run/world.h"
#include "train/train.h"
#include "verify/state.h"
#include "worker/worker.h"

#define RANKS 4
#define NODES 2
#define OFFSET 3600000000000ll /* of the second node's monotonic clock: it started an hour earlier */

struct job {
    struct fx x;
    struct rp_buf steps[RANKS];
    json_t *before, *after;  /* of the second node */
    json_t *processes, *launch, *exchange[RANKS], *device[RANKS];
    int host[RANKS];
    const char *reason;      /* of a run that failed; NULL: it is complete */
};

static void job_fini(struct job *j)
{
    for (int i = 0; i < RANKS; i++) {
        rp_buf_fini(&j->steps[i]);
        json_decref(j->exchange[i]);
        json_decref(j->device[i]);
    }
    json_decref(j->before);
    json_decref(j->after);
    json_decref(j->processes);
    json_decref(j->launch);
    json_decref(j->x.world);
    fx_fini(&j->x);
}

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

static void place_rank(struct rp_comm *place, const struct job *j, int i)
{
    *place = (struct rp_comm){.lost = -1, .host = j->host};
    rp_comm_place(place, i, (struct rp_degrees){RANKS, 1, 1});
}

static json_t *process(int index, int host, int64_t offset, int64_t error)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:{s:i, s:I, s:I}}", "index", index, "first_rank", 2 * index, "ranks", 2, "host", host,
                     "place", host, "local_rank", 0, "clock", "wall_ns", 0, "monotonic_ns", (json_int_t)offset, "error_ns",
                     (json_int_t)error);
}

static struct job job_new(void)
{
    struct job j = {0};
    fx_init(&j.x);
    FX_SET(&j.x, "train.accumulation_steps=4");
    j.before = fx_capture("2026-09-21T14:13:20Z");
    j.after = fx_capture("2026-09-21T14:13:23Z");
    set_machine(j.x.before, "sha256:" FX_ROOT, 5000.25, 8000000000);
    set_machine(j.x.after, "sha256:" FX_ROOT, 5003.5, 7900000000);
    set_machine(j.before, "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 8600.5, 9000000000);
    set_machine(j.after, "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 8603.75, 8900000000);
    for (int i = 0; i < RANKS; i++) {
        j.host[i] = i / 2;
        write_steps(&j.steps[i], i, i / 2 * OFFSET);
        j.device[i] = fx_device("isa=avx2 threads=1");
    }
    for (int i = 0; i < RANKS; i++) {
        struct rp_comm place;
        struct rp_exchange_sizes n = {0};
        struct rp_err err;
        place_rank(&place, &j, i);
        CHECK(rp_train_exchange_at(&n, &j.x.recipe, &place, &err) == 0, "%s", err.msg);
        CHECK(n.levels == 2 && (n.between_bytes > 0 || i % 2 == 0), "rank %d: %d levels", i, n.levels); /* the share of others is empty */
        j.exchange[i] = json_pack("{s:s, s:i, s:I, s:I, s:I}", "transport", "1 rank by shared memory, 2 by TLS", "levels", n.levels, "bytes_per_step",
                                  (json_int_t)n.sent_bytes, "bytes_per_step_between_hosts", (json_int_t)n.between_bytes, "sent_bytes",
                                  (json_int_t)n.sent_bytes * 7 + 1000);
    }
    j.processes = json_pack("[o, o]", process(0, 0, 0, 0), process(1, 1, OFFSET, 60000));
    j.launch = json_pack("{s:s, s:s, s:i, s:i}", "kind", "ranks", "launcher", "openmpi", "rank", 0, "size", 2);
    return j;
}
#define JOB(j) __attribute__((cleanup(job_fini))) struct job j = job_new()

/* run.json, its report and the bundle from the parts as they are now; bend changes run.json before the report is made. */
static void seal(struct job *j, void (*bend_run)(json_t *run))
{
    struct rp_err err = {0};
    struct rp_all_ranks all;
    struct rp_records joined = {0};
    const json_t *hello[RANKS], *done[RANKS];
    RP_JSON *kept = json_array();
    struct rp_comm first;
    rp_all_ranks_init(&all, (struct rp_degrees){RANKS, 1, 1});
    for (int i = 0; i < RANKS; i++) {
        struct rp_records one = {.rank = i};
        struct rp_records_in in = {.out = &one};
        char digest[RP_SHA256_HEX];
        rp_sha256_hex(digest, j->steps[i].data, j->steps[i].size);
        CHECK(rp_records_piece(&in, j->steps[i].data, j->steps[i].size, &err) == 0 && rp_records_end(&in, digest, &err) == 0, "%s",
              err.msg);
        CHECK(rp_all_ranks_add(&all, &joined, &one, &err) == 0, "%s", err.msg);
        json_array_append_new(kept, json_pack("{s:O}", "device", j->device[i]));
        hello[i] = json_array_get(kept, json_array_size(kept) - 1);
        json_array_append_new(kept, json_pack("{s:i, s:O*}", "peak_rss_bytes", 12345678, "exchange", j->exchange[i]));
        done[i] = json_array_get(kept, json_array_size(kept) - 1);
    }
    json_decref(j->x.world);
    j->x.world = rp_world_json(&(struct rp_world_doc){.degrees = all.degrees, .host = j->host, .processes = j->processes, .launch = j->launch, .all = &all,
                                                      .hello = hello, .done = done});
    place_rank(&first, j, 0);
    j->x.place = &first;
    j->x.joined = &joined;
    CHECK(fx_documents(&j->x, j->reason ? "failed" : "complete", j->reason, &err) == 0, "%s", err.msg);
    if (bend_run) {
        bend_run(j->x.run);
        fx_render(&j->x);
    }
    rp_buf_fini(&j->x.steps);
    rp_buf_add(&j->x.steps, j->steps[0].data, j->steps[0].size);
    struct rp_bundle b;
    fx_members(&b, &j->x);
    for (int i = 1; i < RANKS; i++)
        fx_add(&b, RP_OF_RANK(i, ".jsonl"), j->steps[i].data, j->steps[i].size);
    if (j->before)
        fx_add_json(&b, "env/node1.before.json", j->before);
    if (j->after)
        fx_add_json(&b, "env/node1.after.json", j->after);
    FX_KEY *key = fx_key("signer");
    RP_BUF bytes = {0};
    RP_FREE char *path = fx_path("sealed");
    CHECK(rp_bundle_seal(&b, key, &bytes, &err) == 0 && rp_write_file(path, bytes.data, bytes.size, 0644, &err) == 0, "%s", err.msg);
    rp_bundle_fini(&b);
    rp_records_fini(&joined);
    rp_all_ranks_fini(&all);
    j->x.joined = NULL;
    j->x.place = NULL;
}

static void caught(struct job *j, void (*bend_run)(json_t *run), enum rp_check_id by, enum rp_code code)
{
    seal(j, bend_run);
    expect("sealed", NULL, RP_VERDICT_FAILED, by, code);
}

static json_t *member_of(json_t *list, int i, const char *key)
{
    return json_object_get(json_array_get(list, (size_t)i), key);
}

TEST(two_honest_nodes_verify)
{
    JOB(j);
    seal(&j, NULL);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_PASSED);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_PASSED);
}

/* A host that died left no capture, and no word on its exchange. */
TEST(a_run_whose_second_node_died_verifies)
{
    JOB(j);
    j.reason = "host 1 is gone";
    json_decref(j.after);
    j.after = NULL;
    seal(&j, NULL);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    json_decref(j.before);
    j.before = NULL;
    seal(&j, NULL);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
    json_decref(j.exchange[3]);
    j.exchange[3] = NULL;
    seal(&j, NULL);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
}

/* ---- clocks ---- */

static void set_clock(struct job *j, int64_t offset, int64_t error)
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
    seal(&j, NULL);
    expect_state_of("sealed", RP_CHECK_ranks, RP_CHECK_WARNING);
    JOB(first);
    json_object_set_new(member_of(first.processes, 0, "clock"), "monotonic_ns", json_integer(7));
    caught(&first, NULL, RP_CHECK_schema, RP_MALFORMED);
}

/* Two machines do not start in the same millisecond. */
TEST(machines_with_one_clock)
{
    JOB(j);
    set_clock(&j, 20000, 60000);
    for (int i = 2; i < RANKS; i++) {
        rp_buf_fini(&j.steps[i]);
        write_steps(&j.steps[i], i, 20000);
    }
    set_machine(j.before, "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 5000.5, 9000000000);
    set_machine(j.after, "sha256:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", 5003.75, 8900000000);
    seal(&j, NULL);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

TEST(clocks_by_which_no_rank_waited_for_another)
{
    static const int64_t offsets[] = {0, OFFSET + 200000000, OFFSET - 200000000, -OFFSET, (1ll << 62) - 1, -(1ll << 62)};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        JOB(j);
        set_clock(&j, offsets[i], 60000);
        caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
    }
}

TEST(clocks_that_none_are)
{
    static const int64_t clocks[][2] = {{INT64_MIN, 0}, {INT64_MAX, 0}, {OFFSET, 3600000000000ll}, {OFFSET, INT64_MAX}};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        JOB(j);
        set_clock(&j, clocks[i][0], clocks[i][1]);
        caught(&j, NULL, RP_CHECK_schema, RP_MALFORMED);
    }
}

TEST(a_clock_that_was_not_measured_is_a_warning)
{
    JOB(j);
    set_clock(&j, 0, -1);
    seal(&j, NULL);
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
                {"index", 0, 1, RP_CHECK_schema, RP_MALFORMED},      {"host", 1, 0, RP_CHECK_ranks, RP_MISMATCH},
                {"host", 0, 1, RP_CHECK_ranks, RP_MISMATCH},         {"place", 1, 0, RP_CHECK_ranks, RP_MISMATCH},
                {"place", 1, 2, RP_CHECK_ranks, RP_MISMATCH},        {"local_rank", 1, 2, RP_CHECK_ranks, RP_MISMATCH},
                {"local_rank", 0, 1, RP_CHECK_ranks, RP_MISMATCH}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        JOB(j);
        json_object_set_new(json_array_get(j.processes, (size_t)rows[i].process), rows[i].key, json_integer(rows[i].value));
        caught(&j, NULL, rows[i].by, rows[i].code);
    }
    JOB(j);
    json_decref(j.processes);
    j.processes = NULL;
    caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
}

static void add_a_node(json_t *run)
{
    json_object_set_new((json_t *)rp_json_at(run, "world/rank/1"), "node", json_integer(1));
}

TEST(a_rank_on_a_node_of_another_process)
{
    JOB(j);
    caught(&j, add_a_node, RP_CHECK_ranks, RP_MISMATCH);
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
        caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
    }
    JOB(j);
    json_decref(j.launch);
    j.launch = NULL;
    caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
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
    json_object_set_new(j.exchange[1], "sent_bytes", json_integer(4000000000000000ll));
    caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
    JOB(k);
    without_exchange_time(&k.steps[2]);
    caught(&k, NULL, RP_CHECK_ranks, RP_MISMATCH);
}

/* ---- devices ---- */

TEST(devices_that_the_captures_do_not_have)
{
    JOB(j);
    fx_capture_value(j.before, "cpu", "threads", json_integer(2));
    json_decref(j.device[3]);
    j.device[3] = fx_device("isa=avx2 threads=64");
    caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
    json_decref(j.device[3]);
    j.device[3] = fx_device("gpu0 NVIDIA H100 PCIe sm_90");
    caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
    json_decref(j.device[3]);
    j.device[3] = fx_device("isa=avx2 threads=1");
    json_decref(j.device[0]);
    j.device[0] = fx_device("isa=avx512 threads=1");
    caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
}

/* Rank 1 is of the process whose settings are in run.json, ranks 2 and 3 may have others. */
TEST(devices_that_the_settings_do_not_allow)
{
    static const char *const devices[] = {"isa=avx2 threads=2", "isa=scalar threads=1"};
    for (size_t i = 0; i < 2; i++) {
        JOB(j);
        FX_SET(&j.x, "train.accumulation_steps=4", "run.threads=1");
        if (i == 0) {
            json_decref(j.device[3]);
            j.device[3] = fx_device(devices[0]);
            seal(&j, NULL);
            accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
        }
        json_decref(j.device[1]);
        j.device[1] = fx_device(devices[i]);
        caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
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
        RP_JSON *run = json_pack("{s:s, s:{s:[]}}", "backend", "cpu", "world", "rank");
        for (int k = 0; k < 3; k++)
            json_array_append_new((json_t *)rp_json_at(run, "world/rank"),
                                  json_pack("{s:i, s:s*, s:{s:s}}", "node", k / 2, "cpus", rows[i].cpus[k], "device", "kind", "cpu"));
        const int n = rp_run_processors(&(struct rp_run){.json = run}, 0, rows[i].most);
        CHECK(n == rows[i].expected, "row %zu: %d", i, n);
    }
}

/* The second process numbers its GPUs from 0 too. */
TEST(gpus_of_two_nodes_verify)
{
    JOB(j);
    char gpu[64];
    j.x.backend = "cuda";
    json_t *const second[] = {j.before, j.after};
    for (int i = 0; i < 2; i++)
        json_object_set_new(json_object_get(json_object_get(second[i], "probes"), "gpu"), "devices",
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value", "NVIDIA H100 PCIe", "source", "NVML"));
    for (int i = 0; i < RANKS; i++) {
        json_decref(j.device[i]);
        j.device[i] = fx_device(RP_FORMAT(gpu, "gpu%d NVIDIA H100 PCIe sm_90", i % 2));
        json_object_set_new(j.exchange[i], "transport", json_string("NCCL 2.20.5"));
    }
    seal(&j, NULL);
    accept("sealed", NULL, RP_VERDICT_UNKNOWN_KEY);
}

static void set_clocks_of_cores(struct job *j, double hz)
{
    json_t *const all[] = {j->x.before, j->x.after, j->before, j->after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        fx_capture_value(all[i], "frequency", "hardware_max", json_real(hz));
}

/* Products at 80 GFLOP/s: what one thread of 3 GHz may do, and four of 1 GHz together, but one of these not. */
TEST(a_ceiling_that_one_rank_cannot_have)
{
    JOB(j);
    set_clocks_of_cores(&j, 3e9);
    seal(&j, NULL);
    expect_state_of("sealed", RP_CHECK_peak, RP_CHECK_PASSED);
    set_clocks_of_cores(&j, 1e9);
    caught(&j, NULL, RP_CHECK_peak, RP_MISMATCH);
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
        json_object_set_new(j.exchange[3], rows[i].key, json_integer(rows[i].value));
        caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
    }
    JOB(j);
    const long long sent = rp_json_integer_at(j.exchange[3], "sent_bytes");
    json_object_set_new(j.exchange[3], "sent_bytes_by_group", /* another sum */
                        json_pack("{s:I, s:i, s:i, s:i}", "data", (json_int_t)(sent - 1), "tensor", 0, "pipeline", 0,
                                  "world", 0));
    caught(&j, NULL, RP_CHECK_ranks, RP_MISMATCH);
}

static void drop_exchange(json_t *run)
{
    json_object_del((json_t *)rp_json_at(run, "world/rank/3"), "exchange");
}

TEST(a_rank_without_its_exchange)
{
    JOB(j);
    caught(&j, drop_exchange, RP_CHECK_ranks, RP_MISMATCH);
}

/* ---- captures ---- */

/* The captures of the first node as those of the second. */
static void copy_captures(struct job *j)
{
    json_decref(j->before);
    json_decref(j->after);
    j->before = json_deep_copy(j->x.before);
    j->after = json_deep_copy(j->x.after);
}

TEST(captures_of_one_machine_are_a_warning)
{
    JOB(j);
    copy_captures(&j);
    seal(&j, NULL);
    expect_state_of("sealed", RP_CHECK_same_host, RP_CHECK_WARNING);
}

TEST(nodes_with_one_gpu)
{
    JOB(j);
    json_t *const captures[] = {j.x.before, j.x.after, j.before, j.after};
    for (int i = 0; i < 4; i++)
        json_object_set_new(json_object_get(json_object_get(captures[i], "probes"), "gpu"), "devices",
                            json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "uuid", "state", "ok", "value", "sha256:" FX_ROOT, "source", "NVML"));
    seal(&j, NULL);
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
        json_t *const all[] = {j.x.before, j.x.after, j.before, j.after};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            set_address(all[k], k < 2 ? "eth0" : "ens3", "sha256:" FX_ROOT, rows[i].driver);
        seal(&j, NULL);
        expect_state_of("sealed", RP_CHECK_same_host, rows[i].state);
        expect_policy("sealed", "min_nodes: 2\n", (struct rp_verify_opts){0}, !rows[i].driver);
        expect_policy("sealed", "min_nodes: 1\n", (struct rp_verify_opts){0}, 1);
    }
    JOB(j);
    copy_captures(&j);
    seal(&j, NULL);
    expect_policy("sealed", "min_nodes: 2\n", (struct rp_verify_opts){0}, 0);
}

TEST(captures_of_another_day)
{
    JOB(j);
    json_object_set_new(j.before, "captured_at", json_string("2026-09-20T14:13:20Z"));
    json_object_set_new(j.after, "captured_at", json_string("2026-09-20T14:13:23Z"));
    caught(&j, NULL, RP_CHECK_same_host, RP_MISMATCH);
}

TEST(captures_by_another_program)
{
    JOB(j);
    fx_capture_value(j.before, "program", "commit", json_string("0123456789abcdef0123456789abcdef01234567"));
    fx_capture_value(j.after, "program", "commit", json_string("0123456789abcdef0123456789abcdef01234567"));
    caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
}

TEST(captures_that_lack_values)
{
    JOB(j);
    json_object_del(json_object_get(json_object_get(j.after, "probes"), "host"), "machine_id");
    caught(&j, NULL, RP_CHECK_environment, RP_MISMATCH);
}
