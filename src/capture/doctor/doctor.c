#include "capture/doctor/doctor.h"

#include "base/json.h"
#include "base/text.h"

#include <string.h>

static const struct {
    const char *id, *concerns, *what;
    void (*run)(struct rp_doctor *d);
} checks[] = {
#define DOCTOR(id, concerns, what) {#id, #concerns, what, rp_doctor_##id},
#define DOCTOR_GPU(id, what) {#id, "gpu", what, rp_doctor_gpus},
#include "capture/doctor/doctor.def"
#undef DOCTOR
};

static const char *const severities[] = {"stop", "slow", "note"};
enum { SEVERITIES = sizeof severities / sizeof *severities };

void rp_doctor_report(struct rp_doctor *d, enum rp_doctor_severity severity, const char *remedy, const char *value, ...)
{
    char text[256];
    RP_FORMAT_ARGS(text, value);
    rp_sanitize(text); /* it may contain a text of a driver, and be cut within a character */
    json_array_append_new(d->found, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "check", d->check, "severity", severities[severity],
                                              "concerns", d->concerns, "what", d->what, "value", text, "remedy", remedy));
}

json_t *rp_doctor(const json_t *env)
{
    json_t *found = json_array(), *sorted = json_array(), *finding;
    struct rp_doctor d = {.probes = json_object_get(env, "probes"), .found = found};
    size_t k;
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        d.check = checks[i].id;
        d.concerns = checks[i].concerns;
        d.what = checks[i].what;
        checks[i].run(&d);
    }
    for (int s = 0; s < SEVERITIES; s++)
        json_array_foreach(found, k, finding)
            if (strcmp(rp_json_text_at(finding, "severity"), severities[s]) == 0)
                json_array_append(sorted, finding);
    json_decref(found);
    return sorted;
}

int rp_doctor_stops(const json_t *findings)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *f = json_array_get(findings, i);
        if (strcmp(rp_json_text_at(f, "severity"), "stop") == 0 && strcmp(rp_json_text_at(f, "concerns"), "run") == 0)
            return 1;
    }
    return 0;
}
