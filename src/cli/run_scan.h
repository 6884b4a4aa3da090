/* Several runs of a recipe, one for each combination of values (--scan) and each repetition (--runs).
 *
 * What:    a bundle for each run, one table of all.
 * Flow:    options -> settings -> rp_run() each, the repetitions of a setting spread over the whole time -> table.
 * Owner:   everything is borrowed.
 */
#pragma once

#include "base/object.h"
#include "cli/run.h"

#define RP_OBJECT_LIST "cli/scan.def"
#include "base/object_structs.inc.h"

int rp_run_scan(struct rp_cli *cli, const struct rp_run_opts *o, const struct rp_run_from *from,
                struct rp_err *err) rp_must_check;
static inline int rp_run_is_scan(const struct rp_run_opts *o)
{
    return o->scan.n > 0 || o->runs > 0;
}
