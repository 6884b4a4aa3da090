/* The plan: parameters, FLOPs and memory follow from the settings. */
#include "base/buf.h"
#include "base/build.h"
#include "base/json.h"
#include "capture/value.h"
#include "verify/state.h"
#include "worker/worker.h"
#include "train/train.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rp_check_plan(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    struct rp_plan plan = {0};
    struct rp_device_opts o = {.threads = 1};
    const json_t *is = json_object_get(s->run.json, "plan");
    const char *name = json_string_value(json_object_get(s->run.json, "backend"));
    const struct rp_backend *b = rp_backend_find(rp_backends, name);
    /* the values compared here do not depend on the backend */
    if (rp_train_size(&plan, &s->run.recipe, NULL, &rp_backend_cpu, &o, err) < 0) {
        err->code = RP_MISMATCH;
        return rp_wrap(err, "planning the run again");
    }
    RP_JSON *expected = json_pack("{s:I, s:I, s:f, s:s}", "batch", (json_int_t)plan.batch, "parameters", (json_int_t)plan.parameters,
                                  "flops_per_sample", plan.flops_per_sample, "flops_formula", plan.flops_formula);
    if (plan.hardware_flops_formula) {
        json_object_set_new(expected, "hardware_flops_per_sample", json_real(plan.hardware_flops_per_sample));
        json_object_set_new(expected, "hardware_flops_formula", json_string(plan.hardware_flops_formula));
    } else if (json_object_get(is, "hardware_flops_per_sample") || json_object_get(is, "hardware_flops_formula")) {
        return rp_fail(err, RP_MISMATCH, "plan: it has hardware FLOPs, but the model computes nothing again");
    }
    const char *key;
    json_t *v;
    char text[400];
    json_object_foreach(expected, key, v)
        if (rp_check_differ(text, sizeof text, json_object_get(is, key), v))
            return rp_fail(err, RP_MISMATCH, "plan/%s: %s", key, text);
    if (!b)
        result->state = RP_CHECK_NOTE;
    char hardware[60] = "";
    if (plan.hardware_flops_formula)
        RP_FORMAT(hardware, ", %.4g with recomputation", plan.hardware_flops_per_sample);
    rp_check_text(result, "%" PRIu64 " parameters, %.4g FLOPs per sample%s%s%.64s%s", plan.parameters, plan.flops_per_sample, hardware,
                 b ? "" : "; this build has no backend '", b ? "" : name, b ? "" : "'");
    return 0;
}

/* ---- memory ---- */

/* Bytes of every class; those of the backend itself (own) are known only of the CPU. */
static int check_classes(const struct rp_verify_state *s, const struct rp_plan *plan, int own, char *text, size_t size)
{
    const json_t *is = rp_json_at(s->run.json, "plan/bytes");
    RP_JSON *expected = json_object(), *recorded = json_copy((json_t *)is);
    for (int c = 0; c < RP_CLASS_COUNT; c++)
        json_object_set_new(expected, rp_class_name((enum rp_class)c), json_integer((json_int_t)plan->bytes[c]));
    if (!own) {
        json_object_del(expected, rp_class_name(RP_CLASS_BACKEND));
        json_object_del(recorded, rp_class_name(RP_CLASS_BACKEND));
    }
    if (rp_check_differ(text, size, recorded, expected))
        return -1;
    const struct {
        const char *path;
        uint64_t expected;
    } parts[] = {{"plan/host_bytes", plan->host}, {"plan/decoder_bytes", plan->decoders}, {"plan/connection_bytes", plan->connections}};
    for (size_t i = 0; own && i < sizeof parts / sizeof *parts; i++)
        if (rp_json_integer_at(s->run.json, parts[i].path) != (json_int_t)parts[i].expected) {
            snprintf(text, size, "%s is %" JSON_INTEGER_FORMAT ", expected %" PRIu64, parts[i].path,
                     rp_json_integer_at(s->run.json, parts[i].path), parts[i].expected);
            return -1;
        }
    return 0;
}

/* Of rank 0. */
static int plan_for(struct rp_plan *plan, const struct rp_verify_state *s, int64_t batch, const struct rp_device_opts *o)
{
    struct rp_err ignored; /* more than can be addressed */
    struct rp_recipe sized = s->run.recipe; /* shallow: only the batch differs */
    sized.train_batch_size = batch;
    const json_t *ranks = rp_json_at(s->run.json, "world/rank");
    const int n = (int)json_array_size(ranks);
    RP_FREE int *host = rp_alloc(((size_t)n + 1) * sizeof *host);
    struct rp_comm place = {.lost = -1, .host = n == s->run.ranks.ranks ? host : NULL, .route = rp_run_route(&s->run)};
    for (int i = 0; i < n; i++)
        host[i] = (int)rp_json_integer_at(json_array_get(ranks, (size_t)i), "node");
    rp_comm_place(&place, 0, rp_run_layout(s->run.json));
    return rp_train_size(plan, &sized, &place, &rp_backend_cpu, o, &ignored);
}

/* The largest batch is the last one that fits into the available memory. */
static int check_largest(const struct rp_verify_state *s, const struct rp_device_opts *o, char *text, size_t size)
{
    struct rp_plan plan;
    const json_t *most = rp_json_at(s->run.json, "plan/max_batch"),
                 *room = rp_json_at(s->run.json, "plan/available_bytes");
    int64_t batch = json_integer_value(most), available = json_integer_value(room),
            used = rp_json_integer_at(s->run.json, "plan/batch");
    double total;
    if (!json_is_integer(room) || !json_is_integer(most)) {
        if (!room && !most &&
            rp_known_number(json_object_get(s->run.node[0].before, "probes"), "memory.total", &total) < 0)
            return 0;
        snprintf(text, size, "available_bytes or max_batch is not there, but the captured machine knew its memory");
        return -1;
    }
    if (json_is_string(rp_run_setting(s->run.json, "train.batch_size")) && used != batch && batch > 0) {
        snprintf(text, size, "train.batch_size is max, but the batch is %" PRId64 " of %" PRId64, used, batch);
        return -1;
    }
    if (rp_known_number(json_object_get(s->run.node[0].before, "probes"), "memory.total", &total) == 0 &&
        (double)available > total) {
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
    const char *backend = json_string_value(json_object_get(s->run.json, "backend"));
    int own = strcmp(backend, "cpu") == 0 && rp_run_cpu(&d, s->run.json) == 0;
    struct rp_device_opts o = {.isa = own ? d.isa : "scalar", .threads = own ? d.threads : 1};
    if (plan_for(&plan, s, s->run.recipe.train_batch_size, &o) < 0)
        return rp_fail(err, RP_MISMATCH, "these settings cannot be planned");
    if (check_classes(s, &plan, own, text, sizeof text) == 0 && (!own || check_largest(s, &o, text, sizeof text) == 0))
        return rp_check_text(result, "%.4g MiB planned%s",
                             json_number_value(rp_json_at(s->run.json, "plan/total_bytes")) / (1 << 20),
                             own ? "" : "; the device's own memory is the signer's word");
    if (rp_run_same_build(s->run.json))
        return rp_fail(err, RP_MISMATCH, "the memory plan does not follow from the settings: %s", text);
    return rp_check_note(result, "another version made the plan, this one differs: %s", text);
}
