/* Ranks with two threads that exchange at once, each within another group: the bytes arrive, a failure of one ends both
 * on all ranks with its cause, and what would share a connection is refused. */
#include "tests/unit/mesh_fixture.h"
#include "tests/unit/mesh_messages.h"
#include "tests/unit/tap.h"

/* What the second thread of a rank does. */
struct second {
    struct rp_comm *comm;
    int (*run)(struct rp_comm *c, void *arg, struct rp_err *err);
    void *arg;
    int result;
    struct rp_err err;
};

static void *second_thread(void *arg)
{
    struct second *s = arg;
    s->result = s->run(s->comm, s->arg, &s->err);
    return NULL;
}

/* ---- bytes ---- */

static int run_rounds(struct rp_comm *c, const struct plan *p, const enum rp_group *g, int groups, struct rp_err *err)
{
    for (int i = 0; i < p->rounds; i++)
        if (plan_round(c, p, i, g[i % groups], err) < 0)
            return -1;
    return 0;
}

static int exchange_shares(struct rp_comm *c, void *arg, struct rp_err *err)
{
    static const enum rp_group data[] = {RP_GROUP_DATA};
    const struct plan *p = arg;
    const struct plan more = {.seed = p->seed + 1, .rounds = p->rounds, .most = p->most};
    return run_rounds(c, &more, data, 1, err);
}

static int run_both(struct rp_comm *c, void *arg, struct rp_err *err)
{
    static const enum rp_group others[] = {RP_GROUP_TENSOR, RP_GROUP_PIPELINE};
    struct plan *p = arg;
    pthread_t thread;
    if (rp_comm_barrier(c, RP_GROUP_WORLD, err) < 0)
        return -1;
    struct second s = {.comm = c->op->duplicate(c), .run = exchange_shares, .arg = p};
    c->count = (struct rp_comm_count){0};
    RP_BUG_IF(pthread_create(&thread, NULL, second_thread, &s) != 0);
    const int failed = run_rounds(c, p, others, 2, err) < 0;
    pthread_join(thread, NULL);
    if (failed || s.result < 0) {
        *err = failed ? *err : s.err;
        return -1;
    }
    CHECK(c->count.sent_in[RP_GROUP_DATA] == 0 && s.comm->count.sent_in[RP_GROUP_DATA] == s.comm->count.sent_bytes &&
              s.comm->count.sent_bytes > 0,
          "bytes of one thread count for the other");
    CHECK(s.comm->count.wait_ns <= s.comm->count.exchange_ns, "it waited longer than it exchanged");
    return rp_comm_barrier(c, RP_GROUP_WORLD, err); /* and the world's connections still have their order */
}

TEST(two_threads)
{
    static const struct {
        struct rp_degrees layout;
        int on_host;
    } worlds[] = {{{2, 2, 1}, 4}, {{2, 2, 1}, 1}, {{2, 2, 2}, 2}, {{3, 2, 1}, 3}, {{4, 1, 2}, 8}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
        struct plan plan = {.seed = (unsigned)i, .rounds = (60 + LESS - 1) / LESS, .most = 400000};
        int host[MESH_MOST];
        for (int k = 0; k < MESH_MOST; k++)
            host[k] = k / worlds[i].on_host;
        struct mesh_world *w = mesh_world_new(worlds[i].layout, host);
        mesh_world_run(w, run_both, &plan);
        for (int k = 0; k < w->n; k++)
            CHECK(w->ranks[k].result == 0, "world %zu, rank %d: %s", i, k, w->ranks[k].err.msg);
        free(w);
    }
}

/* ---- failures ---- */

/* Bytes to the other member of the group, or from it. */
static int move_one(struct rp_comm *c, enum rp_group g, int send, size_t bytes, struct rp_err *err)
{
    RP_FREE char *data = rp_alloc(bytes);
    const struct rp_transfer t = {!c->rank[g], send, data, bytes};
    return rp_comm_exchange(c, g, &t, 1, err);
}

/* The second threads of ranks 0 and 2, the data-parallel ones at tensor 0, disagree about the size of a message. */
static int disagree(struct rp_comm *c, void *arg, struct rp_err *err)
{
    (void)arg;
    if (c->rank[RP_GROUP_TENSOR] == 1)
        return move_one(c, RP_GROUP_DATA, 0, 1, err); /* which nobody sends */
    usleep(50000);
    return move_one(c, RP_GROUP_DATA, c->rank[RP_GROUP_DATA] == 0, 5 + (size_t)c->rank[RP_GROUP_DATA], err);
}

static int wait_for_ever(struct rp_comm *c, void *arg, struct rp_err *err)
{
    struct second s = {.comm = c->op->duplicate(c), .run = disagree};
    pthread_t thread;
    (void)arg;
    RP_BUG_IF(pthread_create(&thread, NULL, second_thread, &s) != 0);
    const int failed = move_one(c, RP_GROUP_TENSOR, 0, 1, err); /* which nobody sends */
    pthread_join(thread, NULL);
    CHECK(failed && (s.result < 0 || c->rank[RP_GROUP_WORLD] == 0), "rank %d: %s, and %s", c->rank[RP_GROUP_WORLD],
          err->msg, s.err.msg);
    CHECK(c->lost == s.comm->lost || s.comm->lost == -1, "rank %d lost %d, its second thread %d",
          c->rank[RP_GROUP_WORLD], c->lost, s.comm->lost);
    struct rp_err again;
    CHECK(move_one(c, RP_GROUP_TENSOR, 0, 1, &again) < 0, "rank %d exchanges after a failure", c->rank[RP_GROUP_WORLD]);
    return failed;
}

TEST(failure_of_the_second_thread)
{
    for (int apart = 0; apart < 2; apart++) {
        const int host[4] = {0, apart, 2 * apart, 3 * apart};
        struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 2, 1}, host);
        const uint64_t start = rp_now_ns();
        mesh_world_run(w, wait_for_ever, NULL);
        CHECK((double)(rp_now_ns() - start) < 5e9, "%.1f s", (double)(rp_now_ns() - start) * 1e-9);
        for (int k = 0; k < 4; k++) { /* rank 2 was sent 5 bytes where it expected 6: it knows, or heard of it */
            const struct rp_err *e = &w->ranks[k].err;
            CHECK(w->ranks[k].result < 0 && e->code == RP_MISMATCH && strstr(e->msg, " 5 ") && strstr(e->msg, " 6") &&
                      strstr(e->msg, "rank 2"),
                  "rank %d: %s", k, e->msg);
        }
        free(w);
    }
}

/* ---- what shares a connection ---- */

static int wait_for_data(struct rp_comm *c, void *arg, struct rp_err *err)
{
    (void)arg;
    return move_one(c, RP_GROUP_DATA, 0, 1, err);
}

static _Atomic int exchanging, tried; /* the second thread of rank 0 waits for rank 1; its first thread has tried */

static int note_exchange(void *arg, int rank)
{
    (void)arg, (void)rank;
    exchanging = 1;
    return 0;
}

static int clash(struct rp_comm *c, void *arg, struct rp_err *err)
{
    const enum rp_group g = *(const enum rp_group *)arg;
    struct second s = {.comm = c->op->duplicate(c), .run = wait_for_data};
    pthread_t thread;
    if (c->rank[RP_GROUP_DATA] == 1) {
        while (!tried)
            usleep(1000);
        return move_one(c, RP_GROUP_DATA, 1, 1, err);
    }
    s.comm->waiting = note_exchange;
    RP_BUG_IF(pthread_create(&thread, NULL, second_thread, &s) != 0);
    while (!exchanging)
        usleep(1000);
    struct rp_err bug;
    CHECK(move_one(c, g, 1, 1, &bug) < 0 && bug.code == RP_BUG, "%s", bug.msg);
    tried = 1;
    pthread_join(thread, NULL);
    return s.result < 0 ? (*err = s.err, -1) : 0;
}

TEST(one_exchange_of_a_group_at_a_time)
{
    for (enum rp_group g = RP_GROUP_WORLD; g <= RP_GROUP_DATA; g++) {
        struct mesh_world *w = mesh_world_new((struct rp_degrees){2, 1, 1}, NULL);
        exchanging = tried = 0;
        mesh_world_run(w, clash, &g);
        for (int k = 0; k < 2; k++)
            CHECK(w->ranks[k].result == 0, "rank %d: %s", k, w->ranks[k].err.msg);
        free(w);
    }
}
