/* Work on streams that a driver does as late as it may, or at random moments: the backend waits wherever it has to. The
 * faults that this has to find are planted first. timeout: 120 */
#define RP_STORED_TYPE float
#include "tests/cuda/alone.h"

#include "ops/op_check.h"

#include <dlfcn.h>
#include <pthread.h>

#define N 1000
#define BYTES (N * sizeof(float))
#define LARGE ((size_t)5 << 20) /* floats: five halves of the page-locked memory */

/* ---- what the driver of the tests promises, and what it does not ---- */

/* Two streams, two blocks of the GPU and page-locked memory, full of 1, and the driver itself. */
struct bench {
    const struct rp_driver *d;
    CUstream one, two;
    CUevent event;
    CUdeviceptr x, y;
    float *host, back[N]; /* host: page-locked */
    __typeof__(cuEventQuery) *query; /* the backend needs none of them */
    __typeof__(cuStreamWaitEvent) *wait;
};

#define OK(call) CHECK((call) == CUDA_SUCCESS, #call)

static struct bench bench(void)
{
    struct bench b = {0};
    struct rp_dev *dev = gpu_here(NULL);
    b.d = rp_cuda_of(dev)->d;
    *(void **)(void *)&b.query = dlsym(RTLD_DEFAULT, "cuEventQuery");
    *(void **)(void *)&b.wait = dlsym(RTLD_DEFAULT, "cuStreamWaitEvent");
    OK(b.d->cuStreamCreate(&b.one, CU_STREAM_NON_BLOCKING));
    OK(b.d->cuStreamCreate(&b.two, CU_STREAM_NON_BLOCKING));
    OK(b.d->cuEventCreate(&b.event, CU_EVENT_DEFAULT));
    OK(b.d->cuMemAlloc(&b.x, BYTES));
    OK(b.d->cuMemAlloc(&b.y, BYTES));
    OK(b.d->cuMemHostAlloc((void **)&b.host, BYTES, 0));
    for (int i = 0; i < N; i++)
        b.host[i] = 1.0f;
    return b;
}

/* The last float of x, by a stream that has nothing else to wait for. */
static float last_of(struct bench *b, CUdeviceptr x, CUstream stream)
{
    OK(b->d->cuMemcpyDtoHAsync(b->back, x, BYTES, stream)); /* pageable: it is there when the call returns */
    return b->back[N - 1];
}

static void host_memory(void)
{
    struct bench b = bench();
    OK(b.d->cuMemsetD8Async(b.x, 0, BYTES, b.one));
    OK(b.d->cuMemcpyHtoDAsync(b.x, b.host, BYTES, b.one));
    b.host[N - 1] = 2.0f; /* too early: the copy has still to read it */
    CHECK(last_of(&b, b.x, b.one) == 2.0f);
    float pageable[N] = {[N - 1] = 3.0f};
    OK(b.d->cuMemcpyHtoDAsync(b.x, pageable, BYTES, b.one));
    pageable[N - 1] = 4.0f; /* not too early */
    CHECK(last_of(&b, b.x, b.one) == 3.0f);
    OK(b.d->cuMemcpyDtoHAsync(b.host, b.x, BYTES, b.one));
    CHECK(b.host[N - 1] == 2.0f, "a result is there before anybody waited for it");
    OK(b.d->cuStreamSynchronize(b.two));
    CHECK(b.host[N - 1] == 2.0f, "another stream was waited for");
    OK(b.d->cuStreamSynchronize(b.one));
    CHECK(b.host[N - 1] == 3.0f);
}

static void waits_between_streams(void)
{
    struct bench b = bench();
    OK(b.d->cuMemsetD8Async(b.x, 0, BYTES, b.one));
    OK(b.d->cuMemsetD8Async(b.y, 0, BYTES, b.one));
    OK(b.d->cuStreamSynchronize(b.one));
    OK(b.d->cuMemcpyHtoDAsync(b.x, b.host, BYTES, b.one));
    OK(b.d->cuEventRecord(b.event, b.two)); /* on the wrong stream */
    OK(b.wait(b.two, b.event, 0));
    OK(b.d->cuMemcpyDtoDAsync(b.y, b.x, BYTES, b.two));
    CHECK(last_of(&b, b.y, b.two) == 0.0f);
    OK(b.d->cuEventRecord(b.event, b.one));
    OK(b.wait(b.two, b.event, 0));
    OK(b.d->cuMemcpyDtoDAsync(b.y, b.x, BYTES, b.two));
    CHECK(last_of(&b, b.y, b.two) == 1.0f);
}

static void events(void)
{
    struct bench b = bench();
    float ms = -1;
    CHECK(b.d->cuEventElapsedTime(&ms, b.event, b.event) == CUDA_ERROR_INVALID_HANDLE, "it was never recorded");
    OK(b.d->cuEventSynchronize(b.event)); /* the same: nothing to wait for */
    OK(b.d->cuMemcpyDtoHAsync(b.host, b.x, BYTES, b.one));
    OK(b.d->cuEventRecord(b.event, b.one));
    CHECK(b.d->cuEventElapsedTime(&ms, b.event, b.event) == CUDA_ERROR_NOT_READY);
    int asked = 0;
    while (b.query(b.event) == CUDA_ERROR_NOT_READY)
        asked++;
    CHECK(asked == 2, "%d", asked);
    OK(b.d->cuEventElapsedTime(&ms, b.event, b.event));
    CHECK(ms == 0);
    OK(b.d->cuEventRecord(b.event, b.one));
    OK(b.d->cuEventDestroy(b.event)); /* with its record still queued */
    OK(b.d->cuStreamSynchronize(b.one));
}

static void legacy_stream(void)
{
    struct bench b = bench();
    CUstream blocking;
    OK(b.d->cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(b.d->cuMemsetD8Async(b.x, 0, BYTES, b.one));
    OK(b.d->cuMemsetD8Async(b.y, 0, BYTES, b.one));
    OK(b.d->cuStreamSynchronize(b.one));
    OK(b.d->cuMemcpyHtoDAsync(b.x, b.host, BYTES, blocking));
    OK(b.d->cuMemcpyDtoDAsync(b.y, b.x, BYTES, NULL)); /* waits for streams that block */
    CHECK(last_of(&b, b.y, blocking) == 1.0f);         /* and they for it */
    OK(b.d->cuMemsetD8Async(b.y, 0, BYTES, b.one));
    OK(b.d->cuStreamSynchronize(NULL)); /* not for the others */
    CHECK(last_of(&b, b.y, NULL) == 1.0f);
    OK(b.d->cuStreamSynchronize(b.one));
    CHECK(last_of(&b, b.y, NULL) == 0.0f);
}

static void memory_in_use(void)
{
    struct bench b = bench();
    OK(b.d->cuMemsetD8Async(b.x, 0, BYTES, b.one));
    CHECK(b.d->cuMemFree(b.x) != CUDA_SUCCESS && b.d->cuStreamSynchronize(b.one) != CUDA_SUCCESS);
}

static void *without_context(void *arg)
{
    const struct bench *b = arg;
    CUdeviceptr z;
    CHECK(b->d->cuMemAlloc(&z, BYTES) == CUDA_ERROR_INVALID_CONTEXT);
    return NULL;
}
static void another_thread(void)
{
    struct bench b = bench();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, without_context, &b) == 0 && pthread_join(thread, NULL) == 0);
}

TEST(a_host_that_is_too_early_sees_and_sends_other_bytes)
{
    alone(host_memory, "1");
}

TEST(streams_wait_for_nothing_but_what_they_are_told)
{
    alone(waits_between_streams, "1");
    alone(legacy_stream, "1");
}

TEST(events_are_what_was_recorded)
{
    alone(events, "1");
}

TEST(what_is_in_use_cannot_be_given_back_and_contexts_belong_to_threads)
{
    alone(memory_in_use, "1");
    alone(another_thread, "1");
}

/* ---- the backend ---- */

static struct rp_driver lame;
static CUresult skip_stream(CUstream stream)
{
    (void)stream;
    return CUDA_SUCCESS;
}
static CUresult skip_event(CUevent event)
{
    (void)event;
    return CUDA_SUCCESS;
}
static CUresult skip_record(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return CUDA_SUCCESS;
}

/* Floats up, doubled on the GPU, and down again; how many came back wrong. */
static size_t there_and_back(struct rp_dev *dev)
{
    struct rp_err err = {0};
    const struct rp_backend *b = dev->backend;
    float *x = b->block(dev, RP_CLASS_SCRATCH, LARGE * sizeof(float), &err), *host = malloc(LARGE * sizeof *host);
    size_t wrong = 0;
    for (size_t i = 0; i < LARGE; i++)
        host[i] = (float)i;
    CHECK(x && b->upload(dev, x, host, LARGE * sizeof *host, &err) == 0, "%s", err.msg);
    memset(host, 0, LARGE * sizeof *host); /* upload() has promised not to need it any more */
    dev->op->add(dev, x, x, x, LARGE);
    CHECK(b->download(dev, host, x, LARGE * sizeof *host, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < LARGE; i++)
        wrong += host[i] != 2.0f * (float)i;
    free(host);
    return wrong;
}

/* Each wait of the backend, left out, is noticed. */
static void left_out(CUresult (*stream)(CUstream), CUresult (*event)(CUevent), CUresult (*record)(CUevent, CUstream),
                     int wants)
{
    struct rp_dev *dev = gpu_here(NULL);
    struct rp_cuda *c = rp_cuda_of(dev);
    lame = *c->d;
    lame.cuStreamSynchronize = stream ? stream : lame.cuStreamSynchronize;
    lame.cuEventSynchronize = event ? event : lame.cuEventSynchronize;
    lame.cuEventRecord = record ? record : lame.cuEventRecord;
    c->d = &lame;
    size_t wrong = there_and_back(dev);
    CHECK((wrong != 0) == wants, "%zu wrong", wrong);
}
static void all_waits(void)
{
    left_out(NULL, NULL, NULL, 0);
}
static void no_wait_for_streams(void)
{
    left_out(skip_stream, NULL, NULL, 1);
}
static void no_wait_for_events(void)
{
    left_out(NULL, skip_event, NULL, 1);
}
static void no_records(void)
{
    left_out(NULL, NULL, skip_record, 1);
}

TEST(copies_wait_as_often_as_they_must)
{
    for (const char *how = "012"; *how; how++)
        alone(all_waits, (char[]){*how, 0});
    alone(no_wait_for_streams, "1");
    alone(no_wait_for_events, "1");
    alone(no_records, "1");
}

/* Launches are collected: whatever else is queued comes after them. */
static void order_of_calls(void)
{
    enum { SIDE = 64, ALL = SIDE * SIDE };
    static float ones[ALL], twos[ALL], back[ALL], nan[ALL];
    struct rp_err err = {0};
    int64_t at = -1;
    struct rp_dev *dev = gpu_here(NULL);
    const struct rp_backend *b = dev->backend;
    float *x = b->block(dev, RP_CLASS_SCRATCH, sizeof ones, &err),
          *y = b->block(dev, RP_CLASS_SCRATCH, sizeof ones, &err);
    float *z = b->block(dev, RP_CLASS_SCRATCH, sizeof ones, &err);
    for (int i = 0; i < ALL; i++) {
        ones[i] = nan[i] = 1.0f;
        twos[i] = 2.0f;
    }
    nan[5] = __builtin_nanf("");
    CHECK(b->upload(dev, x, ones, sizeof ones, &err) == 0 && b->upload(dev, z, nan, sizeof nan, &err) == 0, "%s",
          err.msg);
    dev->op->add(dev, y, x, x, ALL);
    CHECK(b->upload(dev, x, twos, sizeof twos, &err) == 0 && b->download(dev, back, y, sizeof back, &err) == 0, "%s",
          err.msg);
    CHECK(back[0] == 2.0f, "an upload overtook a launch: %g", (double)back[0]);
    dev->op->add(dev, y, x, x, ALL);
    b->copy(dev, x, z, sizeof ones);
    CHECK(b->download(dev, back, y, sizeof back, &err) == 0 && back[0] == 4.0f, "a copy overtook a launch: %g",
          (double)back[0]);
    /* zeros through the workspace, which the search for NaN takes next */
    rp_cuda_of(dev)->gemm_forced.mode = 1 + RP_GEMM_PARALLEL;
    dev->op->fill(dev, x, 0.0f, ALL);
    dev->op->gemm(dev, &(struct rp_gemm){.m = SIDE, .n = SIDE, .k = SIDE, .a = x, .lda = SIDE, .b = y, .ldb = SIDE,
                                         .c = y, .ldc = SIDE, .segment = 16});
    dev->op->find_nonfinite(dev, &at, z, ALL);
    CHECK(at == 5, "%lld", (long long)at);
    CHECK(rp_cuda_of(dev)->gemm_done.mode == 1 + RP_GEMM_PARALLEL);
    dev->backend->close(dev);
}

TEST(what_is_queued_comes_after_what_was_launched)
{
    alone(order_of_calls, "1");
    alone(order_of_calls, "2");
}

/* As selftest does it on a GPU: launches become graphs, memory is page-locked, and the host looks after a wait. */
static void operations(void)
{
    static const struct rp_op_shape shapes[] = {
        {.rows = 3, .width = 240, .batch = 2, .seq = 33, .heads = 2, .head_dim = 64, .depth = 77, .segment = 16,
         .dropout = 0.1f, .variant = 3, .conv = {2, 9, 7, 8, 9, 7, 8, 3, 3, 1, 1, 1}},
        {.rows = 67, .width = 77, .batch = 1, .seq = 130, .heads = 1, .head_dim = 24, .depth = 40, .in_place = 1,
         .variant = 6, .conv = {1, 66, 65, 4, 66, 65, 4, 3, 3, 1, 1, 1}},
    };
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    const struct rp_op_memory memory = {dev->backend->shared, dev->backend->free_shared, dev->backend->sync};
    for (int op = 0; op < RP_OP_COUNT; op++)
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
            CHECK(rp_ops_compare(&memory, dev->op, dev, (enum rp_op)op, &shapes[i], &err) == 0, "%s, shape %zu: %s",
                  rp_op_info[op].name, i, err.msg);
    dev->backend->close(dev);
}

TEST(operations_have_their_bits_whenever_they_are_done)
{
    alone(operations, "1");
    alone(operations, "2");
}

static void no_cache(void)
{
    setenv("SHIM_L2", "0", 1);
    operations();
}

TEST(a_gpu_that_says_it_has_no_cache)
{
    alone(no_cache, "1");
}

/* ---- a second queue ---- */

enum { BUCKETS = 5 };

struct queues {
    struct rp_dev *dev, *side;
    float *x, *y;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ready, failed;
    struct rp_err err;
};

/* Adds up buckets in a thread, as soon as the other queue has been told to fill them. */
static void *add_buckets(void *arg)
{
    struct queues *q = arg;
    q->failed = q->side->backend->bind_thread(q->side, &q->err) < 0;
    for (int i = 0; i < BUCKETS && !q->failed; i++) {
        pthread_mutex_lock(&q->lock);
        while (q->ready <= i)
            pthread_cond_wait(&q->changed, &q->lock);
        pthread_mutex_unlock(&q->lock);
        q->side->op->add(q->side, q->y + i * N, q->x + i * N, q->x + i * N, N);
    }
    if (!q->failed)
        q->failed = q->side->backend->sync(q->side, &q->err) < 0;
    return NULL;
}

static struct queues two_queues(void)
{
    struct queues q = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .dev = gpu_here(NULL)};
    const struct rp_backend *b = q.dev->backend;
    q.x = b->block(q.dev, RP_CLASS_SCRATCH, 2 * BUCKETS * BYTES, &q.err);
    q.y = q.x + BUCKETS * N;
    q.side = b->second_queue(q.dev, &q.err);
    CHECK(q.x && q.side, "%s", q.err.msg);
    return q;
}

static void second_queue(void)
{
    static float back[BUCKETS * N];
    struct rp_err err = {0};
    struct queues q = two_queues();
    const struct rp_backend *b = q.dev->backend;
    pthread_t thread;
    int wrong = 0;
    CHECK(pthread_create(&thread, NULL, add_buckets, &q) == 0);
    for (int i = 0; i < BUCKETS; i++) {
        for (int k = 0; k < 9; k++) /* enough launches for a graph */
            q.dev->op->fill(q.dev, q.x + i * N, (float)(i + k), N);
        CHECK(b->wait_for(q.side, q.dev, &err) == 0, "%s", err.msg);
        pthread_mutex_lock(&q.lock);
        q.ready = i + 1;
        pthread_cond_broadcast(&q.changed);
        pthread_mutex_unlock(&q.lock);
    }
    pthread_join(thread, NULL);
    CHECK(!q.failed, "%s", q.err.msg);
    CHECK(b->download(q.dev, back, q.y, sizeof back, &err) == 0, "%s", err.msg);
    for (int i = 0; i < BUCKETS * N; i++)
        wrong += back[i] != (float)(2 * (i / N + 8)); /* NOLINT(bugprone-integer-division) */
    CHECK(!wrong, "%d of %d values were added before they were there", wrong, BUCKETS * N);
    b->close(q.side);
    b->close(q.dev);
}

TEST(a_second_queue_waits_for_the_first)
{
    for (int i = 0; i < 3; i++)
        alone(second_queue, (const char *const[]){"0", "1", "2"}[i]);
}

/* The second stream, its event, its thread's context, the record and the wait fail, one after the other. */
static void failing_queue(void)
{
    struct rp_err err = {0};
    struct rp_dev *dev = gpu_here(NULL);
    const struct rp_backend *b = dev->backend;
    static const char *const create[] = {"cuStreamCreate:2", "cuEventCreate:5"};
    static const char *const later[] = {"cuEventRecord:1", "cuStreamWaitEvent:1"};
    for (int i = 0; i < 2; i++) {
        setenv("SHIM_FAIL", create[i], 1);
        CHECK(!b->second_queue(dev, &err) && err.code == RP_UNAVAILABLE, "%s: %s", create[i], err.msg);
    }
    unsetenv("SHIM_FAIL");
    struct rp_dev *side = b->second_queue(dev, &err);
    for (int i = 0; i < 2; i++) {
        setenv("SHIM_FAIL", later[i], 1);
        CHECK(b->wait_for(side, dev, &err) < 0 && err.code == RP_UNAVAILABLE, "%s: %s", later[i], err.msg);
    }
    setenv("SHIM_FAIL", "cuCtxSetCurrent:2", 1);
    CHECK(b->bind_thread(side, &err) < 0 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    unsetenv("SHIM_FAIL");
    CHECK(b->sync(dev, &err) == 0, "%s", err.msg);
    b->close(side);
    b->close(dev);
}

TEST(a_second_queue_that_fails)
{
    alone(failing_queue, "0");
}
