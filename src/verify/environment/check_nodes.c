/* The nodes of a run against each other: captures of one machine that counts as several, or of another day. Part of the
 * check `same_host`. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/value.h"
#include "verify/state.h"

#include <math.h>
#include <stdlib.h>

#define CLOCKS_S 300.0        /* a wall clock may be set during a run by less */
#define MARKS_MAX 512         /* GPUs and network adapters of a node; no real machine has more */
#define ONE_CLOCK_NS 1000000  /* clocks that count from the start of their systems and differ by less are one */

static const json_t *probes_of(const struct rp_run *r, int node, int after)
{
    return rp_group(rp_run_capture(r, node, after), "probes");
}

/* The first process on that node, whose clock is known, or NULL. */
static const struct rp_process_facts *process_on(const struct rp_run *r, int node)
{
    for (int64_t i = 0; i < r->facts->process_n; i++)
        if (r->facts->process[i].host == node)
            return r->facts->process[i].clock.error_ns < 0 ? NULL : &r->facts->process[i];
    return NULL;
}

/* The captures of a node are from the run, by its wall clock; one that was not compared with that of node 0 may be
 * wrong by any time, as may one that was. */
static int check_times(const struct rp_run *r, int node, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_process_facts *p = process_on(r, node);
    const double ahead = p ? (double)p->clock.wall_ns / 1e9 : 0, start = rp_wall_time(r->facts->started_at),
                 end = rp_wall_time(r->facts->ended_at);
    for (int after = 0; after < 2; after++) {
        const json_t *c = rp_run_capture(r, node, after);
        if (!c)
            continue;
        const double at = rp_captured_at(c) - ahead;
        if (at > start - CLOCKS_S && at < end + CLOCKS_S)
            continue;
        if (p)
            return rp_fail(err, RP_MISMATCH,
                           "env/node%d.%s.json was not captured during the run: %.0f s from its start by "
                           "the clocks in facts.json",
                           node, after ? "after" : "before", at - start);
        if (result->state != RP_CHECK_WARNING)
            rp_check_warn(result,
                          "env/node%d.%s.json was captured %.0f s from the start of the run, by a clock that was not "
                          "compared with that of node 0",
                          node, after ? "after" : "before", at - start);
    }
    if (fabs(ahead) > CLOCKS_S && result->state != RP_CHECK_WARNING)
        rp_check_warn(result, "the wall clock of node %d is %.0f s %s that of node 0: one of them was not set", node,
                      fabs(ahead), ahead < 0 ? "behind" : "ahead of");
    return 0;
}

static int is_same(const json_t *a, const json_t *b, const char *field)
{
    const json_t *x = rp_known(a, field), *y = rp_known(b, field);
    return x && y && json_equal(x, y);
}

/* ---- marks ---- */

/* A value that no other device has, hidden or not, as a key with the field, or device, that it is of; *twice, unless
 * NULL: what had it already. */
static void add_mark(json_t *marks, const json_t *value, const char *of, const char **twice)
{
    if (!value || json_object_size(marks) >= MARKS_MAX)
        return;
    RP_BUF key = {0};
    RP_JSON *wrapped = json_pack("[O]", value);
    rp_json_write_line(&key, wrapped);
    const json_t *had = json_object_get(marks, rp_buf_text(&key));
    if (had && twice)
        *twice = json_string_value(had);
    else
        json_object_set_new_nocheck(marks, rp_buf_text(&key), json_string(of));
}

/* A capture lists every GPU once. */
static int check_gpus_once(const struct rp_run *r, int node, int after, struct rp_err *err)
{
    RP_JSON *marks = json_object();
    const char *name, *twice = NULL;
    char shown[72], other[72];
    json_t *one;
    json_object_foreach((json_t *)rp_group(probes_of(r, node, after), "gpu.devices"), name, one) {
        add_mark(marks, rp_known(one, "uuid"), name, &twice);
        if (twice)
            return rp_fail(err, RP_MISMATCH, "env/node%d.%s.json: '%s' and '%s' have one UUID, and no two GPUs do",
                           node, after ? "after" : "before", rp_excerpt(other, twice), rp_excerpt(shown, name));
    }
    return 0;
}

/* UUIDs of GPUs, and addresses of interfaces of hardware, which have a driver: those of containers may be equal on any
 * two hosts. Hidden ones are comparable, as all captures of a run have one salt. */
static json_t *marks_of(const json_t *probes)
{
    json_t *marks = json_object(), *one;
    const char *name;
    json_object_foreach((json_t *)rp_group(probes, "gpu.devices"), name, one)
        add_mark(marks, rp_known(one, "uuid"), "gpu.devices.*.uuid", NULL);
    json_object_foreach((json_t *)rp_group(probes, "network.interfaces"), name, one)
        if (rp_known(one, "driver"))
            add_mark(marks, rp_known(one, "address"), "network.interfaces.*.address", NULL);
    return marks;
}

/* [nodes] */
static json_t **marks_of_all(const struct rp_run *r)
{
    json_t **marks = rp_alloc((size_t)r->nodes * sizeof *marks);
    for (int i = 0; i < r->nodes; i++)
        marks[i] = marks_of(probes_of(r, i, 0));
    return marks;
}

static void free_marks(json_t **marks, int n)
{
    for (int i = 0; i < n; i++)
        json_decref(marks[i]);
    free(marks);
}

/* The field of a mark that both have; NULL: there is none. */
static const char *shared_mark(const json_t *a, const json_t *b)
{
    const int fewer = json_object_size(a) <= json_object_size(b);
    const char *key;
    json_t *field;
    json_object_foreach((json_t *)(fewer ? a : b), key, field)
        if (json_object_get(fewer ? b : a, key))
            return json_string_value(field);
    return NULL;
}

/* ---- one machine that counts as two ---- */

/* CLOCK_MONOTONIC counts from the start of a system: two that were started in the same millisecond are one. */
static int shares_clock(const struct rp_run *r, int i, int k)
{
    const struct rp_process_facts *a = process_on(r, i), *b = process_on(r, k);
    if (!a || !b || a->clock.error_ns + b->clock.error_ns >= ONE_CLOCK_NS)
        return 0;
    return fabs((double)a->clock.monotonic_ns - (double)b->clock.monotonic_ns) < ONE_CLOCK_NS;
}

/* What shows that two nodes are one machine; NULL: nothing does. Serial numbers and UUIDs of boards may be a vendor's
 * placeholder. */
static const char *same_machine(const struct rp_run *r, json_t *const *marks, int i, int k)
{
    if (is_same(probes_of(r, i, 0), probes_of(r, k, 0), "host.boot_id"))
        return "host.boot_id";
    const char *shared = shared_mark(marks[i], marks[k]);
    return shared ? shared : shares_clock(r, i, k) ? "CLOCK_MONOTONIC" : NULL;
}

int rp_verify_machines(const struct rp_run *r)
{
    json_t **marks = marks_of_all(r);
    int n = 0;
    for (int i = 0; i < r->nodes; i++) {
        int first = 1;
        for (int k = 0; k < i && first; k++)
            first = !same_machine(r, marks, k, i);
        n += first;
    }
    free_marks(marks, r->nodes);
    return n;
}

int rp_verify_nodes(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    for (int i = 0; i < 2 * s->run.nodes; i++)
        if (check_gpus_once(&s->run, i / 2, i % 2, err) < 0)
            return -1;
    json_t **marks = marks_of_all(&s->run);
    for (int i = 0; i < s->run.nodes; i++)
        for (int k = i + 1; k < s->run.nodes && result->state != RP_CHECK_WARNING; k++) {
            const char *same = same_machine(&s->run, marks, i, k);
            if (same)
                rp_check_warn(result, "nodes %d and %d are one machine: they have the same %s", i, k, same);
        }
    free_marks(marks, s->run.nodes);
    for (int i = 1; i < s->run.nodes; i++)
        if (check_times(&s->run, i, result, err) < 0)
            return -1;
    return 0;
}
