/* State shared by the checks: inner header of verify/.
 *
 * What:    the bundle and, as checks pass, its parsed parts.
 * Flow:    a check may use what earlier fatal checks filled in.
 * Owner:   rp_verify() frees everything.
 * Extend:  a part that several checks need is a field of struct rp_verify_state.
 */
#pragma once

#include "backend/backend.h"
#include "bundle/bundle.h"
#include "recipe/recipe.h"
#include "run/run.h"
#include "sign/dsse.h"
#include "verify/verify.h"

/* Another bundle, that of --original or --baseline, which was verified by any key before the check that compares it. */
struct rp_verify_other {
    struct rp_verification v;
    struct rp_verified kept;
    int failed;
    struct rp_err err;
};

struct rp_verify_derived;

/* Power over a window, by the samples that have it. Energy is their mean times the window. */
struct rp_power_seen {
    double mean, integrated; /* W, of the samples and by the trapezoid rule between them; 0: no sample has it */
    double gap_s, window_s;  /* the longest part of the window without one */
    double period_s;         /* between two samples, as they were kept */
};

struct rp_verify_state {
    const char *path;
    const struct rp_verify_opts *o;
    struct rp_verification *v;
    int fd;                       /* container: the open file, for members that are not kept in memory; -1 */
    struct rp_bundle bundle;      /* container */
    struct rp_envelope envelope;  /* signature */
    struct rp_key_pair *key;      /* signature: of key.pem */
    json_t *statement;            /* statement */
    struct rp_run run;            /* schema; its telemetry: the first check of derived values */
    struct rp_verify_derived *derived;           /* run.json, derived again */
    struct rp_power_seen power;                  /* with it: of the slowest rank */
    char power_doubt[160];                       /* why the energy of a rank does not follow from its power; "" */
    struct rp_verify_other *original, *baseline; /* agreement, scaling; NULL: not given */
};

/* 0 passed (or a note, a warning, skipped or not applicable), -1 failed with the message in *err; result->text is the
 * remark of a check that passed. A check that compared nothing did not pass: it is not applicable. */
#define VERIFY(id, of, severity, proves, how)                                                                          \
    int rp_check_##id(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
#include "verify/checks.def"
#undef VERIFY

/* The device of a rank against the captures of its node and the settings. */
int rp_verify_device(const struct rp_verify_state *s, int rank, struct rp_check_result *result,
                     struct rp_err *err) rp_must_check;
/* What names of GPUs contain and names of x86-64 processors do not, of a device's name; NULL: nothing of it. */
const char *rp_verify_gpu_name(const char *device);
/* Has letters other than ASCII, with which it may look like the name of another device. */
int rp_verify_name_is_foreign(const char *device);
/* Whether the capture before the run has a device of that name. *captured: the name of its CPU, for a rank on
 * processors; else NULL. */
int rp_verify_captured_device(const struct rp_verify_state *s, int rank, const char **captured);
/* Devices, processors and memory of every rank. */
int rp_verify_places(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;

/* By the signer's own key, or by one that countersigned and is not the verifier's own: its time and nonce are the
 * signer's choice. */
int rp_verify_own_challenge(const struct rp_verify_state *s, const struct rp_challenge *c);
/* By the verifier's own key, an independent one of the trust store, or a public value that was checked. */
int rp_verify_vouched_challenge(const struct rp_verify_state *s, const struct rp_challenge *c);
/* Who made it: "'lab'" of the trust store, "SHA256:..., which is not in your trust store", or a public value. */
void rp_verify_challenger(char out[RP_CHALLENGER], const struct rp_verify_state *s, const struct rp_challenge *c);
/* Places, steps and exchanges; captures of several nodes; how many machines those are. */
int rp_verify_machines(const struct rp_run *r);
int rp_verify_world(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
int rp_verify_nodes(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;

const char *rp_check_proves(int id);
enum rp_severity rp_check_severity(int id);
enum rp_bundle_kind rp_check_of(int id); /* the kind of bundle that it is about */
const char *rp_severity_name(enum rp_severity severity);

/* Printable ASCII into the result's text; 0, so that a check can end with it. The others also set the state. */
int rp_check_text(struct rp_check_result *result, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define rp_check_note(result, ...) ((result)->state = RP_CHECK_NOTE, rp_check_text(result, __VA_ARGS__))
#define rp_check_warn(result, ...) ((result)->state = RP_CHECK_WARNING, rp_check_text(result, __VA_ARGS__))
#define rp_check_skip(result, ...) ((result)->state = RP_CHECK_SKIPPED, rp_check_text(result, __VA_ARGS__))
#define rp_check_not_applicable(result, ...) \
    ((result)->state = RP_CHECK_NOT_APPLICABLE, rp_check_text(result, __VA_ARGS__))
/* The first difference of two documents as "results/flops_per_s is 9, expected 3.5". 0 if they are equal. */
int rp_check_differ(char *text, size_t size, const json_t *is, const json_t *expected);
/* The same for values at paths that count: counts(path, what). */
int rp_check_differ_where(char *text, size_t size, const json_t *is, const json_t *expected,
                          int (*counts)(const char *path, int what), int what);

/* outer/check_outer.c: "SHA256:..., the same key" of a bundle that this one is compared with. Returns whether the key
 * is unknown here. */
#define RP_WHOSE_KEY 320
int rp_verify_whose_key(char out[RP_WHOSE_KEY], const struct rp_verify_state *s, const struct rp_verification *other);
/* ---- derive/check_derived.c ---- */
/* Whether two agreements differ, without their grades, which other versions may assign differently. */
int rp_verify_agreement_differs(char *text, size_t size, const json_t *is, const json_t *expected);
/* The values of run.json that the check is about, derived again. RP_MISMATCH names the first that differs. */
int rp_verify_follows(struct rp_verify_state *s, enum rp_check_id check, struct rp_err *err) rp_must_check;
const struct rp_figures *
rp_verify_figures(struct rp_verify_state *s); /* all of them; NULL: records and settings do not agree */
void rp_verify_derived_free(struct rp_verify_derived *d);
int rp_verify_starts_from_file(const struct rp_verify_state *s); /* from parameters that are not in the bundle */
/* ---- derive/read_telemetry.c ---- */
/* Telemetry of every rank into the figures; that of the slowest is kept in s->run. */
int rp_verify_read_telemetry(struct rp_verify_state *s, struct rp_figures *f, struct rp_err *err) rp_must_check;
/* The same of every device of a command; that of the first is kept in s->run. */
int rp_verify_read_devices(struct rp_verify_state *s, struct rp_command_figures *f, struct rp_err *err) rp_must_check;
/* ---- physics/check_command.c: the checks `time` and `telemetry` of a command ---- */
int rp_verify_command_time(struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err) rp_must_check;
int rp_verify_command_telemetry(struct rp_verify_state *s, struct rp_check_result *result,
                                struct rp_err *err) rp_must_check;
/* ---- physics/wall_times.c ---- */
/* Dates, captures and clocks of others; *end: when the run ended. */
int rp_verify_wall_times(const struct rp_verify_state *s, double *end, struct rp_err *err) rp_must_check;
/* How long after others had the bundle its run ended, by the signer's clock: 0 or less where that is possible. */
double rp_verify_ended_late(const struct rp_verify_state *s, double end, const char **than);
/* A warning where somebody set a clock to another rate, by a capture or by its oscillator meanwhile: 1, else 0. */
int rp_verify_slow_clock(const struct rp_verify_state *s, struct rp_check_result *result);

static inline double rp_seconds_between(int64_t from_ns, int64_t to_ns)
{
    return (double)(to_ns - from_ns) / 1e9;
}
#define RP_CLOCK_DRIFT 1.01   /* the wall clock may be slewed against the monotonic one */
#define RP_WALL_SLACK_S 1.001 /* wall times are truncated to seconds */
#define RP_FAST_S 300.0       /* a clock that is set by the network is not that fast */
#define RP_SAMPLES_ENOUGH 8   /* periods: so long a time has samples of a device, even if the first are late */
