/* Differences between the machines of two results, and which of them are reservations of their own. */
#include "compare/compare.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/fields.h"
#include "capture/probe.h"
#include "capture/value.h"
#include "run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LISTED 40      /* differences; the rest is counted */
#define NAMED_BYTES 160 /* of the text that names those of high impact; the one that goes beyond is the last */
#define VALUE_BYTES 80  /* of one value in it */

/* Fields that another confounder covers, if it is named: another processor has other caches and more cores. */
static const struct {
    const char *key, *fields;
} covered[] = {
    {"device_model", "cpu."},           {"device_model", "topology."},
    {"device_model", "memory."},        {"device_model", "frequency."},
    {"device_model", "gpu.devices"},    {"device_model", "nvidia.gpus."},
    {"device_model", "kernel.machine"}, {"devices", "gpu.count"},
    {"devices", "gpu.devices"},         {"devices", "gpu.cuda_devices"},
    {"devices", "nvidia.gpus."},        {"devices", "jobs."},
    {"rank_layout", "jobs."},           {"nodes", "jobs."},
    {"clocks", "frequency."},           {"clocks", "gpu.devices.*.clock_"},
};
/* Fields that do not matter for runs on processors. */
static const char *const of_gpus[] = {"gpu.", "nvidia.", "cuda.", "rdma.", "environment.CUDA_", "environment.NCCL_"};

static int begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int is_high(const struct rp_difference *d)
{
    return strcmp(d->impact, rp_impact_name(RP_IMPACT_HIGH)) == 0;
}

static int is_named(const struct rp_pair *pair, const char *key)
{
    for (int64_t i = 0; i < pair->confounders_n; i++)
        if (strcmp(pair->confounders[i].key, key) == 0)
            return 1;
    return 0;
}

/* By the pattern of the field, in which names of devices are '*'. */
static int is_covered(const struct rp_pair *pair, const char *pattern)
{
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++)
        if (begins_with(pattern, covered[i].fields) && is_named(pair, covered[i].key))
            return 1;
    return 0;
}

static int is_of_gpus(const char *pattern)
{
    for (size_t i = 0; i < sizeof of_gpus / sizeof *of_gpus; i++)
        if (begins_with(pattern, of_gpus[i]))
            return 1;
    return 0;
}

/* A value for a cell; of a list or a group, such as a library, only the number of entries. */
static void put_value(struct rp_buf *out, const json_t *side)
{
    RP_BUF text = {0};
    const struct rp_leaf leaf = rp_leaf(side);
    const json_t *value = leaf.value;
    if (json_is_array(value) || json_is_object(value))
        rp_buf_printf(&text, "(%zu entries)", json_array_size(value) + json_object_size(value));
    else if (value)
        rp_json_write_plain(&text, value);
    else if (leaf.values)
        rp_buf_printf(&text, "(%lld value%s)", (long long)leaf.values, rp_s(leaf.values));
    else
        rp_buf_puts(&text, *leaf.state ? leaf.state : "absent");
    size_t n = strcspn(rp_buf_text(&text), "\n");
    rp_buf_printf(out, "%.*s%s", (int)(n < VALUE_BYTES ? n : VALUE_BYTES), rp_buf_text(&text),
                  n < VALUE_BYTES ? "" : "...");
}

/* In both texts, as long as there is room. */
static void name_both(struct rp_machines_named *to, const char *field, const json_t *of_a, const json_t *of_b)
{
    struct rp_buf *const text[] = {&to->a, &to->b};
    for (int i = 0; i < 2; i++) {
        if (text[i]->size > NAMED_BYTES)
            continue;
        rp_buf_printf(text[i], "%s%s ", text[i]->size ? ", " : "", field);
        put_value(text[i], i ? of_b : of_a);
        if (text[i]->size > NAMED_BYTES)
            rp_buf_puts(text[i], ", ...");
    }
    to->n++;
}

/* The differences of a list that are reservations: of high impact, about hardware that these runs used, and not covered
 * already. */
static void name_list(struct rp_machines_named *to, const struct rp_difference *list, int64_t n,
                      const struct rp_pair *pair, int no_gpus)
{
    for (int64_t i = 0; i < n; i++) {
        const struct rp_difference *d = &list[i];
        const char *pattern = d->pattern ? d->pattern : "";
        if (rp_capture_important(d) && is_high(d) && !is_covered(pair, pattern) && !(no_gpus && is_of_gpus(pattern)))
            name_both(to, d->field, d->a, d->b);
    }
}

/* Has the probe of that name a field of high impact? */
static int probe_is_high(const char *name)
{
    size_t size = strlen(name);
    for (const struct rp_field *f = rp_fields; f->pattern; f++)
        if (strncmp(f->pattern, name, size) == 0 && f->pattern[size] == '.' && f->impact == RP_IMPACT_HIGH &&
            !f->moment)
            return 1;
    return 0;
}

/* A probe that is missing on one side is a reservation too. */
static void name_missing(struct rp_machines_named *to, const struct rp_capture_comparison *c, const struct rp_result *a,
                         const struct rp_pair *pair, int no_gpus)
{
    RP_JSON *there = json_pack("{s:s, s:s}", "state", "ok", "value", "captured");
    RP_JSON *not_there = json_pack("{s:s, s:s}", "state", "ok", "value", "not captured");
    for (int64_t i = 0; i < c->not_captured_n; i++) {
        const char *name = c->not_captured[i];
        RP_FREE char *pattern = rp_asprintf("%s.", name);
        const int in_a = rp_value_at(rp_json_at(a->environment, "probes"), name) != NULL;
        if (probe_is_high(name) && !is_covered(pair, pattern) && !(no_gpus && is_of_gpus(pattern)))
            name_both(to, name, in_a ? there : not_there, in_a ? not_there : there);
    }
}

/* Takes those that are listed. */
static struct rp_machine_comparison *list_differences(struct rp_capture_comparison *c)
{
    struct rp_machine_comparison *out = rp_alloc(sizeof *out);
    rp_object_init(out, &rp_type_machine_comparison);
    for (int high = 1; high >= 0; high--)
        for (int64_t i = 0; i < c->different_n; i++) {
            struct rp_difference *d = &c->different[i];
            if (!d->field)
                continue; /* taken */
            if (!rp_capture_important(d)) {
                out->other += high;
            } else if (is_high(d) == high && out->important_n < LISTED) {
                struct rp_difference *to = rp_object_add(&out->important, &out->important_n, &rp_type_difference);
                *to = *d;
                rp_object_init(d, &rp_type_difference);
            } else {
                out->more += is_high(d) == high;
            }
        }
    out->not_compared = c->one_side_n + c->not_comparable_n + c->not_captured_n;
    return out;
}

int rp_compare_machines(struct rp_pair *pair, struct rp_machines_high *high, const struct rp_result *a,
                        const struct rp_result *b, struct rp_err *err)
{
    RP_CAPTURE_COMPARISON c = {0};
    const int no_gpus = a->gpus_per_node == 0 && b->gpus_per_node == 0;
    if (rp_capture_compare(&c, a->environment, b->environment, err) < 0)
        return -1;
    name_list(&high->differs, c.different, c.different_n, pair, no_gpus);
    name_list(&high->unknown, c.one_side, c.one_side_n, pair, no_gpus);
    name_list(&high->unknown, c.not_comparable, c.not_comparable_n, pair, no_gpus);
    name_missing(&high->unknown, &c, a, pair, no_gpus);
    pair->environment = list_differences(&c);
    return 0;
}

/* ---- other work ---- */

struct machine_load {
    double load, running; /* NaN: unknown */
};

static struct machine_load load_before(const json_t *probes)
{
    struct machine_load m;
    if (rp_known_number(probes, "kernel.load_1min", &m.load) < 0)
        m.load = NAN;
    if (rp_known_number(probes, "kernel.tasks_running", &m.running) < 0)
        m.running = NAN;
    return m;
}

/* run.json lists what changed; other values stayed the same. */
static struct machine_load load_after(struct machine_load m, const struct rp_node_figures *node)
{
    for (int64_t i = 0; i < node->change_n; i++) {
        const struct rp_change *one = &node->change[i];
        const json_t *value = rp_leaf(one->after).value;
        double *to = strcmp(one->field, "kernel.load_1min") == 0       ? &m.load
                     : strcmp(one->field, "kernel.tasks_running") == 0 ? &m.running
                                                                       : NULL;
        if (to)
            *to = json_is_number(value) ? json_number_value(value) : NAN;
    }
    return m;
}

/* The load is a mean over the last minute, in which this program may have been built or have trained: if only the
 * capture itself is runnable, the load was that. After the run, as much load as it has threads is its own. */
static int is_loaded(struct machine_load m, double own, double cpus)
{
    return m.load - own > 0.5 && m.load - own > 0.1 * cpus && !(m.running <= 1);
}

static int64_t threads_on(const struct rp_facts *f, int node)
{
    int64_t n = 0;
    for (int64_t i = 0; i < f->rank_n; i++)
        if (f->rank[i].node == node && f->rank[i].device && f->rank[i].device->threads > 0)
            n += f->rank[i].device->threads;
    return n;
}

/* "load 5.02 before the run, 6 tasks running", "none", or NULL: unknown; free() it. */
static char *other_work_of(const struct rp_run *run, int node)
{
    const json_t *probes = rp_json_at(rp_run_capture(run, node, 0), "probes");
    const char *online = rp_known_text(probes, "cpu.online");
    const int cpus = online ? rp_parse_cpus(online, NULL, RP_MAX_CPUS) : 0;
    const struct machine_load before = load_before(probes);
    const struct machine_load at[2] = {before, load_after(before, &run->figures->node[node])};
    if (isnan(before.load))
        return NULL;
    for (int i = 0; i < 2; i++)
        if (is_loaded(at[i], i ? (double)threads_on(run->facts, node) : 0, cpus > 0 ? cpus : 0)) {
            RP_FREE char *running = isnan(at[i].running) ? NULL : rp_asprintf(", %.6g tasks running", at[i].running);
            RP_FREE char *where = run->nodes > 1 ? rp_asprintf(" on node %d", node) : NULL;
            return rp_asprintf("load %.6g %s the run%s%s", at[i].load, i ? "after" : "before", where ? where : "",
                               running ? running : "");
        }
    return rp_strdup("none");
}

void rp_result_other_work(struct rp_result *row, const struct rp_run *run)
{
    struct rp_err err;
    int known = 1, loaded = 0;
    for (int i = 0; i < run->nodes && !loaded; i++) {
        RP_FREE char *text = other_work_of(run, i);
        known &= text != NULL;
        loaded = text && strcmp(text, "none") != 0;
        if (loaded)
            RP_BUG_IF(rp_result_text(&row->other_work, "other_work", text, &err) < 0);
    }
    if (!loaded)
        RP_BUG_IF(rp_result_text(&row->other_work, "other_work", known ? "none" : "", &err) < 0);
}
