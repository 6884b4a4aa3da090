/* What is measured on a GPU beside the steps: its clock, copies, its memory, ceilings. */
#include "tests/cuda/gpu.h"
#include "tests/unit/tap.h"

#include "base/clock.h"
#include "base/json.h"
#include "worker/measure_ceilings.h"

#include <stdlib.h>
#include <time.h>

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* From the beginning to the last wait of the host, whatever it does afterwards. */
TEST(the_clock_stops_with_the_last_wait)
{
    struct rp_err err = {0};
    uint64_t ns = 0, t0 = rp_now_ns();
    struct rp_dev *dev = gpu_here(NULL);
    const struct rp_backend *b = dev->backend;
    int failed = b->time_begin(dev, &err) < 0;
    pause_ms(20);
    failed = failed || b->sync(dev, &err) < 0;
    pause_ms(30);
    failed = failed || b->sync(dev, &err) < 0;
    uint64_t until = rp_now_ns() - t0;
    pause_ms(60);
    CHECK(!failed && b->time_end(dev, &ns, &err) == 0, "%s", err.msg);
    CHECK(ns >= 50000000 && ns <= until, "%llu ns of %llu", (unsigned long long)ns, (unsigned long long)until);
    t0 = rp_now_ns();
    CHECK(b->time_begin(dev, &err) == 0 && b->sync(dev, &err) == 0 && b->time_end(dev, &ns, &err) == 0 &&
              ns <= rp_now_ns() - t0,
          "%llu ns", (unsigned long long)ns);
}

TEST(copies_and_memory)
{
    enum { FLOATS = 5000 };
    struct rp_err err = {0};
    float host[FLOATS], back[FLOATS];
    uint64_t reserved[3], taken[3];
    struct rp_dev *dev = gpu_here(NULL);
    const struct rp_backend *b = dev->backend;
    for (int i = 0; i < FLOATS; i++)
        host[i] = (float)i;
    /* the workspace */
    CHECK(b->used_memory(dev, &reserved[0], &taken[0], &err) == 0 && taken[0] >= reserved[0], "%s", err.msg);
    float *x = b->block(dev, RP_CLASS_PARAMETERS, sizeof host, &err),
          *y = b->block(dev, RP_CLASS_SCRATCH, sizeof host, &err);
    CHECK(x && y && b->upload(dev, x, host, sizeof host, &err) == 0, "%s", err.msg);
    b->copy(dev, y, x, sizeof host);
    CHECK(b->download(dev, back, y, sizeof back, &err) == 0 && memcmp(host, back, sizeof back) == 0, "%s", err.msg);
    b->upload_repeated(dev, y, 4096, 3);
    CHECK(b->sync(dev, &err) == 0 && b->used_memory(dev, &reserved[1], &taken[1], &err) == 0, "%s", err.msg);
    CHECK(reserved[1] == reserved[0] + 2 * sizeof host && taken[1] == taken[0] + 2 * sizeof host,
          "%llu reserved, %llu taken", (unsigned long long)reserved[1], (unsigned long long)taken[1]);
    b->release(dev);
    CHECK(b->sync(dev, &err) == 0 && b->used_memory(dev, &reserved[2], &taken[2], &err) == 0, "%s", err.msg);
    CHECK(reserved[2] == reserved[0] && taken[2] == taken[0], "%llu reserved, %llu taken",
          (unsigned long long)reserved[2], (unsigned long long)taken[2]);
    char address[32];
    b->address(dev, address);
    CHECK_STR(address, "0000:19:00.0");
}

TEST(ceilings_by_the_device_s_clock)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    struct rp_plan plan = {0};
    struct rp_ceiling_size s = rp_ceiling_size(dev, &plan);
    CHECK(s.gemm.rows == 8192 && s.times > 1 && s.copy == (size_t)256 << 20, "%d rows", s.gemm.rows);
    s = (struct rp_ceiling_size){.gemm = {40, 36, 30}, .times = 2, .copy = 20000, .gemm_ns = 1, .copy_ns = 1};
    RP_JSON *is = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(is, "%s", err.msg);
    CHECK_STR(json_string_value(json_object_get(is, "clock")), "device");
    const json_t *feed = json_object_get(is, "host_to_device");
    CHECK(json_integer_value(json_object_get(feed, "bytes")) == 19968 &&
              json_array_size(json_object_get(feed, "ns")) >= 1,
          "no link");
}

static struct {
    int calls, operands, bad;
} seen;
static void (*own_gemm)(struct rp_dev *dev, const struct rp_gemm *g);

/* Looks at the operands of a product in bf16: numbers as they are drawn, no infinity, NaN or nothing. */
static void look_at_operands(struct rp_dev *dev, const struct rp_gemm *g)
{
    enum { MOST = 4096 };
    static uint16_t x[MOST];
    const size_t n = (size_t)(g->m * g->k + g->k * g->n);
    struct rp_err err = {0};
    seen.calls++;
    CHECK(n <= MOST && dev->backend->download(dev, x, g->a, n * sizeof *x, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < n; i++, seen.operands++) {
        const int exponent = (x[i] >> 7 & 0xff) - 127;
        seen.bad += exponent > 3 || exponent < -24;
    }
    own_gemm(dev, g);
}

TEST(ceilings_of_mixed_precision_are_of_products_of_16_bits)
{
    struct rp_err err = {0};
    (void)gpu_here(NULL); /* the test's libcuda */
    struct rp_dev *dev =
        rp_backend_cuda.open(&(struct rp_device_opts){.numerics = RP_NUMERICS_bf16_tc16_0}, (size_t)4 << 20, &err);
    if (!CHECK(dev, "%s", err.msg))
        return;
    const struct rp_ops *const own = dev->op;
    struct rp_ops looking = *own;
    own_gemm = own->gemm;
    looking.gemm = look_at_operands;
    dev->op = &looking;
    const struct rp_ceiling_size s = {.gemm = {40, 36, 30}, .times = 1, .copy = 20000, .gemm_ns = 1, .copy_ns = 1};
    RP_JSON *is = rp_ceilings(dev, &s, NULL, NULL, &err);
    CHECK(is && seen.calls > 1 && seen.operands == seen.calls * 30 * 76, "%d calls, %s", seen.calls, err.msg);
    CHECK(seen.bad == 0, "%d of %d operands are none", seen.bad, seen.operands);
    dev->op = own;
    rp_backend_cuda.close(dev);
}
