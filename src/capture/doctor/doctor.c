#include "capture/doctor/doctor.h"

#include "base/json.h"
#include "base/text.h"

#include <stddef.h>
#include <string.h>

#define RP_OBJECT_LIST "capture/doctor/findings.def"
#include "base/object_tables.inc.h"

static const struct {
    const char *id, *concerns, *what;
    void (*run)(struct rp_doctor *d);
} checks[] = {
#define DOCTOR(id, concerns, what) {#id, #concerns, what, rp_doctor_##id},
#define DOCTOR_GPU(id, what) {#id, "gpu", what, rp_doctor_gpus},
#include "capture/doctor/doctor.def"
#undef DOCTOR
};

void rp_doctor_report(struct rp_doctor *d, enum rp_doctor_severity severity, const char *remedy, const char *value, ...)
{
    static const char *const names[] = {"stop", "slow", "note"};
    struct rp_findings *out = d->found;
    int64_t *const counts[] = {&out->stop, &out->slow, &out->note};
    int64_t at = 0;
    char text[256];
    RP_FORMAT_ARGS(text, value);
    rp_sanitize(text); /* it may contain a text of a driver, and be cut within a character */
    for (int i = 0; i <= (int)severity; i++)
        at += *counts[i];
    (void)rp_object_add(&out->findings, &out->findings_n, &rp_type_finding);
    memmove(&out->findings[at + 1], &out->findings[at], (size_t)(out->findings_n - 1 - at) * sizeof *out->findings);
    out->findings[at] = (struct rp_finding){rp_strdup(d->check), rp_strdup(names[severity]), rp_strdup(d->concerns),
                                            rp_strdup(d->what), rp_strdup(text), rp_strdup(remedy)};
    ++*counts[severity];
}

void rp_doctor(struct rp_findings *out, const json_t *env)
{
    struct rp_doctor d = {.probes = rp_json_at(env, "probes"), .found = out};
    rp_object_init(out, &rp_type_findings);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        d.check = checks[i].id;
        d.concerns = checks[i].concerns;
        d.what = checks[i].what;
        checks[i].run(&d);
    }
}

void rp_findings_fini(struct rp_findings *f)
{
    rp_object_fini(f, &rp_type_findings);
}

int rp_doctor_stops(const struct rp_findings *f)
{
    for (int64_t i = 0; i < f->findings_n; i++)
        if (strcmp(f->findings[i].severity, "stop") == 0 && strcmp(f->findings[i].concerns, "run") == 0)
            return 1;
    return 0;
}
