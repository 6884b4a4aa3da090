/* The variables by which launchers tell a process its job: which are read, and as what.
 *
 * What:    one table for each launcher: numbers of nodes, tasks, CPUs and GPUs, and the ranks of the process.
 * Flow:    environ.c keeps these variables, the jobs probe makes values of them.
 * Owner:   static tables, each ended by a row without a name.
 * Extend:  a variable is a row of its launcher's table; a launcher is a table and a row of rp_job_launchers.
 */
#pragma once

#include "capture/privacy/variables.h"

enum rp_job_kind { RP_JOB_NUMBER, RP_JOB_TEXT, RP_JOB_HIDDEN };
struct rp_job_fact {
    const char *name, *variable; /* in the capture, in the environment */
    enum rp_job_kind kind;
};
/* A launcher is there when its mark is set. */
struct rp_job_launcher {
    const char *name, *mark;
    const struct rp_job_fact *facts;
};
extern const struct rp_job_launcher rp_job_launchers[];

/* May this variable be read for one of them? */
enum rp_variable rp_jobs_allow(const char *name, size_t n);
