/* A small honest run without training, of one rank or several: tests bend one part of it, and its documents are made
 * again. */
#pragma once

#include "ops/tensor_probe.h"
#include "recipe/recipe.h"
#include "report/report.h"
#include "run/derive.h"
#include "run/seal.h"
#include "sign/challenge.h"
#include "train/train.h"
#include "worker/job.h"
#include "worker/worker.h"
#include "tests/unit/parts_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FX_RANKS = 16 };

struct fx {
    struct rp_recipe recipe;
    struct rp_buf steps, telemetry; /* of one rank */
    struct rp_buf challenge;        /* that the run answers; empty: none */
    struct rp_run_documents *doc;   /* as fx_documents() or fx_derive() made them */
    json_t *facts, *run;            /* of doc: the members facts.json and run.json, which tests bend */
    json_t *before, *after;
    const char *backend, *device; /* NULL: "cpu", "isa=avx2 threads=1"; fx_device() */
    const char *no_telemetry;
    json_t *done;                         /* what the last record of every worker has besides, or NULL */
    int ranks, nodes;                     /* of a run of several data-parallel ranks; 0: one */
    long long ahead_ns;                   /* the clocks of nodes after the first */
    json_t *processes, *launch;           /* of a run on several nodes; NULL: a process for each */
    struct rp_buf of_rank[FX_RANKS];      /* records of several ranks; made of `steps` where empty */
    struct rp_buf telemetry_of[FX_RANKS]; /* and device samples, in the place of `telemetry` */
    /* What their workers sent first, and last besides `done`; NULL: as of rank 0. */
    json_t *hello[FX_RANKS], *ended[FX_RANKS];
    /* Captures of nodes after the first; NULL: as of node 0, null: there is none. */
    json_t *node_before[FX_RANKS], *node_after[FX_RANKS];
};

/* The scratch directory; XDG_CONFIG_HOME points into it, so no test sees the user's keys. */
static __attribute__((unused)) const char *fx_dir(void)
{
    if (!*scratch_path) {
        setenv("XDG_CONFIG_HOME", scratch_dir(), 1);
        unsetenv("REPRO_KEY");
    }
    return scratch_path;
}

static __attribute__((unused)) char *fx_path(const char *name)
{
    return rp_asprintf("%s/%s", fx_dir(), name);
}

/* The same in both; takes the value. */
static __attribute__((unused)) void fx_capture_both(struct fx *x, const char *group, const char *name, json_t *value)
{
    fx_capture_value(x->before, group, name, json_incref(value));
    fx_capture_value(x->after, group, name, value);
}

/* place: of a rank among several; NULL: one rank. */
static struct rp_plan fx_plan(const struct rp_recipe *r, struct rp_comm *place)
{
    struct rp_err err;
    struct rp_plan plan = {0}, largest = {0};
    struct rp_device_opts o = {.isa = "avx2", .threads = 1};
    struct rp_recipe most = *r;
    most.train_batch_size = 1000;
    int failed = rp_train_size(&plan, r, place, &rp_backend_cpu, &o, &err) < 0 ||
                 rp_train_size(&largest, &most, place, &rp_backend_cpu, &o, &err) < 0;
    CHECK(failed == 0, "plan: %s", err.msg);
    plan.available = largest.total; /* of a machine that has room for just that */
    plan.max_batch = most.train_batch_size;
    return plan;
}

/* Where PATH/TO/KEY of a document is, in which numbers are places in lists; *key: of the last part. */
static json_t *fx_parent(json_t *j, const char *path, const char **key)
{
    char part[64];
    for (size_t n; path[n = strcspn(path, "/")]; path += n + 1) {
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        j = json_is_array(j) ? json_array_get(j, (size_t)atoi(part)) : json_object_get(j, part);
    }
    *key = path;
    return j;
}

/* The value there; takes the reference. */
static __attribute__((unused)) void set_path(json_t *j, const char *path, json_t *value)
{
    const char *key;
    json_t *in = fx_parent(j, path, &key);
    int failed =
        json_is_array(in) ? json_array_set_new(in, (size_t)atoi(key), value) : json_object_set_new(in, key, value);
    CHECK(failed == 0, "no %s", path);
}

/* A document is again what it was when it was copied. */
static __attribute__((unused)) void fx_restore(json_t *j, json_t *copy)
{
    json_object_clear(j);
    json_object_update(j, copy);
}

/* What facts.json has of a rank. */
static __attribute__((unused)) json_t *fx_rank(const struct fx *x, int rank)
{
    return json_array_get(json_object_get(x->facts, "rank"), (size_t)rank);
}

/* What the run has of its signer's ledger, in which everything else is unknown; takes the reference. */
static __attribute__((unused)) void fx_set_ledger(struct fx *x, json_t *ledger)
{
    struct rp_ledger_facts is;
    rp_object_read(&is, &rp_type_ledger_facts, ledger);
    json_object_set_new(x->facts, "ledger", rp_object_json(&is, &rp_type_ledger_facts));
    rp_object_fini(&is, &rp_type_ledger_facts);
    json_decref(ledger);
}

/* The run was made by a build of another commit. */
static __attribute__((unused)) void fx_other_build(struct fx *x)
{
    json_t *commit = json_string("0123456789abcdef0123456789abcdef01234567");
    json_object_set(json_object_get(x->facts, "tool"), "commit", commit);
    fx_capture_both(x, "program", "commit", commit);
}

/* The devices of both captures, which take the reference. */
static __attribute__((unused)) void fx_gpus(struct fx *x, json_t *devices)
{
    json_object_set(json_object_get(json_object_get(x->before, "probes"), "gpu"), "devices", devices);
    json_object_set_new(json_object_get(json_object_get(x->after, "probes"), "gpu"), "devices", devices);
}

/* What a run on a GPU has: it in both captures, where they have none, and uploads in the ceilings. */
static void fx_on_gpu(struct fx *x, const char *name, json_t *done)
{
    static const char *const sides[] = {"before", "after"};
    if (!json_object_get(json_object_get(json_object_get(x->before, "probes"), "gpu"), "devices"))
        fx_gpus(x, json_pack("{s:{s:{s:s, s:s, s:s}}}", "0", "name", "state", "ok", "value", name, "source", "NVML"));
    for (int i = 0; i < 2; i++)
        json_object_set_new(json_object_get(json_object_get(done, "ceilings"), sides[i]), "host_to_device",
                            json_pack("{s:i, s:i, s:[i]}", "bytes", 67108864, "calls", 1, "ns", 5000000));
}

/* ---- several ranks ---- */

static int fx_ranks(const struct fx *x)
{
    return x->ranks > 1 ? x->ranks : 1;
}

static int fx_nodes(const struct fx *x)
{
    return x->nodes > 1 ? x->nodes : 1;
}

static int fx_node(const struct fx *x, int rank)
{
    return rank * fx_nodes(x) / fx_ranks(x);
}

static const struct rp_buf *fx_steps_of(const struct fx *x, int rank)
{
    return x->ranks > 1 ? &x->of_rank[rank] : &x->steps;
}

static const struct rp_buf *fx_telemetry_of(const struct fx *x, int rank)
{
    return x->ranks > 1 ? &x->telemetry_of[rank] : &x->telemetry;
}

/* The capture of a node, or NULL; borrowed. */
static json_t *fx_capture_of(const struct fx *x, int node, int after)
{
    json_t *first = after ? x->after : x->before, *own = after ? x->node_after[node] : x->node_before[node];
    if (!node || !own)
        return first;
    return json_is_null(own) ? NULL : own;
}

static int fx_on_gpus(const struct fx *x)
{
    return x->backend && strcmp(x->backend, "cuda") == 0;
}

static __attribute__((unused)) json_t *fx_process(int first_rank, int ranks, int node, int64_t ahead_ns,
                                                  int64_t error_ns)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:{s:i, s:I, s:I}}", "first_rank", first_rank, "ranks", ranks, "host",
                     node, "network_namespace", node, "local_rank", 0, "clock", "wall_ns", 0, "monotonic_ns",
                     (json_int_t)ahead_ns, "error_ns", (json_int_t)error_ns);
}

/* One of each node. */
static json_t *fx_processes(const struct fx *x)
{
    /* Two machines do not start in the same millisecond. */
    const long long ahead_ns = x->ahead_ns ? x->ahead_ns : 5000000;
    json_t *all = json_array();
    for (int node = 0, next = 0; node < x->nodes; node++) {
        const int first = next;
        while (next < x->ranks && fx_node(x, next) == node)
            next++;
        json_array_append_new(all, fx_process(first, next - first, node, node ? ahead_ns : 0, node ? 60000 : 0));
    }
    return all;
}

static json_t *fx_launch(const struct fx *x)
{
    return x->launch
               ? json_incref(x->launch)
               : json_pack("{s:s, s:s, s:i, s:i}", "kind", "nodes", "launcher", "options", "rank", 0, "size", x->nodes);
}

/* How a rank is connected with the others. */
static json_t *fx_connections(const struct fx *x, int rank)
{
    int here = 0;
    for (int i = 0; i < x->ranks; i++)
        here += i != rank && fx_node(x, i) == fx_node(x, rank);
    if (fx_on_gpus(x))
        return json_pack("{s:i, s:i, s:i, s:i, s:s}", "shared_memory", 0, "tls", 0, "tls_on_host", 0, "refused", 0,
                         "nccl", "2.20.5");
    return json_pack("{s:i, s:i, s:i, s:i}", "shared_memory", here, "tls", x->ranks - 1 - here, "tls_on_host", 0,
                     "refused", 0);
}

static struct rp_comm fx_place(const struct fx *x, const int *host, int rank)
{
    struct rp_comm place = {.lost = -1, .host = host};
    rp_comm_set_coords(&place, rank, (struct rp_degrees){fx_ranks(x), 1, 1});
    return place;
}

/* What a rank's last record has of exchanges where the test gives nothing else. */
static void fx_add_exchange(json_t *done, const struct fx *x, const int *host, int rank)
{
    struct rp_exchange_sizes n = {0};
    struct rp_err err;
    struct rp_comm place = fx_place(x, host, rank);
    CHECK(rp_train_exchange_at(&n, &x->recipe, &place, &err) == 0, "%s", err.msg);
    json_t *is = json_pack("{s:o, s:i, s:I, s:I, s:I}", "connections", fx_connections(x, rank), "levels", n.levels,
                           "bytes_per_step", (json_int_t)n.sent_bytes, "bytes_per_step_between_hosts",
                           (json_int_t)n.between_bytes, "sent_bytes", (json_int_t)n.sent_bytes * 100000 + 1000);
    if (json_object_get(done, "exchange"))
        json_object_update(is, json_object_get(done, "exchange"));
    json_object_set_new(done, "exchange", is);
}

/* ---- documents ---- */

static json_t *fx_hello(const struct fx *x, int rank)
{
    if (x->hello[rank])
        return json_incref(x->hello[rank]);
    const char *own = fx_on_gpus(x) ? "gpu0 NVIDIA H100 PCIe sm_90" : "isa=avx2 threads=1";
    json_t *device =
        x->hello[0] ? json_deep_copy(json_object_get(x->hello[0], "device")) : fx_device(x->device ? x->device : own);
    int before = 0; /* ranks of its node */
    while (before < rank && fx_node(x, rank - before - 1) == fx_node(x, rank))
        before++;
    if (rank && json_object_get(device, "index"))
        json_object_set_new(device, "index", json_integer(before));
    if (json_object_get(device, "index") && rp_is_mixed(rp_recipe_numerics(&x->recipe))) {
        char sums[RP_SHA256_HEX];
        rp_tc_probe_digest(sums, rp_recipe_numerics(&x->recipe));
        json_object_set_new(device, "tensor_core",
                            json_pack("{s:s, s:s, s:i, s:s}", "outcome", "proved", "sums_sha256", sums, "edges", 0,
                                      "instruction", "mma"));
    }
    return json_pack("{s:o}", "device", device);
}

static json_t *fx_done(struct fx *x, const json_t *hello, const int *host, int rank)
{
    const json_t *device = json_object_get(hello, "device");
    json_t *done = json_pack("{s:i, s:{s:f}, s:o}", "peak_rss_bytes", 12345678, "phases_s", "timed", 0.7, "ceilings",
                             fx_ceilings(10000000, 11000000));
    RP_JSON *given = json_deep_copy(x->done), *own = json_deep_copy(x->ended[rank]);
    json_object_update(done, given);
    json_object_update(done, own);
    if (strcmp(rp_json_text_at(device, "kind"), "cuda") == 0)
        fx_on_gpu(x, rp_json_text_at(device, "name"), done);
    if (x->ranks > 1)
        fx_add_exchange(done, x, host, rank);
    return done;
}

static void fx_seal_facts(struct rp_facts *out, struct fx *x, int slowest, const char *status, const char *reason)
{
    int host[FX_RANKS];
    json_t *hello[FX_RANKS], *done[FX_RANKS];
    const char *no_telemetry[FX_RANKS];
    struct rp_challenge read;
    struct rp_err err;
    for (int i = 0; i < fx_ranks(x); i++)
        host[i] = fx_node(x, i);
    for (int i = 0; i < fx_ranks(x); i++) {
        hello[i] = fx_hello(x, i);
        done[i] = fx_done(x, hello[i], host, i);
        no_telemetry[i] = fx_telemetry_of(x, i)->size ? NULL : x->no_telemetry;
    }
    struct rp_comm place = fx_place(x, host, 0);
    struct rp_plan plan = fx_plan(&x->recipe, x->ranks > 1 ? &place : NULL);
    if (strcmp(rp_json_text_at(hello[0], "device/kind"), "cuda") == 0)
        plan.total -= plan.host + plan.decoders + plan.connections; /* which are not the device's */
    RP_JSON *data = json_pack("{s:b, s:s, s:s, s:s}", "pinned", 1, "archive", "s.tar.zst", "archive_sha256", FX_ROOT,
                              "digest", FX_ROOT);
    RP_JSON *ledger = json_pack("{s:s}", "reason", "no ledger in tests");
    RP_JSON *processes = x->processes ? json_incref(x->processes) : fx_processes(x), *launch = fx_launch(x);
    RP_JSON *challenge = x->challenge.size && rp_challenge_read(&read, x->challenge.data, x->challenge.size, &err) == 0
                             ? rp_challenge_json(&read)
                             : NULL;
    rp_facts_seal(out, &(struct rp_seal){.status = status,
                                         .reason = reason,
                                         .started_ns = FX_START,
                                         .ended_ns = FX_START + 2500000000u,
                                         .recipe = &x->recipe,
                                         .backend = x->backend ? x->backend : "cpu",
                                         .data = data,
                                         .plan = &plan,
                                         .launch = x->nodes > 1 ? launch : NULL,
                                         .processes = x->nodes > 1 ? processes : NULL,
                                         .degrees = {fx_ranks(x), 1, 1},
                                         .host = host,
                                         .hello = (const json_t *const *)hello,
                                         .done = (const json_t *const *)done,
                                         .no_telemetry = no_telemetry,
                                         .slowest = slowest,
                                         .ledger = ledger,
                                         .challenge = challenge});
    for (int i = 0; i < fx_ranks(x); i++) {
        json_decref(hello[i]);
        json_decref(done[i]);
    }
}

static void fx_captures(struct rp_run *r, const struct fx *x)
{
    r->nodes = fx_nodes(x);
    r->node = rp_alloc((size_t)r->nodes * sizeof *r->node);
    for (int i = 0; i < r->nodes; i++)
        r->node[i] = (struct rp_captures){json_incref(fx_capture_of(x, i, 0)), json_incref(fx_capture_of(x, i, 1))};
}

/* Records, captures and settings as they are now; after a failure, too, fx_run_fini(). */
static int fx_run(struct rp_run *r, struct fx *x, struct rp_err *err)
{
    *r = (struct rp_run){.recipe = x->recipe};
    RP_FORMAT(r->recipe_sha256, "%s", x->recipe.sha256);
    fx_captures(r, x);
    rp_all_ranks_init(&r->ranks, (struct rp_degrees){fx_ranks(x), 1, 1});
    for (int i = 0; i < fx_ranks(x); i++) {
        struct rp_records one;
        if (x->ranks > 1 && !x->of_rank[i].size)
            fx_records_of_rank(&x->of_rank[i], &x->steps, i);
        const struct rp_buf *is = fx_steps_of(x, i);
        if (rp_records_parse_rank(&one, i, rp_buf_text(is), is->size, err) < 0 ||
            rp_all_ranks_add(&r->ranks, &r->records, &one, err) < 0)
            return -1;
    }
    return 0;
}

static void fx_run_fini(struct rp_run *r)
{
    r->recipe = (struct rp_recipe){0}; /* the fixture's */
    rp_run_fini(r);
}

static int fx_figures(struct rp_figures *out, struct rp_run *r, const struct fx *x, struct rp_err *err)
{
    if (rp_derive(out, r, err) < 0)
        return -1;
    for (int i = 0; i < fx_ranks(x); i++) {
        const struct rp_buf *is = fx_telemetry_of(x, i);
        struct rp_telemetry t;
        if (!is->size)
            continue;
        if (rp_telemetry_parse(&t, RP_OF_RANK(i, ".telemetry.jsonl"), rp_telemetry_most(fx_ranks(x)), is->data,
                               is->size, err) < 0)
            return -1;
        rp_derive_telemetry(out, i, &t, &r->ranks.share[i]);
        rp_telemetry_fini(&t);
    }
    rp_derive_telemetry_of_all(out, r->facts, &r->records);
    return 0;
}

/* status NULL: of the facts as they are now; else they are sealed first. After a failure the documents are what they
 * were. */
static int fx_make(struct fx *x, const char *status, const char *reason, struct rp_err *err)
{
    struct rp_run r;
    struct rp_run_documents *d = rp_alloc(sizeof *d);
    d->references = 1;
    int failed = fx_run(&r, x, err) < 0;
    if (!failed && status)
        fx_seal_facts(&d->facts, x, r.ranks.slowest, status, reason);
    else if (!failed)
        rp_object_read(&d->facts, &rp_type_facts, x->facts);
    r.facts = &d->facts;
    failed = failed || fx_figures(&d->figures, &r, x, err) < 0;
    fx_run_fini(&r);
    if (failed) {
        rp_run_documents_free(d);
        return -1;
    }
    rp_run_documents_write(d);
    rp_run_documents_free(x->doc);
    x->doc = d;
    x->facts = d->facts_json;
    x->run = d->figures_json;
    return 0;
}

/* Facts and figures from the recipe, the records and the captures as they are now. */
static __attribute__((unused)) int fx_documents(struct fx *x, const char *status, const char *reason,
                                                struct rp_err *err)
{
    return fx_make(x, status, reason, err);
}

static __attribute__((unused)) void fx_compute(struct fx *x)
{
    struct rp_err err;
    CHECK(fx_make(x, "complete", NULL, &err) == 0, "%s", err.msg);
}

/* Figures alone, with facts as a test bent them. */
static __attribute__((unused)) void fx_derive(struct fx *x)
{
    struct rp_err err;
    CHECK(fx_make(x, NULL, NULL, &err) == 0, "%s", err.msg);
}

/* The report of what the documents and captures say now. */
static __attribute__((unused)) void fx_report(struct rp_buf *out, const struct fx *x)
{
    struct rp_err err;
    struct rp_run r = {.doc = rp_run_documents_read(x->facts, x->run, &err)};
    fx_captures(&r, x);
    if (CHECK(r.doc, "%s", err.msg)) {
        r.facts = &r.doc->facts;
        r.figures = &r.doc->figures;
        rp_report_md(out, &r);
    }
    rp_run_fini(&r);
}

/* A section of the report, named by the beginning of its heading, is compared with the words of the test. */
static __attribute__((unused)) void fx_said(const struct fx *x, const char *heading)
{
    RP_BUF report = {0};
    fx_report(&report, x);
    const char *at = strstr(rp_buf_text(&report), heading);
    if (!CHECK(at, "no section '%s' in: %s", heading, rp_buf_text(&report)))
        return;
    const char *end = strstr(at + 1, "\n## ");
    RP_FREE char *text = end ? rp_asprintf("%.*s", (int)(end - at), at) : rp_strdup(at);
    SAID(text);
}

static __attribute__((unused)) void fx_init(struct fx *x)
{
    struct rp_err err = {0};
    fx_dir();
    *x = (struct fx){0};
    int failed = rp_recipe_parse(&x->recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", NULL, 0, &err);
    CHECK(failed == 0, "recipe: %s", err.msg);
    x->before = fx_capture("2026-09-21T14:13:20Z");
    x->after = fx_capture("2026-09-21T14:13:23Z");
    fx_records(&x->steps, 1, 3, 2);
    fx_compute(x);
}

static __attribute__((unused)) void fx_fini(struct fx *x)
{
    rp_recipe_fini(&x->recipe);
    rp_buf_fini(&x->steps);
    rp_buf_fini(&x->telemetry);
    rp_buf_fini(&x->challenge);
    rp_run_documents_free(x->doc);
    json_decref(x->before);
    json_decref(x->after);
    json_decref(x->done);
    json_decref(x->processes);
    json_decref(x->launch);
    for (int i = 0; i < FX_RANKS; i++) {
        rp_buf_fini(&x->of_rank[i]);
        rp_buf_fini(&x->telemetry_of[i]);
        json_decref(x->hello[i]);
        json_decref(x->ended[i]);
        json_decref(x->node_before[i]);
        json_decref(x->node_after[i]);
    }
}

static __attribute__((unused)) struct fx fx_new(void)
{
    struct fx x;
    fx_init(&x);
    return x;
}

/* FX(x); declares an honest run, which ends with its block. */
#define FX(x) __attribute__((cleanup(fx_fini))) struct fx x = fx_new()

static __attribute__((unused)) void fx_again(struct fx *x)
{
    fx_fini(x);
    fx_init(x);
}

/* The recipe with settings of a command line, NULL after the last. */
static __attribute__((unused)) void fx_set(struct fx *x, const char *const *set)
{
    struct rp_err err;
    int n = 0;
    while (set[n])
        n++;
    rp_recipe_fini(&x->recipe);
    CHECK(rp_recipe_parse(&x->recipe, fx_recipe, sizeof fx_recipe - 1, "tiny.yaml", "cpu", set, n, &err) == 0, "%s",
          err.msg);
}
#define FX_SET(x, ...) fx_set(x, (const char *const[]){__VA_ARGS__, NULL})
