/* Runs in worlds of several ranks, made of the fixture's bundle: on nodes, on GPUs, slower or faster.
 *
 * What:    struct width -> a sealed bundle that verifies.
 */
#pragma once

#include "tests/unit/verify_fixture.h"

static int64_t natural(int i) /* scattered over a millisecond */
{
    return 100000000 + (int64_t)((unsigned)i * 2654435761u % 1000003u);
}

/* A run whose steps take `percent` of the usual time, in a world; the fixture's device unless another is named. */
struct width {
    int threads, ranks, nodes, percent;
    const char *device; /* of a GPU */
    int gpus;           /* of a node that its ranks have in turn; 0: one each */
    int cpus;           /* captured; 0: not */
    const char *set[3];
};

/* The run before it is sealed; *x is an honest one. */
static __attribute__((unused)) void widen(struct fx *x, struct width w)
{
    static char device[32];
    RP_FREE char *degree = rp_asprintf("parallel.data=%d", w.ranks);
    if (w.ranks || w.set[0]) {
        FX_SET(x, w.ranks ? degree : w.set[0], w.ranks ? w.set[0] : w.set[1], w.set[1]);
    }
    rp_buf_fini(&x->steps);
    rp_buf_puts(&x->steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++)
        fx_step(&x->steps, i, 1, 3, 5000000123ll + i * 1100000ll * w.percent, natural(i) * w.percent / 100, i == 6);
    x->device = w.device ? w.device : RP_FORMAT(device, "isa=avx2 threads=%d", w.threads ? w.threads : 1);
    x->backend = w.device ? "cuda" : NULL;
    x->done = x->done ? x->done : json_object();
    json_object_set_new(x->done, "phases_s", json_pack("{s:f}", "timed", 0.008 * w.percent));
    x->ranks = w.ranks;
    x->nodes = w.nodes;
    for (int i = 0; w.device && i < w.ranks; i++) {
        const int here = i % (w.ranks / (w.nodes ? w.nodes : 1));
        char address[32];
        json_t *gpu = fx_device(w.device);
        json_object_set_new(gpu, "pci_address",
                            json_string(RP_FORMAT(address, "0000:%02x:00.0", 0x19 + (w.gpus ? here % w.gpus : here))));
        json_object_set_new(gpu, "index", json_integer(w.gpus ? here % w.gpus : here));
        x->hello[i] = json_pack("{s:o}", "device", gpu);
    }
    if (w.cpus)
        fx_capture_both(x, "cpu", "threads", json_integer(w.cpus));
}

static __attribute__((unused)) void seal_world(struct fx *x, const char *file)
{
    fx_compute(x);
    fx_other_build(x); /* memory of so many threads was not planned */
    fx_seal(x, "signer", file);
}

/* Sealed as fx_path(file). */
static __attribute__((unused)) void wide(const char *file, struct width w)
{
    FX(x);
    widen(&x, w);
    seal_world(&x, file);
}
