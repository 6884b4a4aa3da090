/* Groups of ranks, and the collectives that every transport shares. */
#include "comm/comm.h"
#include "worker/rank.h"

#include "tests/unit/ranks.h"
#include "tests/unit/tap.h"

#include <string.h>

TEST(alone_in_every_group)
{
    struct rp_err err = {0};
    struct rp_comm *c = rp_comm_self();
    char in[] = "a piece", out[sizeof in];
    for (int g = 0; g < RP_GROUPS; g++) {
        enum rp_group group = (enum rp_group)g;
        CHECK(c->rank[g] == 0 && c->size[g] == 1, "group %d", g);
        memset(out, 0, sizeof out);
        CHECK(rp_comm_all_gather(c, group, out, in, sizeof in, &err) == 0 && memcmp(in, out, sizeof in) == 0,
              "all_gather");
        CHECK(rp_comm_all_gather(c, group, in, in, sizeof in, &err) == 0, "in place");
        CHECK(rp_comm_barrier(c, group, &err) == 0, "barrier");
    }
    c->op->close(c);
}

TEST(members_of_groups)
{
    struct rp_comm c = {0};
    const struct rp_degrees layout = {.data = 3, .tensor = 2, .pipeline = 4};
    for (int rank = 0; rank < 24; rank++) {
        rp_comm_set_coords(&c, rank, layout);
        CHECK(c.size[RP_GROUP_WORLD] == 24 && c.rank[RP_GROUP_WORLD] == rank, "world of rank %d", rank);
        CHECK(c.rank[RP_GROUP_TENSOR] == rank % 2 && c.rank[RP_GROUP_DATA] == rank / 2 % 3 &&
                  c.rank[RP_GROUP_PIPELINE] == rank / 6,
              "place of rank %d", rank);
        for (int g = 0; g < RP_GROUPS; g++)
            CHECK(rp_comm_world_rank(&c, (enum rp_group)g, c.rank[g]) == rank, "group %d of rank %d", g, rank);
    }
    rp_comm_set_coords(&c, 9, layout); /* stage 1, data 1, tensor 1 */
    CHECK(rp_comm_world_rank(&c, RP_GROUP_DATA, 2) == 11, "data");
    CHECK(rp_comm_world_rank(&c, RP_GROUP_TENSOR, 0) == 8, "tensor");
    CHECK(rp_comm_world_rank(&c, RP_GROUP_PIPELINE, 3) == 21, "stage");
}

enum { PIECE = 1000 };

/* What rank `from` has for all. */
static void fill_piece(unsigned char *piece, int from)
{
    for (int i = 0; i < PIECE; i++)
        piece[i] = (unsigned char)(from * 31 + i);
}

static int is_piece(const unsigned char *piece, int from)
{
    unsigned char expected[PIECE];
    fill_piece(expected, from);
    return memcmp(piece, expected, PIECE) == 0;
}

static int exchange_in_all_groups(struct rp_comm *c, void *arg, struct rp_err *err)
{
    int *wrong = arg;
    for (int g = 0; g < RP_GROUPS; g++) {
        const enum rp_group group = (enum rp_group)g;
        const int n = c->size[g], own = c->rank[g];
        RP_FREE unsigned char *in = rp_alloc(PIECE), *out = rp_alloc((size_t)n * PIECE);
        RP_FREE struct rp_piece *piece = rp_alloc((size_t)n * sizeof *piece);
        fill_piece(in, own);
        if (rp_comm_all_gather(c, group, out, in, PIECE, err) < 0)
            return -1;
        for (int i = 0; i < n; i++)
            *wrong |= !is_piece(out + i * PIECE, i);
        for (int i = 0; i < n; i++) /* of different sizes, one of them empty, in reverse order */
            piece[i] = (struct rp_piece){(size_t)(n - 1 - i) * 200, (size_t)(i % 3 * 100)};
        memset(out, 0, (size_t)n * PIECE);
        memset(out + piece[own].at, own + 1, piece[own].bytes);
        if (rp_comm_all_gather_pieces(c, group, out, piece, err) < 0)
            return -1;
        for (int i = 0; i < n; i++)
            for (size_t b = 0; b < 200; b++)
                *wrong |= out[piece[i].at + b] != (b < piece[i].bytes ? i + 1 : 0);
        if (rp_comm_barrier(c, group, err) < 0)
            return -1;
    }
    return 0;
}

TEST(collectives_among_ranks)
{
    const struct rp_degrees layouts[] = {{1, 1, 1}, {2, 1, 1}, {3, 2, 1}, {2, 2, 3}, {32, 1, 1}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct rp_err err = {0};
        int wrong = 0;
        CHECK(ranks_run(layouts[i], NULL, exchange_in_all_groups, &wrong, &err) == 0 && !wrong, "layout %zu: %s", i,
              err.msg);
    }
}

static int disagree(struct rp_comm *c, void *arg, struct rp_err *err)
{
    char bytes[8] = {0};
    const int own = c->rank[RP_GROUP_WORLD];
    const struct rp_transfer t[] = {{!own, 1, bytes, 4}, {!own, 0, bytes + 4, own ? 4 : 3}};
    (void)arg;
    return rp_comm_exchange(c, RP_GROUP_WORLD, t, 2, err);
}

TEST(sizes_that_differ_are_refused)
{
    struct rp_err err = {0};
    CHECK(ranks_run((struct rp_degrees){2, 1, 1}, NULL, disagree, NULL, &err) < 0 && err.code == RP_MISMATCH, "%s",
          err.msg);
}

/* Of six ranks on two hosts a launcher binds those of the first to two sets of processors; of the second all share. */
TEST(processors_are_divided_among_ranks_that_may_use_the_same_ones)
{
    int host[6] = {0, 0, 0, 0, 1, 1}, set[6] = {0, 0, 2, 3, 4, 4}, gpu[6] = {0};
    static const struct rp_cpu_sharers expected[6] = {{0, 2}, {1, 2}, {0, 1}, {0, 1}, {0, 2}, {1, 2}};
    for (int i = 0; i < 6; i++) {
        const struct rp_rank_of rank = {.rank = i, .degrees = {6, 1, 1}, .host = host, .gpu = gpu, .cpu_set = set};
        const struct rp_cpu_sharers s = rp_world_cpu_sharers(&rank);
        CHECK(s.index == expected[i].index && s.ranks == expected[i].ranks);
    }
    const struct rp_rank_of unbound = {.rank = 2, .degrees = {6, 1, 1}, .host = host, .gpu = gpu};
    CHECK(rp_world_cpu_sharers(&unbound).index == 2 && rp_world_cpu_sharers(&unbound).ranks == 4);
}
