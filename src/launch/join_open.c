/* Processes become one job: all of them until the world is complete, and its first clocks. */
#include "launch/join.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "launch/join_link.h"

#include <stdio.h>

#define SILENCE_MS 8000

static uint64_t count_without_clock(const struct rp_join *j)
{
    uint64_t missing = 0;
    for (int i = 1; i < j->members; i++)
        missing += j->member[i].clock.error_ns < 0;
    return missing;
}

static int open_links(struct rp_join *j, const struct rp_join_opts *o, json_t *own, struct rp_err *err)
{
    enum { CLOCK_ROUNDS = 8, CLOCK_MS = 5000 };
    if (j->members == 1) {
        struct rp_join_request mine;
        rp_object_read(&mine, &rp_type_join_request, own);
        rp_join_make_world(j, &mine);
        rp_object_fini(&mine, &rp_type_join_request);
        return 0;
    }
    if (!j->lead)
        return rp_join_follow(j, o, own, err);
    if (rp_join_lead(j, o, own, err) < 0)
        return -1;
    if (rp_join_clocks(j, CLOCK_ROUNDS, CLOCK_MS, err) < 0)
        return -1;
    if (count_without_clock(j))
        return rp_fail(err, RP_UNAVAILABLE, "%llu processes joined and then did not answer within %d s",
                       (unsigned long long)count_without_clock(j), CLOCK_MS / 1000);
    RP_JSON *world = rp_join_world_json(j);
    return rp_join_broadcast(j, RP_FRAME_WORLD, world, err);
}

int rp_join_check_key(const struct rp_launch *l, const struct rp_job_key *key, struct rp_err *err)
{
    char of[40] = ""; /* how many they are may be known later (PMI) */
    if (key->source || l->size == 1)
        return 0;
    if (l->size > 1)
        snprintf(of, sizeof of, " of %lld", (long long)l->size);
    return rp_fail(err, RP_USAGE, "process %lld%s has no key of the job, and repro does not connect without one: %s",
                   (long long)l->rank, of, l->key_remedy ? l->key_remedy : "set REPRO_JOB_KEY");
}

int rp_join_open(struct rp_join *j, const struct rp_join_opts *o, struct rp_err *err)
{
    const struct rp_launch *l = o->launch;
    *j = (struct rp_join){
        .own = (int)l->rank, .members = (int)l->size, .lead = l->rank == 0, .wall = o->wall ? o->wall : rp_wall_ns};
    j->silence_ns = (uint64_t)(o->silence_ms > 0 ? o->silence_ms : SILENCE_MS) * 1000000u;
    if (l->size < 1 || l->size > RP_JOIN_MAX)
        return rp_fail(err, RP_USAGE, "a job of %lld processes, expected 1 to %d", (long long)l->size, RP_JOIN_MAX);
    if (rp_join_check_key(l, o->key, err) < 0)
        return -1;
    j->member = rp_alloc((size_t)l->size * sizeof *j->member);
    RP_JSON *own = rp_join_describe(o, o->machine);
    if (open_links(j, o, own, err) == 0)
        return 0;
    if (!j->failed.code)
        rp_join_abort(j, err);
    rp_join_fini(j);
    return -1;
}
