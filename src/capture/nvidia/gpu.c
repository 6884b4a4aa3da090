/* GPUs: driver, devices and libraries as reported by the worker repro-gpu. It is a separate process because NVIDIA's
 * libraries may crash or hang in the kernel, and need glibc. */
#include "capture/host/mounts.h"
#include "capture/nvidia/gpu.h"
#include "capture/privacy/secrets.h"
#include "capture/value.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "process/process.h"
#include "process/program.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#define PROGRAM "repro-gpu"
#define ANSWERS "/.repro/gpu.json"

static const struct rp_sender sender = {PROGRAM, "the GPU worker sent an invalid value"};

static const char *const questions[] = {
#define X(name) #name,
    RP_GPU_PROBES(X)
#undef X
};
enum { QUESTIONS = sizeof questions / sizeof *questions };

/* ---- queries ---- */

/* The values that answer one question (a new reference), or NULL. */
static json_t *ask_worker(struct rp_process *w, const char *question, int limit_ms, struct rp_err *err)
{
    uint64_t until = rp_now_ns() + (uint64_t)limit_ms * 1000000u;
    RP_JSON *text = json_pack("{s:s}", "probe", question);
    /* if not, the worker has ended, and reading the socket gives the reason */
    int sent = rp_frame_write(w->fd, RP_FRAME_PROBE, text, err);
    for (uint64_t now; (now = rp_now_ns()) < until && !rp_interrupted();) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int got = rp_process_next(w, sent < 0 ? 0 : (int)((until - now) / 1000000u) + 1, &type, &body, err);
        if (got < 0)
            return NULL;
        if (got == 0 || type != RP_FRAME_VALUES)
            continue;
        RP_READ(values_frame, answer, body);
        if (!answer.probe || strcmp(answer.probe, question) != 0 || !json_is_object(answer.values))
            return rp_fail_null(err, RP_MALFORMED, "the GPU worker gave no answer to '%s' but something else",
                                question);
        return json_incref(answer.values);
    }
    if (rp_interrupted())
        return rp_fail_null(err, RP_INTERRUPTED, "interrupted while the GPU worker looked for '%s'", question);
    return rp_fail_null(err, RP_UNAVAILABLE,
                        "the GPU worker did not answer '%s' within %g s and was stopped: does the driver hang? "
                        "(RP_GPU_TIMEOUT_MS=60000 waits longer)",
                        question, limit_ms * 1e-3);
}

json_t *rp_gpu_ask(const struct rp_buf *program, int limit_ms)
{
    struct rp_process w;
    struct rp_err err = {0};
    json_t *answers = json_object();
    int failed = rp_process_start_program(&w, program, PROGRAM, "the GPU worker", &err) < 0,
        impossible = failed && err.sys == ENOENT;
    for (int i = 0; i < QUESTIONS && !failed; i++) {
        json_t *values = ask_worker(&w, questions[i], limit_ms, &err);
        failed = !values;
        if (values)
            json_object_set_new(answers, questions[i], values);
    }
    rp_process_kill(&w);
    if (failed)
        json_object_set_new(answers, impossible ? "absent" : "failed", json_string(err.msg));
    return answers;
}

/* Does NVML's device have the PCI address that CUDA gives? "00000000:3B:00.0" and "0000:3b:00.0" are the same. */
static int has_address(const json_t *device, const char *address)
{
    const char *own = json_string_value(json_object_get(json_object_get(device, "pci_address"), "value"));
    return own && strcasecmp(own + strspn(own, "0"), address + strspn(address, "0")) == 0;
}

/* CUDA's devices, which go by PCI address, into those of NVML. */
static json_t *by_name(const json_t *cuda, json_t *devices)
{
    const char *address, *name;
    json_t *values, *device, *out = json_object();
    json_object_foreach((json_t *)cuda, address, values) {
        const char *as = address;
        json_object_foreach(devices, name, device)
            if (has_address(device, address))
                as = name;
        json_object_set(out, as, values);
    }
    return json_pack("{s:o}", "devices", out);
}

void rp_gpu_put(struct rp_probe *p, const json_t *answers)
{
    const json_t *failed = json_object_get(answers, "failed"),
                 *why = failed ? failed : json_object_get(answers, "absent");
    int rest_is_out = 0;
    const char *words = rp_is_line(why) && json_string_length(why) ? json_string_value(why) : "unknown";
    if (why)
        rp_put(p->out, "worker", failed ? RP_STATE_ERROR : RP_STATE_ABSENT, NULL, PROGRAM, NULL, words);
    else
        rp_put_str(p->out, "worker", "present", PROGRAM);
    for (int i = 0; i < QUESTIONS; i++) {
        const json_t *group = json_object_get(answers, questions[i]);
        json_t *devices = json_object_get(group, "devices");
        if (strcmp(questions[i], "cuda") == 0 && devices) {
            RP_JSON *rest = json_copy((json_t *)group), *named = by_name(devices, json_object_get(p->out, "devices"));
            json_object_del(rest, "devices");
            rest_is_out |= rp_put_foreign(p, p->out, rest, &sender) | rp_put_foreign(p, p->out, named, &sender);
        } else {
            rest_is_out |= rp_put_foreign(p, p->out, group, &sender);
        }
    }
    if (rest_is_out)
        rp_put(p->out, "worker", RP_STATE_ERROR, NULL, PROGRAM, NULL,
               "the GPU worker sent more values than any machine has: some are left out");
}

/* ---- the probe ---- */

/* The public form of a text from a driver or a library, or NULL if the text itself is public. Versions may look like
 * addresses. */
static char *in_place_of(const struct rp_probe *p, const char *name, const char *text)
{
    char hidden[RP_HIDDEN], path[PATH_MAX];
    if (rp_is_hidden(text))
        return NULL;
    if (rp_is_secret_name(text) && *text != '/')
        return rp_strdup(rp_withheld);
    if (*text == '/') {
        rp_hide_path(p, text, path);
        return rp_strdup(path);
    }
    if (p->opts->identify || strstr(name, "version") || !rp_is_identity(text))
        return NULL;
    rp_hide(p, name, text, hidden);
    return rp_strdup(hidden);
}

static void redact_list(const struct rp_probe *p, const char *name, json_t *list)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        RP_FREE char *other = json_is_string(item) ? in_place_of(p, name, json_string_value(item)) : NULL;
        if (other)
            json_array_set_new(list, i, json_string(other));
    }
}

/* In place: what only its owner may read becomes its hidden form, messages and other texts become public ones. */
static void redact_answers(const struct rp_probe *p, json_t *group)
{
    const char *name;
    json_t *j;
    json_object_foreach(group, name, j) {
        const char *text = json_string_value(json_object_get(j, "value"));
        int is_message = strcmp(name, "detail") == 0 || strcmp(name, "failed") == 0 || strcmp(name, "absent") == 0;
        char hidden[RP_HIDDEN];
        if (is_message && json_is_string(j)) {
            RP_FREE char *message = rp_public_message(p, json_string_value(j));
            json_object_set_new(group, name, json_string(message));
        } else if (json_is_true(json_object_get(j, "hide")) && text && !p->opts->identify) {
            rp_hide(p, name, text, hidden);
            json_object_set_new(j, "value", json_string(hidden));
        } else if (text && !json_is_true(json_object_get(j, "hide"))) {
            RP_FREE char *other = in_place_of(p, name, text);
            if (other)
                json_object_set_new(j, "value", json_string(other));
            redact_answers(p, j);
        } else if (json_is_object(j)) {
            redact_list(p, name, json_object_get(j, "value"));
            redact_answers(p, j);
        }
    }
}

/* The version of the driver is nvidia.version: NVML's where the kernel does not say it, as in WSL. */
static void move_driver_version(struct rp_probe *p)
{
    json_t *version = json_object_get(p->out, "driver_version"), *nvidia = json_object_get(p->all, "nvidia");
    if (rp_known(p->out, "driver_version") && !rp_known(nvidia, "version")) {
        json_t *group = nvidia ? nvidia : json_object();
        json_object_set(group, "version", version);
        if (!nvidia)
            json_object_set_new((json_t *)p->all, "nvidia", group);
    }
    json_object_del(p->out, "driver_version");
}

static void probe_live(struct rp_probe *p)
{
    struct rp_err err;
    RP_BUF program = {0}, text = {0};
    int failed = rp_program_gpu(&program, &err) < 0;
    if (failed && err.code == RP_UNAVAILABLE) {
        rp_put(p->out, "worker", RP_STATE_ABSENT, NULL, PROGRAM, NULL, err.msg);
        return;
    }
    RP_JSON *answers =
        failed ? json_pack("{s:s}", "failed", err.msg) : rp_gpu_ask(&program, rp_process_limit_ms(RP_GPU_TIMEOUT_MS));
    redact_answers(p, answers);
    rp_gpu_put(p, answers);
    move_driver_version(p);
    rp_json_write(&text, answers);
    rp_record_file(p, ANSWERS, text.data, text.size);
}

void rp_probe_gpu(struct rp_probe *p)
{
    struct rp_err err;
    if (p->live) {
        probe_live(p);
        return;
    }
    RP_TEXT t;
    rp_text_read(&t, p, ANSWERS);
    if (t.state != RP_STATE_OK) {
        rp_put_state(p->out, "worker", &t);
        return;
    }
    RP_JSON *answers = rp_json_parse(t.bytes.data, t.bytes.size, ANSWERS, &err);
    if (answers) {
        rp_gpu_put(p, answers);
        move_driver_version(p);
    } else
        rp_put(p->out, "worker", RP_STATE_ERROR, NULL, ANSWERS, NULL, err.msg);
}
