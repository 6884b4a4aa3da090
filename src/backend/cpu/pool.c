/* Threads that wait for jobs.
 *
 * A job is a function and a number of parts. One 64-bit word contains everything that must be read together:
 *
 *     ticket:  | number of the job, 32 bits | parts not yet taken, 32 bits |
 *
 * A thread takes a part by compare-and-swap from (job, left) to (job, left - 1). While a part of a job is still to be
 * taken the job cannot end, so fn, arg and parts, read before a successful swap, belong to that job; a late
 * thread finds no part left or fails the swap. The job does not wait for a thread that took no part: other processes
 * may hold its CPU.
 *
 * Sleeping: threads wait on `epoch`, which changes with every job; the caller waits on `done`, the count of finished
 * parts. Both spin first, for some ten microseconds: the gap between two operations of a training step is shorter than
 * that, and a longer spin would only take the CPU from other processes.
 */
#include "backend/cpu/inner.h"
#include "backend/cpu/float_mode.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES (1u << 20)
#define SPINS 400 /* of about 35 ns to 140 cycles each */

struct rp_pool {
    int threads;
    pthread_t *thread; /* [threads], the first one unused: thread 0 is the caller */
    _Atomic(uint64_t) ticket;
    _Atomic(rp_part_fn) fn;
    _Atomic(void *) arg;
    _Atomic(int) parts;
    atomic_uint epoch, done;
    atomic_int sleepers, waiting, stop;
    struct member {
        struct rp_pool *pool;
        int number;
    } *member;
};

static void check_arithmetic(void)
{
    RP_BUG_IF(rp_float_mode() & RP_FLOAT_ARITHMETIC);
}

static void sleep_while(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_threads(atomic_uint *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* Take and run parts until none is left. */
static void work_on_job(struct rp_pool *p, int thread)
{
    uint64_t t = atomic_load(&p->ticket);
    while ((uint32_t)t) {
        rp_part_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
        int parts = atomic_load_explicit(&p->parts, memory_order_relaxed);
        if (!atomic_compare_exchange_strong(&p->ticket, &t, t - 1))
            continue;
        fn(arg, parts - (int)(uint32_t)t, thread);
        atomic_fetch_add(&p->done, 1u);
        if (atomic_load(&p->waiting))
            wake_threads(&p->done, 1);
        t = atomic_load(&p->ticket);
    }
}

static void *member_main(void *arg)
{
    const struct member *m = arg;
    struct rp_pool *p = m->pool;
    check_arithmetic();
    for (;;) {
        unsigned epoch = atomic_load(&p->epoch);
        if (atomic_load(&p->stop))
            return NULL;
        work_on_job(p, m->number);
        for (int i = 0; i < SPINS && atomic_load_explicit(&p->epoch, memory_order_relaxed) == epoch; i++)
            rp_spin();
        if (atomic_load(&p->epoch) != epoch)
            continue;
        /* order: sleepers before the kernel compares epoch; publish_job() changes epoch before it reads sleepers */
        atomic_fetch_add(&p->sleepers, 1);
        sleep_while(&p->epoch, epoch);
        atomic_fetch_sub(&p->sleepers, 1);
    }
}

static void publish_job(struct rp_pool *p, int wanted)
{
    atomic_fetch_add(&p->epoch, 1u);
    if (atomic_load(&p->sleepers))
        wake_threads(&p->epoch, wanted);
}

void rp_pool_run(struct rp_pool *p, int parts, rp_part_fn fn, void *arg)
{
    if (p->threads == 1 || parts <= 1) {
        for (int i = 0; i < parts; i++)
            fn(arg, i, 0);
        return;
    }
    uint64_t job = (atomic_load(&p->ticket) >> 32) + 1;
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->parts, parts, memory_order_relaxed);
    atomic_store(&p->done, 0);
    atomic_store(&p->ticket, job << 32 | (uint32_t)parts);
    publish_job(p, parts - 1);
    work_on_job(p, 0);
    for (int i = 0; i < SPINS && atomic_load(&p->done) != (unsigned)parts; i++)
        rp_spin();
    unsigned done = atomic_load(&p->done);
    if (done == (unsigned)parts)
        return;
    atomic_store(&p->waiting, 1);
    while ((done = atomic_load(&p->done)) != (unsigned)parts)
        sleep_while(&p->done, done);
    atomic_store(&p->waiting, 0);
}

static int start_thread(struct rp_pool *p, int number, const pthread_attr_t *attr)
{
    p->member[number] = (struct member){p, number};
    return pthread_create(&p->thread[number], attr, member_main, &p->member[number]);
}

/* Threads take no signals: those are for the thread that runs the training loop. */
static int start_all(struct rp_pool *p, int threads)
{
    int e;
    sigset_t all, old;
    pthread_attr_t attr;
    if ((e = pthread_attr_init(&attr)))
        return e;
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (p->threads = 1; p->threads < threads && !(e = start_thread(p, p->threads, &attr)); p->threads++)
        ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return e;
}

struct rp_pool *rp_pool_new(int threads, struct rp_err *err)
{
    RP_BUG_IF(threads < 1);
    check_arithmetic();
    struct rp_pool *p = calloc(1, sizeof *p);
    if (p) {
        p->thread = calloc((size_t)threads, sizeof *p->thread);
        p->member = calloc((size_t)threads, sizeof *p->member);
    }
    if (!p || !p->thread || !p->member) {
        if (p)
            rp_pool_free(p);
        return rp_fail_null(err, RP_UNAVAILABLE, "no memory for a pool of %d threads", threads);
    }
    int e = start_all(p, threads);
    if (e) {
        int had = p->threads;
        rp_pool_free(p);
        errno = e;
        return rp_fail_null(err, RP_UNAVAILABLE, "cannot start thread %d of %d: %s; try --threads %d", had + 1, threads,
                            strerror(e), had);
    }
    return p;
}

void rp_pool_free(struct rp_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, 1);
    publish_job(p, INT_MAX);
    for (int i = 1; i < p->threads; i++)
        pthread_join(p->thread[i], NULL);
    free(p->thread);
    free(p->member);
    free(p);
}
