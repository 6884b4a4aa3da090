/* Streams: what is queued on them, and when it is done.
 *
 *   SHIM_DEFER=0   at once, in the order of the calls
 *   SHIM_DEFER=1   as late as a driver may: when the host waits for it, and then nothing but what that takes
 *   SHIM_DEFER=2   the same with more of what is queued at random moments, from whatever stream may go on; SHIM_SEED
 *
 * A host that looks too early, changes page-locked memory that a copy has still to read, or leaves out a wait between
 * streams then gets other bytes. What the driver promises is kept: arguments of kernels are taken at the call; so is
 * pageable memory that is copied to the GPU; a copy into pageable memory is done when the call returns; the legacy
 * stream and those that do not call themselves non-blocking wait for each other.
 */
#include "tests/shim/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct queued {
    struct shim_work work;
    uint64_t number; /* of all that was ever queued */
    void *staged;    /* pageable memory as it was at the call */
    struct queued *next;
};
struct CUstream_st {
    struct queued *first, **last;
    unsigned flags;
    int gone; /* destroyed: what is queued is done all the same */
    struct CUstream_st *next;
};
struct CUevent_st {
    struct timespec at;
    uint64_t recorded, done; /* records so far: called, and passed */
    long users;              /* queued work, and the host until it is destroyed */
    unsigned flags;
};
static struct CUstream_st legacy = {.last = &legacy.first}, *streams = &legacy;
static uint64_t numbers, chance = 1;
static long queued_works;

static uint64_t defer(void)
{
    static uint64_t how = ~0ull;
    if (how == ~0ull) {
        how = shim_number("SHIM_DEFER", 0);
        chance = shim_number("SHIM_SEED", 1);
    }
    return getenv("SHIM_IDLE") ? 0 : how;
}

static unsigned draw(unsigned n)
{
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(chance >> 33) % n;
}

int shim_is_busy(void)
{
    return queued_works > 0;
}

/* ---- what is done ---- */

static struct launched {
    const char *kernel;
    long count;
    size_t shared;
} launched[256];

static void write_launched(void)
{
    FILE *f = fopen(getenv("SHIM_IDLE"), "w");
    for (struct launched *l = launched; f && l->kernel; l++)
        fprintf(f, "%s %ld %zu\n", l->kernel, l->count, l->shared);
    if (f)
        fclose(f);
}

static void note_launch(const struct shim_work *w)
{
    struct launched *l = launched;
    if (!l->kernel)
        atexit(write_launched);
    while (l->kernel && strcmp(l->kernel, w->kernel) != 0)
        l++;
    if (l == launched + sizeof launched / sizeof *launched - 1)
        abort();
    if (!l->kernel)
        l->kernel = strdup(w->kernel);
    l->count++;
    l->shared = w->shared > l->shared ? w->shared : l->shared;
}

static void let_go(CUevent event)
{
    if (event && --event->users == 0)
        free(event);
}

static int is_idle(const struct shim_work *w)
{
    static int has_begun;
    const char *from = getenv("SHIM_IDLE_FROM");
    has_begun |= !from || (w->kind == LAUNCH && strcmp(w->kernel, from) == 0);
    return getenv("SHIM_IDLE") && has_begun;
}

static void run(const struct shim_work *w)
{
    const char *fault;
    if (is_idle(w) && w->kind != RECORD && w->kind != WAIT) {
        if (w->kind == LAUNCH)
            note_launch(w);
        return;
    }
    switch (w->kind) {
    case LAUNCH:
        fault = shim_launch(w->kernel, w->grid, w->block, w->shared, w->args);
        if (fault) {
            fprintf(stderr, "shim: kernel %s: %s\n", w->kernel, fault);
            shim_broken = CUDA_ERROR_LAUNCH_FAILED;
        }
        break;
    case COPY:
        memmove(w->to, w->from, w->bytes);
        break;
    case SET:
        memset(w->to, w->value, w->bytes);
        break;
    case RECORD:
        w->event->done = w->version > w->event->done ? w->version : w->event->done;
        clock_gettime(CLOCK_MONOTONIC, &w->event->at);
        break;
    case WAIT:
    case CALL:
        break;
    }
}

/* ---- what may be done next ---- */

static struct CUstream_st *recorder(const struct shim_work *w)
{
    for (struct CUstream_st *s = streams; s; s = s->next)
        for (struct queued *q = s->first; q; q = q->next)
            if (q->work.kind == RECORD && q->work.event == w->event && q->work.version >= w->version)
                return s;
    abort(); /* a record that is not done is queued */
}

/* The stream that has to go on before the first work of s may be done; s itself: it may. */
static struct CUstream_st *blocker(struct CUstream_st *s)
{
    const struct queued *q = s->first;
    if (q->work.kind == WAIT && q->work.event->done < q->work.version)
        return recorder(&q->work);
    for (struct CUstream_st *t = streams; t; t = t->next)
        if ((s == &legacy || t == &legacy) && !(s->flags & CU_STREAM_NON_BLOCKING) &&
            !(t->flags & CU_STREAM_NON_BLOCKING) && t->first && t->first->number < q->number)
            return t;
    return s;
}

static void forget(struct CUstream_st *s)
{
    struct CUstream_st **at = &streams;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    free(s);
}

/* The first work of s, which may be done; after a failure it is dropped. */
static void step(struct CUstream_st *s)
{
    struct queued *q = s->first;
    if (q->work.kind == CALL && !shim_broken && !q->work.call(q->work.to)) {
        usleep(20);
        return;
    }
    s->first = q->next;
    if (!s->first)
        s->last = &s->first;
    if (!shim_broken)
        run(&q->work);
    let_go(q->work.event);
    free(q->staged);
    free(q);
    queued_works--;
    if (s->gone && !s->first)
        forget(s);
}

/* One work that s needs to go on. */
static void step_towards(struct CUstream_st *s)
{
    for (struct CUstream_st *t = blocker(s); !shim_broken && t != s; t = blocker(s))
        s = t;
    step(s);
}

/* Something that may be done, anywhere. */
static void step_anywhere(void)
{
    struct CUstream_st *can[64];
    unsigned n = 0;
    for (struct CUstream_st *s = streams; s && n < 64; s = s->next)
        if (s->first && (shim_broken || blocker(s) == s))
            can[n++] = s;
    if (n)
        step(can[draw(n)]);
}

static void perhaps_more(void)
{
    while (defer() == 2 && queued_works && draw(3) == 0)
        step_anywhere();
}

static CUresult drain(struct CUstream_st *s)
{
    while (s->first) {
        step_towards(s);
        if (s->first)
            perhaps_more();
    }
    return shim_broken;
}

/* ---- queueing ---- */

static struct CUstream_st *known(CUstream stream)
{
    if (!stream || stream == CU_STREAM_LEGACY)
        return &legacy;
    for (struct CUstream_st *s = streams; s; s = s->next)
        if (s == stream && !s->gone)
            return s;
    return NULL;
}

CUresult shim_submit(CUstream stream, const struct shim_work *w)
{
    struct CUstream_st *s = known(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!defer() && !queued_works && (w->kind != CALL || w->call(w->to))) {
        run(w);
        return shim_broken;
    }
    struct queued *q = calloc(1, sizeof *q);
    if (!q)
        abort();
    q->work = *w;
    q->number = ++numbers;
    if (w->event)
        w->event->users++;
    if (w->kind == COPY && shim_where(w->from, w->bytes) == SHIM_ELSEWHERE) {
        q->work.from = q->staged = malloc(w->bytes);
        if (!q->staged)
            abort();
        memcpy(q->staged, w->from, w->bytes);
    }
    *s->last = q;
    s->last = &q->next;
    queued_works++;
    if (w->kind == COPY && shim_where(w->to, w->bytes) == SHIM_ELSEWHERE)
        return drain(s);
    perhaps_more();
    return CUDA_SUCCESS;
}

EXPORT CUresult shim_call(CUstream stream, int (*call)(void *data), void *data)
{
    ENTER_CONTEXT;
    return shim_submit(stream, &(struct shim_work){.kind = CALL, .call = call, .to = data});
}

/* ---- copies ---- */

static int on_the_gpu(CUdeviceptr data, size_t bytes)
{
    return shim_where((const void *)(uintptr_t)data, bytes) != SHIM_ELSEWHERE;
}

/* A driver may take one of the GPU's addresses for one of the host, and then copy within the GPU; what is played does
 * not. */
static int on_the_host(const void *data, size_t bytes)
{
    return shim_where(data, bytes) != SHIM_DEVICE;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT;
    if (!on_the_gpu(data, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return shim_submit(stream,
                       &(struct shim_work){.kind = SET, .to = (void *)(uintptr_t)data, .value = value, .bytes = bytes});
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT;
    if (!on_the_gpu(to, bytes) || !on_the_host(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return shim_submit(stream,
                       &(struct shim_work){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT;
    if (!on_the_gpu(from, bytes) || !on_the_host(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return shim_submit(
        stream, &(struct shim_work){.kind = COPY, .to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    ENTER_CONTEXT;
    if (!on_the_gpu(to, bytes) || !on_the_gpu(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return shim_submit(
        stream, &(struct shim_work){
                    .kind = COPY, .to = (void *)(uintptr_t)to, .from = (const void *)(uintptr_t)from, .bytes = bytes});
}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    ENTER_CONTEXT;
    struct CUstream_st *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    *s = (struct CUstream_st){.last = &s->first, .flags = flags, .next = streams};
    *stream = streams = s;
    shim_held[STREAM]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream)
{
    GIVE_BACK;
    struct CUstream_st *s = known(stream);
    if (!s || s == &legacy)
        return CUDA_ERROR_INVALID_HANDLE;
    s->gone = 1;
    if (!s->first)
        forget(s);
    shim_held[STREAM]--;
    return entered_;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    ENTER_CONTEXT;
    struct CUstream_st *s = known(stream);
    return s ? drain(s) : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    ENTER_CONTEXT;
    (void)flags;
    return shim_submit(stream, &(struct shim_work){.kind = WAIT, .event = event, .version = event->recorded});
}

/* ---- events ---- */

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    ENTER_CONTEXT;
    *event = calloc(1, sizeof **event);
    if (!*event)
        abort();
    (*event)->flags = flags;
    (*event)->users = 1;
    shim_held[EVENT]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event)
{
    GIVE_BACK;
    let_go(event);
    shim_held[EVENT]--;
    return entered_;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER_CONTEXT;
    event->recorded++;
    return shim_submit(stream, &(struct shim_work){.kind = RECORD, .event = event, .version = event->recorded});
}

/* A host that asks again and again gets somewhere. */
EXPORT CUresult cuEventQuery(CUevent event)
{
    ENTER_CONTEXT;
    if (event->done == event->recorded)
        return CUDA_SUCCESS;
    step_towards(recorder(&(struct shim_work){.event = event, .version = event->recorded}));
    return shim_broken ? shim_broken : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    ENTER_CONTEXT;
    while (!shim_broken && event->done < event->recorded)
        step_towards(recorder(&(struct shim_work){.event = event, .version = event->recorded}));
    return shim_broken;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    ENTER_CONTEXT;
    if (((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) || !start->recorded || !end->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->done < start->recorded || end->done < end->recorded)
        return CUDA_ERROR_NOT_READY;
    *ms = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 +
                  (double)(end->at.tv_nsec - start->at.tv_nsec) * 1e-6);
    return CUDA_SUCCESS;
}
