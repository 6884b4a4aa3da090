/* Doctor: the properties of a captured machine that would stop or slow a run, with a remedy for each.
 *
 * What:    the checks of doctor.def over an environment document; an unknown value gives no finding.
 * Flow:    document -> struct rp_findings, worst first.
 * Owner:   the caller; rp_findings_fini() frees it.
 * Extend:  a row in doctor.def, and a function rp_doctor_<id>() that calls rp_doctor_report().
 */
#pragma once

#include "base/object.h"

#define RP_OBJECT_LIST "capture/doctor/findings.def"
#include "base/object_structs.inc.h"

void rp_doctor(struct rp_findings *out, const json_t *env);
void rp_findings_fini(struct rp_findings *f);
#define RP_FINDINGS __attribute__((cleanup(rp_findings_fini))) struct rp_findings
/* Is there a finding that stops every run? */
int rp_doctor_stops(const struct rp_findings *f);
/* A template (report/template.h): one line for each of "findings". */
#define RP_DOCTOR_TEXT                                                                                                 \
    "[/findings:{/severity c:stop=31,slow=33}  {/what t -18} {/value p}\t{/remedy p}\n]"

/* ---- for the checks ---- */

enum rp_doctor_severity { RP_DOCTOR_STOP, RP_DOCTOR_SLOW, RP_DOCTOR_NOTE };

struct rp_doctor {
    const json_t *probes;               /* of the document */
    const char *check, *concerns, *what; /* the row at hand */
    struct rp_findings *found;
};
/* remedy and value are one line each; value is a format. */
void rp_doctor_report(struct rp_doctor *d, enum rp_doctor_severity severity, const char *remedy, const char *value, ...)
    __attribute__((format(printf, 4, 5)));

/* What a container cannot change, such as the clock of its host, is not reported there. */
int rp_doctor_in_container(const struct rp_doctor *d);

void rp_doctor_gpus(struct rp_doctor *d);
#define DOCTOR(id, concerns, what) void rp_doctor_##id(struct rp_doctor *d);
#define DOCTOR_GPU(id, what)
#include "capture/doctor/doctor.def"
#undef DOCTOR
