/* Telemetry of the GPUs that a command can use, by repro-gpu, while it runs.
 *
 * What:    which GPUs a process with this environment sees; then their samples, every 100 ms.
 * Flow:    rp_gpu_watch_open() -> rp_gpu_watch_start() -> the command, with rp_gpu_watch_take() several times a second
 *          -> rp_gpu_watch_end() -> lines of telemetry/deviceN.jsonl.
 * Owner:   rp_gpu_watch_fini() ends repro-gpu and frees the samples.
 * Extend:  a value of a sample: run/telemetry.h. gpu/watch.c decides which GPUs are seen.
 *
 * Nothing here fails: a GPU without samples has the reason. Of each, as of a run, a bounded number of lines is kept,
 * rp_telemetry_most_of_command(): of a long command every second, fourth, ... sample.
 */
#pragma once

#include "process/process.h"
#include "run/telemetry.h"

#define RP_WATCHED_MAX 64 /* of a process, as gpu/gpu.h has it */

struct rp_watched_gpu {
    char address[24]; /* "0000:3b:00.0" */
    struct rp_sampling samples;
};
struct rp_gpu_watch {
    struct rp_process worker;
    int is_running, is_sampling;
    int n;
    struct rp_watched_gpu gpu[RP_WATCHED_MAX];
    char reason[256]; /* why there is no GPU; "": there are some */
};
/* Asks which there are. */
void rp_gpu_watch_open(struct rp_gpu_watch *w);
/* Forgets the GPUs that `keep` does not have, [n], and samples the others; of each at most `most` lines are kept. */
void rp_gpu_watch_start(struct rp_gpu_watch *w, const char *keep, int64_t most);
/* The samples that have come, without those from before start_ns. */
void rp_gpu_watch_take(struct rp_gpu_watch *w, int64_t start_ns);
/* The rest up to the end of the command. */
void rp_gpu_watch_end(struct rp_gpu_watch *w, int64_t start_ns, int64_t end_ns);
void rp_gpu_watch_fini(struct rp_gpu_watch *w);
