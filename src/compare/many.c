/* Many operands at once: bundles are verified in parallel, one thread per processor; results keep the order of the
 * command line. */
#include "compare/result.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define THREADS_MAX 16
#define STACK (8u << 20) /* documents nest; musl's threads have 128 KiB of their own */

struct many_job {
    const char *what;
    struct rp_rows rows;
    struct rp_err err;
    int rc;
};
struct many_work {
    struct many_job *job;
    int n;
    const struct rp_result_opts *o;
    atomic_int next, failed; /* failed: the rest is skipped */
};

static void *run_thread(void *arg)
{
    struct many_work *w = arg;
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n && !atomic_load(&w->failed);) {
        w->job[i].rc = rp_rows_load(&w->job[i].rows, w->job[i].what, w->o, &w->job[i].err);
        if (w->job[i].rc < 0)
            atomic_store(&w->failed, 1);
    }
    return NULL;
}

static int threads_here(int most)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    n = n > THREADS_MAX ? THREADS_MAX : n;
    return n > most ? most : n;
}

static void append_rows(struct rp_rows *to, struct rp_rows *from)
{
    if (!from->n)
        return;
    to->row = rp_realloc(to->row, (size_t)(to->n + from->n) * sizeof *to->row);
    memcpy(to->row + to->n, from->row, (size_t)from->n * sizeof *to->row);
    to->n += from->n;
    free(from->row);
    *from = (struct rp_rows){0};
}

/* The first operand is loaded alone: it initializes what threads share afterwards. */
int rp_rows_load_all(struct rp_rows *rows, const char *const *what, int n, const struct rp_result_opts *o,
                     struct rp_err *err)
{
    pthread_t thread[THREADS_MAX];
    pthread_attr_t attr;
    int threads = 0, rc = n ? rp_rows_load(rows, what[0], o, err) : 0;
    if (rc < 0 || n < 2)
        return rc;
    struct many_work w = {.job = rp_alloc((size_t)n * sizeof *w.job), .n = n, .o = o, .next = 1};
    for (int i = 0; i < n; i++)
        w.job[i].what = what[i];
    RP_BUG_IF(pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, STACK) != 0);
    for (int most = threads_here(n - 1) - 1; threads < most; threads++)
        if (pthread_create(&thread[threads], &attr, run_thread, &w) != 0)
            break; /* the threads that exist do all the work */
    run_thread(&w);
    while (threads)
        pthread_join(thread[--threads], NULL);
    pthread_attr_destroy(&attr);
    for (int i = 1; i < n; i++) {
        if (rc == 0 && w.job[i].rc < 0) {
            *err = w.job[i].err;
            rc = -1;
        }
        if (rc == 0)
            append_rows(rows, &w.job[i].rows);
        rp_rows_fini(&w.job[i].rows);
    }
    free(w.job);
    return rc;
}
