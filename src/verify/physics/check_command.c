/* Another program's command: its times, and the telemetry of the GPUs that it could use. */
#include "base/json.h"
#include "base/text.h"
#include "capture/topology/pci.h"
#include "capture/value.h"
#include "run/derive.h"
#include "verify/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define START_APART_S 10.0 /* processes start at one message; one that is silent for 8 s counts as dead */
#define POWER_OVER 1.1     /* a limit holds for the mean over some time */

/* ---- times ---- */

/* A process had no more processor time than its node has processors, and began when process 0 did. */
static int check_process(const struct rp_verify_state *s, int64_t i, struct rp_err *err)
{
    const struct rp_command_process *p = &s->run.doc->command->process[i], *first = s->run.doc->command->process;
    double threads;
    if (p->start_ns == RP_NO_INTEGER)
        return 0;
    const double took = rp_seconds_between(p->start_ns, p->end_ns), used = p->user_s + p->system_s;
    const double apart = rp_seconds_between(first->start_ns, p->start_ns - p->clock.monotonic_ns),
                 error = p->clock.error_ns > 0 ? (double)p->clock.error_ns / 1e9 : 0;
    if (rp_known_number(rp_run_capture(&s->run, (int)p->node, 0), "probes.cpu.threads", &threads) == 0 &&
        used > threads * (took * RP_CLOCK_DRIFT + RP_WALL_SLACK_S))
        return rp_fail(err, RP_MISMATCH,
                       "process %" PRId64 " of the command took %.1f s of processor time in %.1f s on %.0f threads", i,
                       used, took, threads);
    if (i && first->start_ns != RP_NO_INTEGER && p->clock.error_ns >= 0 && fabs(apart) > START_APART_S + error)
        return rp_fail(err, RP_MISMATCH, "process %" PRId64 " began %.1f s %s process 0: it is of another command", i,
                       fabs(apart), apart < 0 ? "before" : "after");
    return 0;
}

/* A process whose clock was not compared may be of another day, as its captures may. */
static int64_t find_unknown_clock(const struct rp_command_facts *c)
{
    int64_t i = 0;
    while (i < c->process_n && (c->process[i].start_ns == RP_NO_INTEGER || c->process[i].clock.error_ns >= 0))
        i++;
    return i < c->process_n ? i : -1;
}

int rp_verify_command_time(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_command_facts *c = s->run.doc->command;
    const double wall = s->run.doc->observed->wall_s, log = rp_command_log_s(s->run.doc->observed);
    double end;
    const char *than;
    if (rp_verify_wall_times(s, &end, err) < 0)
        return -1;
    if (wall > c->elapsed_s * RP_CLOCK_DRIFT + RP_WALL_SLACK_S)
        return rp_fail(err, RP_MISMATCH, "the command took %.3f s, but with the capture before it only %.3f s", wall,
                       c->elapsed_s);
    for (int64_t i = 0; i < c->process_n; i++)
        if (check_process(s, i, err) < 0)
            return -1;
    if (rp_command_too_short(s->run.doc->observed))
        return rp_fail(err, RP_MISMATCH,
                       "the log times %.1f s, but the command took %.1f s: it is the log of something else, has the "
                       "steps of an earlier command too, or was misread",
                       log, wall);
    const double late = rp_verify_ended_late(s, end, &than);
    if (late > 0)
        return rp_check_warn(
            result, "the command ended %.0f s after %s: the signer's clock is fast, or its times were invented",
            late + RP_FAST_S, than);
    if (rp_verify_slow_clock(s, result))
        return 0;
    const int64_t unknown = find_unknown_clock(c);
    if (unknown >= 0)
        return rp_check_warn(result,
                             "the clock of process %" PRId64 " was not compared with that of process 0: that they ran "
                             "at the same time is the signer's word",
                             unknown);
    const double rates = rp_command_rates_s(s->run.doc->observed);
    if (rates > 0)
        return rp_check_warn(result,
                             "by the rates and the samples per step of the log its steps took %.1f s, but the command "
                             "took %.1f s: it is the log of something else, or was misread",
                             rates, wall);
    return rp_check_text(result, "the command took %.1f s, between its captures", wall);
}

/* ---- telemetry ---- */

/* The captured GPU of that device; NULL: there is none. *listed: the capture has any. */
static const json_t *captured_gpu(const struct rp_verify_state *s, const struct rp_command_device *d, int *listed)
{
    const char *number;
    json_t *gpu;
    const json_t *capture = rp_run_capture(&s->run, (int)s->run.doc->command->process[d->process].node, 0);
    *listed = 0;
    json_object_foreach((json_t *)rp_group(capture, "probes.gpu.devices"), number, gpu) {
        char address[24];
        const char *at = rp_known_text(gpu, "pci_address");
        if (!at || rp_pci_address(address, at) < 0)
            continue;
        *listed = 1;
        if (strcmp(address, d->pci_address) == 0)
            return gpu;
    }
    return NULL;
}

/* It is a GPU of its node, named once, whose mean power is within its limit. */
static int check_device(const struct rp_verify_state *s, int64_t i, struct rp_err *err)
{
    const struct rp_command_facts *c = s->run.doc->command;
    const struct rp_telemetry_figures *t = s->run.doc->observed->device[i].telemetry;
    const struct rp_command_device *d = &c->device[i];
    double limit;
    int listed;
    for (int64_t k = 0; k < i; k++)
        if (strcmp(c->device[k].pci_address, d->pci_address) == 0 &&
            c->process[c->device[k].process].node == c->process[d->process].node)
            return rp_fail(err, RP_MISMATCH, "devices %" PRId64 " and %" PRId64 " are one GPU, at %s", k, i,
                           d->pci_address);
    const json_t *gpu = captured_gpu(s, d, &listed);
    if (!gpu && listed)
        return rp_fail(err, RP_MISMATCH, "the capture has no GPU at the address %s of device %" PRId64, d->pci_address,
                       i);
    if (gpu && t && t->power_w && rp_known_number(gpu, "power_limit_enforced", &limit) == 0 &&
        t->power_w->mean > limit * POWER_OVER)
        return rp_fail(err, RP_MISMATCH, "mean power of device %" PRId64 " is %.1f W, but its limit is %.1f W", i,
                       t->power_w->mean, limit);
    return 0;
}

/* A device without samples, with too few of them, or with all and a reason why it has none; "": as it should be. */
static void describe_device(char out[400], const struct rp_verify_state *s, int64_t i)
{
    const struct rp_command_facts *c = s->run.doc->command;
    const struct rp_command_process *p = &c->process[c->device[i].process];
    const struct rp_telemetry_figures *t = s->run.doc->observed->device[i].telemetry;
    const char *why = c->device[i].no_telemetry;
    const double took = p->start_ns == RP_NO_INTEGER ? 0 : rp_seconds_between(p->start_ns, p->end_ns),
                 room = took / RP_TELEMETRY_PERIOD_S / (double)(t ? t->every : 1);
    const int few = room >= RP_SAMPLES_ENOUGH && (!t || (double)t->timed < room / 2 - 2);
    if (*out)
        return;
    if (!t)
        snprintf(out, 400, "device %" PRId64 " has no telemetry: %.200s", i, why ? why : "no reason given");
    else if (few)
        snprintf(out, 400, "only %" PRId64 " samples of device %" PRId64 ", %.0f expected%s%.200s", t->timed, i, room,
                 why ? ": " : "", why ? why : "");
    else if (why)
        snprintf(out, 400, "device %" PRId64 " has its telemetry, and a reason why it has none: %.200s", i, why);
}

static void describe_throttling(char out[240], const struct rp_command_figures *f)
{
    *out = 0;
    for (int64_t i = 0; i < f->device_n; i++) {
        const struct rp_telemetry_figures *t = f->device[i].telemetry;
        for (int64_t k = 0; t && k < t->throttle_n; k++) {
            const size_t n = strlen(out);
            if (!rp_throttle_is_harmless(t->throttle[k].reason) && n + 100 < 240)
                snprintf(out + n, 240 - n, "%sdevice %" PRId64 ": %.40s in %.0f %%", n ? ", " : "", i,
                         t->throttle[k].reason, 100 * t->throttle[k].share);
        }
    }
}

int rp_verify_command_telemetry(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_command_facts *c = s->run.doc->command;
    char strange[400] = "", throttled[240];
    if (rp_verify_follows(s, RP_CHECK_telemetry, err) < 0)
        return -1;
    if ((c->device_n == 0) != (c->no_telemetry != NULL))
        return rp_fail(err, RP_MISMATCH, "facts.json has %s no_telemetry",
                       c->device_n ? "devices, and" : "no device, and no");
    if (!c->device_n)
        return rp_check_not_applicable(result, "none: %.300s", c->no_telemetry);
    for (int64_t i = 0; i < c->device_n; i++) {
        if (check_device(s, i, err) < 0)
            return -1;
        describe_device(strange, s, i);
    }
    if (!*strange)
        RP_FORMAT(strange, "%s", s->power_doubt);
    describe_throttling(throttled, s->run.doc->observed);
    if (*strange && rp_facts_complete(s->run.facts))
        return rp_check_warn(result, "%s", strange);
    if (*strange)
        return rp_check_note(result, "%s", strange);
    result->state = *throttled ? RP_CHECK_NOTE : RP_CHECK_PASSED;
    return rp_check_text(result, "%" PRId64 " device samples of %" PRId64 " GPU%s%s%s",
                         s->run.figures->telemetry->timed, c->device_n, rp_s(c->device_n),
                         *throttled ? "; throttled: " : ", no throttling", throttled);
}
