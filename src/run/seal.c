/* facts.json of a run that ended, from what its session and workers know. */
#include "run/seal.h"

#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/sort.h"
#include "base/text.h"
#include "process/process.h"

#include <string.h>

/* In a message with invalid UTF-8, '?' replaces everything that is not ASCII. */
static char *as_text(const char *s)
{
    RP_JSON *valid = s ? json_string(s) : NULL;
    if (!s || valid)
        return rp_text_copy(s);
    char *ascii = rp_strdup(s);
    for (char *p = ascii; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    return ascii;
}

/* Without folders; an embedded recipe keeps its group: "embedded:gpt/CASE". */
static char *file_name(const char *path)
{
    if (!path)
        return rp_strdup("");
    return as_text(strncmp(path, "embedded:", strlen("embedded:")) == 0 ? path : rp_base_name(path));
}

/* A part that a document describes in the form of facts.json; NULL: there is none. */
static void *part_of(const json_t *j, const struct rp_object_type *type)
{
    if (!json_is_object(j))
        return NULL;
    void *part = rp_alloc(type->size);
    rp_object_read(part, type, j);
    return part;
}

/* The build that ran. Its own digest and what is linked in are in the captures. */
void rp_build_facts_seal(struct rp_build_facts *out)
{
    const struct rp_build *b = rp_build_record();
    *out = (struct rp_build_facts){as_text(b->version), as_text(b->commit), as_text(b->dirty), as_text(b->compiler),
                                   as_text(b->flags)};
}

static void seal_plan(struct rp_plan_facts *out, const struct rp_plan *p)
{
    out->batch = (int64_t)p->batch;
    if (p->available != RP_MEMORY_UNKNOWN) {
        out->available_bytes = (int64_t)p->available;
        out->max_batch = (int64_t)p->max_batch;
    }
    out->bytes = rp_class_bytes_of(p);
    out->host_bytes = (int64_t)p->host;
    out->decoder_bytes = (int64_t)p->decoders;
    out->connection_bytes = (int64_t)p->connections;
    out->total_bytes = (int64_t)p->total;
}

struct rp_class_bytes rp_class_bytes_of(const struct rp_plan *p)
{
    return (struct rp_class_bytes){
        .parameters = (int64_t)p->bytes[RP_CLASS_PARAMETERS],
        .gradients = (int64_t)p->bytes[RP_CLASS_GRADIENTS],
        .optimizer_state = (int64_t)p->bytes[RP_CLASS_OPTIMIZER],
        .activations = (int64_t)p->bytes[RP_CLASS_ACTIVATIONS],
        .scratch = (int64_t)p->bytes[RP_CLASS_SCRATCH],
        .input_batches = (int64_t)p->bytes[RP_CLASS_INPUT],
        .backend_buffers = (int64_t)p->bytes[RP_CLASS_BACKEND],
    };
}

/* What its worker said first and last has the names of facts.def. */
static void seal_rank(struct rp_rank_facts *out, const struct rp_seal *s, int i)
{
    RP_JSON *said = json_object();
    json_object_update(said, (json_t *)s->hello[i]); /* nothing where it is NULL */
    json_object_update(said, (json_t *)s->done[i]);
    rp_object_read(out, &rp_type_rank_facts, said);
    out->node = s->host ? s->host[i] : 0;
    out->no_telemetry = s->no_telemetry ? as_text(s->no_telemetry[i]) : NULL;
}

/* {"init": {NAME: root}, "final": {NAME: root}} of a worker, in the order of names. */
static void seal_tensor_roots(struct rp_facts *out, const struct rp_roots_frame *roots)
{
    const json_t *of = roots->init ? roots->init : roots->final;
    RP_FREE const char **names = rp_alloc((json_object_size(of) + 1) * sizeof *names);
    const char *key;
    json_t *root;
    size_t n = 0;
    json_object_foreach((json_t *)of, key, root)
        names[n++] = key;
    rp_sort_text(names, n);
    for (size_t i = 0; i < n; i++) {
        struct rp_tensor_root *one = rp_object_add(&out->tensor_root, &out->tensor_root_n, &rp_type_tensor_root);
        one->name = rp_strdup(names[i]);
        RP_FORMAT(one->init, "%s", rp_text_or_empty(json_string_value(json_object_get(roots->init, names[i]))));
        RP_FORMAT(one->final, "%s", rp_text_or_empty(json_string_value(json_object_get(roots->final, names[i]))));
    }
}

static void seal_ceilings(struct rp_facts *out, int rank, const json_t *ceilings)
{
    out->ceilings = part_of(ceilings, &rp_type_ceiling_facts);
    if (out->ceilings)
        out->ceilings->rank = rank;
}

static void seal_processes(struct rp_facts *out, const json_t *processes)
{
    const json_t *one;
    size_t i;
    json_array_foreach((json_t *)processes, i, one) {
        struct rp_process_facts *p = rp_object_add(&out->process, &out->process_n, &rp_type_process_facts);
        rp_object_read(p, &rp_type_process_facts, one);
    }
}

static char *time_text(uint64_t ns)
{
    char when[32];
    rp_rfc3339(when, ns);
    return rp_strdup(when);
}

void rp_facts_seal(struct rp_facts *out, const struct rp_seal *s)
{
    const int ranks = s->degrees.data * s->degrees.tensor * s->degrees.pipeline;
    RP_READ(done_frame, done, s->done[s->slowest]);
    rp_object_init(out, &rp_type_facts);
    out->status = rp_strdup(s->status);
    out->reason = as_text(s->reason);
    out->started_at = time_text(s->started_ns);
    out->ended_at = time_text(s->ended_ns);
    out->elapsed_s = s->ended_ns > s->started_ns ? (double)(s->ended_ns - s->started_ns) / 1e9 : 0;
    rp_build_facts_seal(&out->tool);
    out->recipe_name = file_name(s->recipe->source_name);
    out->recipe = rp_recipe_to_json(s->recipe);
    if (!s->identified)
        rp_recipe_hide_paths(out->recipe);
    out->backend = rp_strdup(s->backend);
    rp_object_read(&out->data, &rp_type_data_facts, s->data);
    if (s->recipe->data_skip_damaged && done.skipped_samples != RP_NO_INTEGER)
        out->skipped_samples = done.skipped_samples;
    out->init = part_of(s->init, &rp_type_init_facts);
    seal_plan(&out->plan, s->plan);
    out->launch = part_of(s->launch, &rp_type_launch_facts);
    seal_processes(out, s->processes);
    out->layout = (struct rp_layout_facts){s->degrees.data, s->degrees.tensor, s->degrees.pipeline};
    for (int i = 0; i < ranks; i++)
        seal_rank(rp_object_add(&out->rank, &out->rank_n, &rp_type_rank_facts), s, i);
    seal_ceilings(out, s->slowest, done.ceilings);
    seal_tensor_roots(out, &done.tensor_roots);
    rp_object_read(&out->ledger, &rp_type_ledger_facts, s->ledger);
    out->challenge = part_of(s->challenge, &rp_type_challenge_facts);
    out->replicates = part_of(s->replicates, &rp_type_original_facts);
}

/* ---- documents ---- */

static json_t *document(const void *object, const struct rp_object_type *type, const char *schema)
{
    json_t *j = rp_object_json(object, type);
    json_object_set_new(j, "schema", json_string(schema));
    return j;
}

void rp_run_documents_write(struct rp_run_documents *d)
{
    json_decref(d->facts_json);
    json_decref(d->figures_json);
    d->facts_json = d->command ? document(d->command, &rp_type_command_facts, RP_COMMAND_FACTS_SCHEMA)
                               : document(&d->facts, &rp_type_facts, RP_FACTS_SCHEMA);
    d->figures_json = d->command ? document(d->observed, &rp_type_command_figures, RP_COMMAND_SCHEMA)
                                 : document(&d->figures, &rp_type_figures, RP_FIGURES_SCHEMA);
}
