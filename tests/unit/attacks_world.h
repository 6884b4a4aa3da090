/* Shared by the attacks on bundles of several ranks: a job of two nodes, as its signer may change it. */
#pragma once

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
static __attribute__((unused)) void write_steps(struct rp_buf *out, int rank, int64_t offset)
{
    int64_t now = 5000000000ll + offset + 10007 * rank;
    rp_buf_printf(
        out, "{\"phase\":\"init\",\"rank\":%d,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n", rank);
    for (int i = 0; i < 7; i++) {
        const int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7) + 1013 * rank * (i + 1),
                      root = i == 6 ? 2000000 : 0;
        rp_buf_printf(out,
                      "{\"counters\":{\"padded_tokens\":64,\"tokens\":%d},\"end_ns\":%lld,\"exchange_ns\":%d,\"grad_"
                      "norm\":\"0x1.%dp+1\","
                      "\"input_ns\":%d,\"learning_rate\":%.17g,\"loss\":\"0x1.%dp+2\",\"loss_parts\":{\"mlm\":\"0x1.%"
                      "dp+2\",\"nsp\":\"0x0p+0\"},"
                      "\"phase\":\"%s\",\"rank\":%d,\"repeat\":%d,",
                      50 + i, (long long)(now + ns), 900001 + 11 * i + rank, i % 9 + 1, 300000 + 1001 * i, fx_rate(i),
                      9 - i, 9 - i, i < 1 ? "warm-up" : "timed", rank, i < 1 ? 0 : (i - 1) / 3);
        if (root)
            rp_buf_printf(out, "\"root_ns\":%lld,", (long long)root);
        rp_buf_printf(out, "\"samples\":4,\"start_ns\":%lld,%s\"step\":%d,\"wait_ns\":%d}\n", (long long)now,
                      root ? "\"state_root\":\"" FX_ROOT "\"," : "", i, 5000 + i + rank);
        now += ns + 1000000;
    }
}

static __attribute__((unused)) void set_machine(json_t *capture, const char *boot, double uptime, long long available)
{
    fx_capture_value(capture, "host", "boot_id", json_string(boot));
    fx_capture_value(capture, "kernel", "uptime", json_real(uptime));
    fx_capture_value(capture, "memory", "available", json_integer(available));
    fx_capture_value(capture, "memory", "free", json_integer(available / 2 + 4096));
}

static __attribute__((unused)) void set_device(struct fx *x, int rank, const char *device)
{
    json_decref(x->hello[rank]);
    x->hello[rank] = json_pack("{s:o}", "device", fx_device(device));
}

/* Sets a value of the exchanges in the last record of a rank. */
static __attribute__((unused)) void set_exchange(struct fx *x, int rank, const char *key, json_t *value)
{
    if (!x->ended[rank])
        x->ended[rank] = json_pack("{s:{}}", "exchange");
    json_object_set_new(json_object_get(x->ended[rank], "exchange"), key, value);
}

/* What a rank sends in all its steps, by which nobody was faster than a link is. */
static __attribute__((unused)) void set_sent(struct fx *x, const int *host, int rank)
{
    struct rp_comm place = fx_place(x, host, rank);
    struct rp_exchange_sizes n = {0};
    struct rp_err err;
    CHECK(rp_train_exchange_at(&n, &x->recipe, &place, &err) == 0, "%s", err.msg);
    CHECK(n.levels == 2 && (n.between_bytes > 0 || rank % 2 == 0), "rank %d: %d levels", rank,
          n.levels); /* the share of others is empty */
    set_exchange(x, rank, "sent_bytes", json_integer((json_int_t)n.sent_bytes * 7 + 1000));
}

static __attribute__((unused)) struct fx job_new(void)
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
static __attribute__((unused)) void seal(struct fx *x)
{
    fx_compute(x);
    fx_seal(x, "signer", "sealed");
}

static __attribute__((unused)) void caught(struct fx *x, enum rp_check_id by, enum rp_code code)
{
    fx_compute(x);
    refused(x, by, code);
}

/* Facts that were bent are caught. */
static __attribute__((unused)) void caught_as_bent(struct fx *x, enum rp_check_id by, enum rp_code code)
{
    fx_derive(x);
    refused(x, by, code);
}

static __attribute__((unused)) json_t *member_of(json_t *list, int i, const char *key)
{
    return json_object_get(json_array_get(list, (size_t)i), key);
}
