#include "supervise/joining.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdlib.h>

enum { TIMEOUT_S = 120 };

/* A process of --hosts: its place was given. */
static void take_place(struct rp_joining *j, const struct rp_joining_place *p)
{
    j->key = p->key;
    j->launch = (struct rp_launch){.kind = RP_LAUNCH_NODES,
                                   .row = -1,
                                   .launcher = "hosts",
                                   .name = "--hosts",
                                   .rank_variable = "--hosts",
                                   .size_variable = "",
                                   .rank = p->index,
                                   .size = p->size,
                                   .local_rank = -1,
                                   .node = p->index,
                                   .nodes = p->size,
                                   .ranks_per_node = p->ranks};
}

int rp_joining_detect(struct rp_joining *j, const struct rp_joining_opts *o, struct rp_err *err)
{
    const struct rp_job_key_opts k = {.file = o->job_key, .fd = (int)o->key_fd};
    struct rp_launch_opts l = {.launcher = o->launcher,
                               .nodes = o->nodes,
                               .ranks_per_node = o->ranks_per_node,
                               .rank_from = o->rank_from,
                               .size_from = o->size_from};
    *j = (struct rp_joining){.where = {.pmi = {.fd = -1}}};
    if (o->place) {
        take_place(j, o->place);
        return 0;
    }
    if (rp_job_key_load(&j->key, &k, err) < 0)
        return -1;
    l.several = j->key.source != NULL;
    if (o->node_rank && (rp_parse_count(o->node_rank, &l.node_rank1) < 0 || l.node_rank1++ >= RP_JOIN_MAX))
        return rp_fail(err, RP_USAGE, "--node-rank: expected a number from 0 to %d", RP_JOIN_MAX - 1);
    if (rp_launch_detect(&j->launch, &l, err) < 0)
        return -1;
    if (!j->launch.launcher && (o->nodes > 1 || o->join))
        return rp_fail(err, RP_USAGE,
                       "%s: nothing tells which process of the job this is: give --node-rank, or --rank-from and "
                       "--size-from, or start it by a launcher",
                       o->nodes > 1 ? "--nodes" : "--join");
    return 0;
}

static int show_waiting(void *progress, const char *line)
{
    if (progress)
        rp_progress_phase(progress, "joining", line);
    return 0;
}

int rp_joining_open(struct rp_joining *j, const struct rp_joining_opts *o, int ranks, const json_t *facts,
                    const json_t *about, struct rp_progress *progress, struct rp_err *err)
{
    const struct rp_rendezvous_opts r = {
        .join = o->join, .port = o->port, .talk = o->place ? &o->place->talk : NULL, .keep_pmi = o->keep_pmi};
    const uint64_t deadline = rp_now_ns() + (uint64_t)(o->timeout ? o->timeout : TIMEOUT_S) * 1000000000u;
    const struct rp_join_opts opts = {.launch = &j->launch,
                                      .where = &j->where,
                                      .key = &j->key,
                                      .ranks = ranks,
                                      .facts = facts,
                                      .about = about,
                                      .deadline = deadline,
                                      .waiting = show_waiting,
                                      .waiting_arg = progress,
                                      .check = o->place ? o->place->check : NULL,
                                      .check_arg = o->place ? o->place->arg : NULL,
                                      .machine = getenv("REPRO_HOST")};
    if (rp_join_check_key(&j->launch, &j->key, err) < 0) /* before anybody is asked for an address */
        return -1;
    if (j->launch.size != 1 && rp_rendezvous_find(&j->where, &j->launch, &r, deadline, err) < 0)
        return -1;
    return rp_join_open(&j->join, &opts, err);
}

void rp_joining_fini(struct rp_joining *j)
{
    rp_join_fini(&j->join);
    rp_rendezvous_fini(&j->where);
    rp_job_key_fini(&j->key);
}
