/* Ranks on devices with memory of their own, connected by sockets: their messages pass through the host, window by
 * window, and ranks on processors do not notice. The played device has addresses that the host cannot read. */
#include "tests/unit/mesh_fixture.h"
#include "tests/unit/tap.h"

#include "backend/backend.h"

#define AWAY ((uintptr_t)1 << 62) /* a device's address minus that of its bytes */
#define WINDOW ((size_t)1 << 20)

static const size_t sizes[] = {1,          31,     8160,       8192,       8193,          262144,
                               WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 3 * WINDOW + 5};
#define SIZES (sizeof sizes / sizeof *sizes)

struct played {
    struct rp_dev dev;
    long copies, most, fail_at; /* copies so far; bytes of the largest; the copy that fails, from 1 */
};

static int copy(struct rp_dev *dev, void *to, const void *from, size_t bytes, struct rp_err *err)
{
    struct played *p = (struct played *)dev;
    p->most = (long)bytes > p->most ? (long)bytes : p->most;
    if (++p->copies == p->fail_at)
        return rp_fail(err, RP_IO, "the device is gone");
    memcpy(to, from, bytes);
    return 0;
}

static void *at(const void *p, uintptr_t away)
{
    return (void *)((uintptr_t)p - away); /* NOLINT(performance-no-int-to-ptr) */
}

static int download(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    return copy(dev, dst, at(src, AWAY), bytes, err);
}

static int upload(struct rp_dev *dev, void *dst, const void *src, size_t bytes, struct rp_err *err)
{
    return copy(dev, at(dst, AWAY), src, bytes, err);
}

static const struct rp_backend apart = {.name = "apart", .separate_memory = 1, .download = download, .upload = upload};
static const struct rp_backend plain = {.name = "plain"};

struct trial {
    int on_device; /* bit i: rank i */
    int fails;     /* rank whose third copy fails; -1: none */
    long copies[8], most[8];
};

static unsigned seed_of(int from, int to, size_t k)
{
    return (unsigned)(from * 3 + to) * (unsigned)SIZES + (unsigned)k;
}

/* Messages of all sizes between all ranks at once, from and to memory of the device where there is one. */
static int exchange_sizes(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct trial *trial = arg;
    const int n = c->size[RP_GROUP_WORLD], own = c->rank[RP_GROUP_WORLD], device = trial->on_device >> own & 1;
    struct played p = {.dev = {.backend = device ? &apart : &plain}, .fail_at = trial->fails == own ? 3 : 0};
    struct rp_transfer *t = rp_alloc(2 * SIZES * (size_t)n * sizeof *t);
    int count = 0, bad = 0;
    c->op->attach(c, &p.dev);
    for (int peer = 0; peer < n; peer++)
        for (size_t k = 0; k < 2 * SIZES && peer != own; k++) {
            const size_t size = sizes[k / 2];
            unsigned char *data = rp_alloc(size);
            if (k % 2)
                mesh_fill(data, size, seed_of(own, peer, k / 2));
            t[count++] = (struct rp_transfer){peer, k % 2, at(data, device ? -AWAY : 0), size};
        }
    int failed = rp_comm_exchange_device(c, RP_GROUP_WORLD, t, count, err) < 0;
    count = 0;
    for (int peer = 0; peer < n; peer++)
        for (size_t k = 0; k < 2 * SIZES && peer != own; k++, count++) {
            unsigned char *data = at(t[count].data, device ? AWAY : 0);
            if (k % 2 == 0 && !failed) {
                RP_FREE unsigned char *expected = rp_alloc(t[count].bytes);
                mesh_fill(expected, t[count].bytes, seed_of(peer, own, k / 2));
                bad += memcmp(data, expected, t[count].bytes) != 0;
            }
            free(data);
        }
    free(t);
    trial->copies[own] = p.copies;
    trial->most[own] = p.most;
    if (!failed && rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0) /* of host memory, also on a device */
        failed = 1;
    return failed ? -1 : bad ? rp_fail(err, RP_BUG, "%d messages to rank %d are wrong", bad, own) : 0;
}

static void run_trial(struct trial *trial, const int *host, const char *name)
{
    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, host);
    mesh_world_run(w, exchange_sizes, trial);
    for (int i = 0; i < 3; i++) {
        CHECK(w->ranks[i].result == 0, "%s, rank %d: %s", name, i, w->ranks[i].err.msg);
        CHECK(trial->most[i] <= (long)WINDOW, "%s, rank %d copied %ld bytes at once", name, i, trial->most[i]);
        CHECK(!(trial->on_device >> i & 1) == !trial->copies[i], "%s, rank %d: %ld copies", name, i, trial->copies[i]);
    }
    free(w);
}

TEST(devices_and_processors_by_shared_memory)
{
    for (int on = 1; on < 8; on += 3) /* one, one, all */
        run_trial(&(struct trial){.on_device = on, .fails = -1}, NULL, "rings");
}

TEST(devices_and_processors_by_tls)
{
    run_trial(&(struct trial){.on_device = 5, .fails = -1}, (const int[]){0, 1, 1}, "TLS and rings");
}

TEST(a_device_that_fails_is_the_cause)
{
    struct trial trial = {.on_device = 3, .fails = 1};
    struct mesh_world *w = mesh_world_new((struct rp_degrees){3, 1, 1}, NULL);
    mesh_world_run(w, exchange_sizes, &trial);
    CHECK(w->ranks[1].result < 0 && w->ranks[1].err.code == RP_IO && strstr(w->ranks[1].err.msg, "the device is gone"),
          "rank 1: %s", w->ranks[1].err.msg);
    for (int i = 0; i < 3; i += 2) /* because of it, or of the one that ended because of it */
        CHECK(w->ranks[i].result < 0 && w->ranks[i].err.code == RP_UNAVAILABLE, "rank %d: %s", i, w->ranks[i].err.msg);
    free(w);
}
