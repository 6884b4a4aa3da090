#include "train/prefetch.h"

#include "base/buf.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES ((size_t)256 << 10)

enum prefetch_state { IDLE, WANTED, WORKING, READY };

struct rp_prefetch {
    rp_prepare_fn prepare;
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum prefetch_state state;
    int stop, failed;
    int64_t step;
    struct rp_err err; /* of that step */
};

static void *prefetch_batches(void *arg)
{
    struct rp_prefetch *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        if (p->state != WANTED) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        p->state = WORKING;
        pthread_mutex_unlock(&p->lock);
        int failed = p->prepare(p->arg, p->step, &p->err) < 0;
        pthread_mutex_lock(&p->lock);
        p->failed = failed;
        p->state = READY;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct rp_prefetch *rp_prefetch_new(rp_prepare_fn prepare, void *arg, struct rp_err *err)
{
    struct rp_prefetch *p = rp_alloc(sizeof *p);
    pthread_attr_t a;
    sigset_t all, old;
    *p = (struct rp_prefetch){.prepare = prepare, .arg = arg};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are the main thread's */
    int e = pthread_create(&p->thread, &a, prefetch_batches, p);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&a);
    if (e == 0)
        return p;
    free(p);
    return rp_fail_null(err, RP_UNAVAILABLE, "cannot start a thread for the input: %s", strerror(e));
}

void rp_prefetch_start(struct rp_prefetch *p, int64_t step)
{
    pthread_mutex_lock(&p->lock);
    RP_BUG_IF(p->state != IDLE);
    p->step = step;
    p->err = (struct rp_err){0};
    p->state = WANTED;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

int rp_prefetch_take(struct rp_prefetch *p, int64_t step, struct rp_err *err)
{
    pthread_mutex_lock(&p->lock);
    while (p->state == WANTED || p->state == WORKING)
        pthread_cond_wait(&p->changed, &p->lock);
    int ready = p->state == READY && p->step == step, failed = p->failed;
    p->state = IDLE;
    pthread_mutex_unlock(&p->lock);
    if (!ready)
        return p->prepare(p->arg, step, err);
    if (failed)
        *err = p->err;
    return failed ? -1 : 0;
}

void rp_prefetch_free(struct rp_prefetch *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
