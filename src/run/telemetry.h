/* Telemetry (samples of the device that trains): clocks, power, temperature and throttling, every 100 ms during the
 * run.
 *
 * What:    the lines of steps/rankN.telemetry.jsonl, and of telemetry/deviceN.jsonl of a command: collected during the
 *          run and parsed.
 * Flow:    TELEMETRY frames -> struct rp_sampling -> lines -> struct rp_telemetry, with the step records -> figures
 *          (derive.h).
 * Owner:   both structs own what they hold; *_fini().
 * Extend:  a value is a row of rp_nvml_sample_rows (gpu/nvml_table.c), of sample.def, of telemetry_figures in
 *          figures.def, and of rp_telemetry_values in telemetry.c, which makes it a row of tables and a column of the
 *          file for download.
 *
 * A line:
 * {"n":3,"ns":..,"clock_sm_hz":..,"clock_memory_hz":..,"power_mw":..,"temperature_c":..,"throttle":["sw_power_cap"],
 *          "utilization":99}
 *
 * At most rp_telemetry_most() lines are kept: when there are more, every second one goes, and from then on only every
 * second one is kept. So a run of any length has between half of them and all of them, evenly spaced, and n tells
 * which: multiples of a power of two.
 *
 * A rank's steps and samples have one clock, which another rank may not have: every rank's figures are those of its
 * own timed window. Those of the run follow from them.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"
#include "run/facts.h"
#include "run/records.h"

#include <jansson.h>

#define RP_TELEMETRY_MAX 8192 /* of a rank */
#define RP_TELEMETRY_PERIOD_NS 100000000
#define RP_TELEMETRY_PERIOD_S (RP_TELEMETRY_PERIOD_NS / 1e9)

struct rp_sampling {
    struct rp_device_sample *sample; /* those kept */
    int64_t n;
    int64_t next, last_ns; /* the number of the next one; the time of the last one */
    int64_t every, most;   /* most: 0 for RP_TELEMETRY_MAX */
    char reason[256]; /* why there are none, or no more; else "" */
};
/* One TELEMETRY frame. An invalid one is not kept, nor anything after it. */
void rp_sampling_add(struct rp_sampling *s, const json_t *body);
void rp_sampling_write(struct rp_buf *out, const struct rp_sampling *s);
void rp_sampling_fini(struct rp_sampling *s);

/* A number of a sample, and its figure. */
struct rp_telemetry_value {
    const char *key, *name;          /* in a sample; in run.json, */
    double scale;                    /* times this */
    const char *words, *form, *unit; /* in tables */
};
extern const struct rp_telemetry_value rp_telemetry_values[]; /* ended by a row without a key */

struct rp_telemetry {
    struct rp_device_sample *sample;
    int64_t n, every;
    char sha256[RP_SHA256_HEX];
};
/* Lines that are kept of a rank of so many; of a device of a command, whose bundle has its output too. */
int64_t rp_telemetry_most(int ranks);
int64_t rp_telemetry_most_of_command(int devices);
/* name: of the member, in messages; most: lines that it may have. RP_MALFORMED: not as this program writes them.
 * RP_MISMATCH: out of order, or some are missing. */
int rp_telemetry_parse(struct rp_telemetry *out, const char *name, int64_t most, const char *text, size_t size,
                       struct rp_err *err) rp_must_check;
void rp_telemetry_fini(struct rp_telemetry *s);
double rp_sample_value(const struct rp_device_sample *s, const char *key); /* by rp_telemetry_values; NaN: unknown */
int rp_throttle_is_harmless(const char *reason); /* unrelated to heat or power: idleness, or a setting */
