/* MLPerf training results: the score of a benchmark from its runs, and the machine of systems/NAME.json.
 *
 * What:    what results/NAME/BENCHMARK/result_*.txt and systems/NAME.json of a round contain together.
 * Flow:    mllog.c reads every file -> rp_mlperf_run() of a log, rp_mlperf_add_system() of a description ->
 *          rp_mlperf_finish() after the last file -> rp_mlperf_merge() for each row.
 * Owner:   struct rp_import owns the descriptions.
 * Extend:  a benchmark is a row of `rules` in mlperf.c.
 *
 * Source:  mlcommons/training_policies at d73e20f1, training_rules.adoc, "Benchmark Results" and "Deprecated benchmarks
 *          results"; names of benchmarks: mlcommons/logging at 7bbf7926, mlperf_logging/benchmark_meta.py.
 */
#pragma once

#include "import/import.h"
#include "import/tagged.h"

/* run_start or run_stop. Lines that repeat it change nothing; one with another time is of another run. */
struct rp_mlperf_event {
    double ms, other_ms;      /* since 1970 */
    int64_t line, other_line; /* 0: none */
};
void rp_mlperf_event(struct rp_mlperf_event *e, double ms, int64_t line); /* ms NaN: ignored */

struct rp_mlperf_run {
    struct rp_mlperf_event start, stop;
    char benchmark[40], status[24], division[24], org[80], platform[80]; /* "": unknown */
};
/* time_to_train_min, minutes from run_start to run_stop, if the run succeeded, else a note with the reason. path: as
 * given; the logs of a folder are runs of one result. */
void rp_mlperf_run(struct rp_imported *d, const struct rp_mlperf_run *r, const char *path);

/* Machines and software of a description: what is known already stays. line: of the log; 0: of `file`,
 * systems/NAME.json. */
void rp_mlperf_system(struct rp_imported *d, const struct rp_mlperf_system *s, int64_t line, const char *file);
/* text: the bytes of systems/NAME.json. RP_MALFORMED. */
int rp_mlperf_add_system(struct rp_import_source *src, const struct rp_buf *text, struct rp_err *err) rp_must_check;

/* finish() and merge() of struct rp_importer. */
int rp_mlperf_finish(struct rp_import *im, struct rp_err *err) rp_must_check;
void rp_mlperf_merge(json_t *row, struct rp_buf *note, const struct rp_imported *const *run, int n);
