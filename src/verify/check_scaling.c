/* Scaling against a baseline with fewer threads or devices: the speed-up is at most ideal, unless something else differs. */
#include "base/text.h"
#include "capture/value.h"
#include "report/results.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SLACK 1.05 /* caches that grow with the cores */

/* Threads of processors, or devices. */
static int64_t width_of(const json_t *run)
{
    const int cpu = strcmp(json_string_value(json_object_get(run, "backend")), "cpu") == 0;
    const int64_t threads = cpu ? rp_run_threads(run) : 0;
    return threads ? threads : rp_run_ranks(run);
}

/* One end of the interval of the throughput, or the throughput where there is none. */
static double rate_of(const json_t *run, size_t end)
{
    struct rp_throughput t = rp_throughput_of(run);
    return !t.sure ? t.value : end ? t.high : t.low;
}

static void add_cause(char *out, size_t size, const char *name, const json_t *a, const json_t *b)
{
    size_t n = strlen(out);
    if (a != b && !(a && b && json_equal(a, b)) && n + 1 < size)
        snprintf(out + n, size - n, "%s%s", n ? ", " : "", name);
}

/* Other differences that explain a speed-up: settings that change the work, and the device. */
static void find_causes(char *out, size_t size, const struct rp_verify_state *s, const json_t *base, const json_t *before)
{
    static const char *const free_of[] = {"run.threads", "run.save", "run.hang_seconds", "parallel.data", "train.global_batch_size",
                                          "title", "follows"};
    static const char *const captured[] = {"cpu.model_name", "frequency.hardware_max", "frequency.governor", "gpu.driver_version"};
    const char *key;
    json_t *entry;
    const char *here = rp_run_isa(s->run), *there = rp_run_isa(base);
    *out = 0;
    json_object_foreach(json_object_get(s->run, "recipe"), key, entry)
        if (strncmp(key, "measure.", 8) != 0 && strncmp(key, "evidence.", 9) != 0 && !RP_IS_IN(free_of, key, strlen(key)))
            add_cause(out, size, key, json_object_get(entry, "value"), rp_run_setting(base, key));
    add_cause(out, size, "backend", json_object_get(s->run, "backend"), json_object_get(base, "backend"));
    if (here && there && strcmp(here, there) != 0)
        add_cause(out, size, "instruction set", s->run, base);
    for (size_t i = 0; i < sizeof captured / sizeof *captured; i++)
        add_cause(out, size, captured[i], rp_known(json_object_get(s->before, "probes"), captured[i]),
                  rp_known(json_object_get(before, "probes"), captured[i]));
}

static int compare_runs(const struct rp_verify_state *s, const json_t *base, const json_t *before, struct rp_check_result *result,
                   struct rp_err *err)
{
    char causes[200];
    int64_t n = width_of(s->run), n_base = width_of(base);
    double least = rate_of(s->run, 0) / rate_of(base, 1), most = rate_of(s->run, 1) / rate_of(base, 0);
    double ideal = n_base > 0 ? (double)n / (double)n_base : 0;
    if (n <= n_base || !(least > 0))
        return rp_check_note(result, "%" PRId64 " threads or devices, the baseline has %" PRId64 ": nothing to scale", n, n_base);
    if (least > ideal * SLACK) {
        find_causes(causes, sizeof causes, s, base, before);
        if (!*causes)
            return rp_fail(err, RP_MISMATCH, "speed-up %.2f to %.2f with %.2f times the threads or devices, and nothing else differs",
                           least, most, ideal);
        return rp_check_note(result, "speed-up %.2f to %.2f with %.2f times the threads or devices; other differences: %s", least, most,
                             ideal, causes);
    }
    return rp_check_text(result, "speed-up %.2f to %.2f with %.2f times the threads or devices", least, most, ideal);
}

int rp_check_scaling(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_VERIFICATION v = {0};
    RP_VERIFIED kept = {0};
    struct rp_verify_opts o = {.trust = s->o->trust, .keep = &kept};
    if (!s->o->baseline)
        return rp_check_skip(result, "not requested; --baseline BUNDLE names a run with fewer threads or devices");
    if (rp_verify(&v, s->o->baseline, &o, err) < 0)
        return rp_wrap(err, "--baseline");
    return compare_runs(s, v.run, kept.before, result, err);
}
