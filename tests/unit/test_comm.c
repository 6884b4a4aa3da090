/* The world of one, through the interface that every transport has. */
#include "comm/comm.h"

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
        CHECK(c->op->all_gather(c, group, out, in, sizeof in, &err) == 0 && memcmp(in, out, sizeof in) == 0, "all_gather");
        memset(out, 0, sizeof out);
        CHECK(c->op->all_to_all(c, group, out, in, sizeof in, &err) == 0 && memcmp(in, out, sizeof in) == 0, "all_to_all");
        CHECK(c->op->all_gather(c, group, in, in, sizeof in, &err) == 0, "in place");
        CHECK(c->op->barrier(c, group, &err) == 0, "barrier");
    }
}

TEST(there_is_nobody_to_talk_to)
{
    struct rp_err err = {0};
    struct rp_comm *c = rp_comm_self();
    char byte = 0;
    CHECK(c->op->send(c, RP_GROUP_WORLD, 1, &byte, 1, &err) < 0 && err.code == RP_BUG, "%s", err.msg);
    err = (struct rp_err){0};
    CHECK(c->op->recv(c, RP_GROUP_DATA, 0, &byte, 1, &err) < 0 && err.code == RP_BUG, "%s", err.msg);
    c->op->close(c);
}
