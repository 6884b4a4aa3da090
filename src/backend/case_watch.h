/* Progress of a self-test or a measurement: reports while operations are compared or measured, one after the other.
 *
 * What:    two functions that rp_ops_selftest_device() and rp_ops_speed() call, so that a hang names its case.
 * Flow:    begin() before each case, done() after each row of the report.
 * Owner:   the caller; NULL: no reports. Texts and rows are borrowed during the call.
 * Extend:  another report is a function pointer here, an inline function that checks it, and a frame that repro-gpu
 *          sends (gpu/main.c) and worker/gpu_proxy.c reads.
 */
#pragma once

#include <jansson.h>

struct rp_case_watch {
    /* number: of the operation's case or of the row, from 1 */
    void (*begin)(void *arg, const char *op, int number, const char *shape);
    void (*done)(void *arg, const json_t *row);
    void *arg;
};

static inline void rp_case_watch_begin(const struct rp_case_watch *p, const char *op, int number, const char *shape)
{
    if (p && p->begin)
        p->begin(p->arg, op, number, shape);
}

static inline void rp_case_watch_done(const struct rp_case_watch *p, const json_t *row)
{
    if (p && p->done)
        p->done(p->arg, row);
}
