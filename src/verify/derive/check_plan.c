/* The plan: parameters, FLOPs and memory follow from the settings. */
#include "base/buf.h"
#include "base/build.h"
#include "base/json.h"
#include "capture/value.h"
#include "run/seal.h"
#include "verify/state.h"
#include "worker/worker.h"
#include "train/train.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rp_check_plan(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_model_figures *w = &s->run.figures->model;
    const char *name = s->run.facts->backend;
    const struct rp_backend *b = rp_backend_find(rp_backends, name);
    char hardware[60] = "";
    const json_t *batch = rp_facts_setting(s->run.facts, "train.batch_size");
    if (json_is_integer(batch) && json_integer_value(batch) != s->run.facts->plan.batch)
        return rp_fail(err, RP_MISMATCH, "facts.json: plan/batch is %" PRId64 ", expected %" PRId64 " of the recipe",
                       s->run.facts->plan.batch, (int64_t)json_integer_value(batch));
    if (rp_verify_follows(s, RP_CHECK_plan, err) < 0)
        return -1;
    if (!b)
        result->state = RP_CHECK_NOTE;
    if (!isnan(w->hardware_flops_per_sample))
        RP_FORMAT(hardware, ", %.4g with recomputation", w->hardware_flops_per_sample);
    return rp_check_text(result, "%" PRId64 " parameters, %.4g FLOPs per sample%s%s%.64s%s", w->parameters,
                         w->flops_per_sample, hardware, b ? "" : "; this build has no backend '", b ? "" : name,
                         b ? "" : "'");
}

/* ---- memory ---- */

/* Bytes of every class; those of the backend itself, and of the host, (own) are known only of the CPU. */
static int check_classes(const struct rp_verify_state *s, const struct rp_plan *plan, int own, char *text, size_t size)
{
    struct rp_plan_facts expected = s->run.facts->plan; /* borrows nothing: numbers */
    const int64_t backend = expected.bytes.backend_buffers;
    expected.bytes = rp_class_bytes_of(plan);
    if (own) {
        expected.host_bytes = (int64_t)plan->host;
        expected.decoder_bytes = (int64_t)plan->decoders;
        expected.connection_bytes = (int64_t)plan->connections;
    } else {
        expected.bytes.backend_buffers = backend;
    }
    RP_JSON *again = rp_object_json(&expected, &rp_type_plan_facts);
    return rp_check_differ(text, size, json_object_get(s->run.doc->facts_json, "plan"), again) ? -1 : 0;
}

/* The plan of rank 0. */
static int plan_for(struct rp_plan *plan, const struct rp_verify_state *s, int64_t batch,
                    const struct rp_device_opts *o)
{
    struct rp_err ignored; /* more than can be addressed */
    struct rp_recipe sized = s->run.recipe; /* shallow: only the batch differs */
    sized.train_batch_size = batch;
    const int n = s->run.ranks.ranks;
    RP_FREE int *host = rp_alloc((size_t)n * sizeof *host);
    struct rp_comm place = {.lost = -1, .host = host, .route = rp_run_route(&s->run)};
    const struct rp_backend *own = rp_backend_find(rp_backends, s->run.facts->backend);
    struct rp_backend sized_as = rp_backend_cpu; /* with the element size of the device's stored tensors */
    sized_as.mixed = own && !rp_rank_on_cpu(s->run.facts, 0) ? own->mixed : sized_as.mixed;
    for (int i = 0; i < n; i++)
        host[i] = (int)s->run.facts->rank[i].node;
    rp_comm_set_coords(&place, 0, s->run.ranks.degrees);
    return rp_train_size(plan, &sized, &place, &sized_as, o, &ignored);
}

/* The largest batch is the last one that fits into the available memory. */
static int check_largest(const struct rp_verify_state *s, const struct rp_device_opts *o, char *text, size_t size)
{
    struct rp_plan plan;
    const struct rp_plan_facts *is = &s->run.facts->plan;
    const int64_t batch = is->max_batch, available = is->available_bytes;
    const json_t *probes = rp_group(s->run.node[0].before, "probes");
    double total = NAN;
    const int known = rp_known_number(probes, "memory.total", &total) == 0;
    if (available == RP_NO_INTEGER || batch == RP_NO_INTEGER) {
        if (available == batch && !known)
            return 0;
        snprintf(text, size, "available_bytes or max_batch is null, but the captured machine knew its memory");
        return -1;
    }
    if (json_is_string(rp_facts_setting(s->run.facts, "train.batch_size")) && is->batch != batch && batch > 0) {
        snprintf(text, size, "train.batch_size is max, but the batch is %" PRId64 " of %" PRId64, is->batch, batch);
        return -1;
    }
    if (known && (double)available > total) {
        snprintf(text, size, "available_bytes is %" PRId64 ", but the captured machine had %.0f", available, total);
        return -1;
    }
    int fits = batch < 1 || (plan_for(&plan, s, batch, o) == 0 && plan.total <= (uint64_t)available);
    int more = batch < INT_MAX && plan_for(&plan, s, batch + 1, o) == 0 && plan.total <= (uint64_t)available;
    if (fits && !more)
        return 0;
    snprintf(text, size, "max_batch is %" PRId64 ", but in %" PRId64 " bytes %s", batch, available,
             fits ? "more fits" : "it does not fit");
    return -1;
}

int rp_check_memory(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_plan plan;
    struct rp_device_info d;
    char text[300];
    const int own = rp_rank_on_cpu(s->run.facts, 0) && rp_rank_device(&d, s->run.facts, 0) == 0;
    struct rp_device_opts o = {.isa = own ? d.isa : "scalar", .threads = own ? d.threads : 1};
    if (plan_for(&plan, s, s->run.recipe.train_batch_size, &o) < 0)
        return rp_fail(err, RP_MISMATCH, "these settings cannot be planned");
    if (check_classes(s, &plan, own, text, sizeof text) == 0 && (!own || check_largest(s, &o, text, sizeof text) == 0))
        return rp_check_text(result, "%.4g MiB planned%s", (double)s->run.facts->plan.total_bytes / (1 << 20),
                             own ? "" : "; the device's own memory is the signer's word");
    if (rp_facts_same_build(s->run.facts))
        return rp_fail(err, RP_MISMATCH, "the memory plan does not follow from the settings: %s", text);
    return rp_check_note(result, "another version made the plan, this one differs: %s", text);
}
