/* repro-gpu: answers the queries of the parent until it closes the socket, or trains when it receives a job. */
#include "backend/cuda/needs.h"
#include "backend/selftest.h"
#include "backend/speed.h"
#include "base/json.h"
#include "gpu/gpu.h"
#include "gpu/nccl_comm.h"
#include "worker/job.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct rp_backend *const backends[] = {&rp_backend_cuda, NULL};

static int order_is_own; /* CUDA_DEVICE_ORDER was not set */

static const struct {
    const char *name;
    json_t *(*values)(void);
} probes[] = {
#define X(name) {#name, rp_gpu_##name},
    RP_GPU_PROBES(X)
#undef X
};

static int answer_question(const json_t *question, struct rp_err *err)
{
    const char *name;
    if (rp_json_str(question, "probe", &name, "question", err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (strcmp(name, probes[i].name) == 0) {
            RP_JSON *body = json_pack("{s:s, s:o}", "probe", name, "values", probes[i].values());
            return rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, body, err);
        }
    return rp_fail(err, RP_MALFORMED, "this worker has no probe '%s'", name);
}

/* Can a device train, and what does it have? */
static int answer_device(const json_t *question, struct rp_err *err)
{
    struct rp_device_opts o = {0};
    if (rp_json_str(question, "device", &o.device, "question", err) < 0)
        return -1;
    struct rp_err failed;
    const struct rp_backend *b = &rp_backend_cuda;
    const char *why = b->unavailable(&o);
    const struct rp_cuda_gpu *gpu = why ? NULL : rp_cuda_gpu_of(&o, &failed);
    json_t *values = gpu ? json_pack("{s:s, s:i, s:I, s:I}", "name", gpu->name, "capability", gpu->capability,
                                     "shared_bytes", (json_int_t)gpu->shared_max, "memory", (json_int_t)b->memory(&o))
                         : json_pack("{s:s}", "unavailable", why ? why : failed.msg);
    RP_JSON *body = json_pack("{s:s, s:o}", "probe", "device", "values", values);
    return rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, body, err);
}

/* ---- comparing and measuring: the parent hears of each case before it and of each row after it ---- */

static void send_case(void *arg, const char *op, int number, const char *shape)
{
    struct rp_err ignored; /* of a parent that is gone: this process dies with it */
    RP_JSON *body = json_pack("{s:s, s:i, s:s}", "op", op, "case", number, "shape", shape);
    (void)arg;
    (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_PHASE, body, &ignored);
}

static void send_row(void *arg, const json_t *row)
{
    struct rp_err ignored;
    (void)arg;
    (void)!rp_frame_write(RP_PROCESS_FD, RP_FRAME_STEP, row, &ignored);
}

static json_t *kernels_of(const struct rp_dev *dev)
{
    json_t *kernels = json_object();
    const char *name;
    uint64_t launches;
    for (int i = 0; (name = dev->backend->kernel(dev, i, &launches)); i++)
        json_object_set_new(kernels, name, json_integer((json_int_t)launches));
    return kernels;
}

static int run_report(struct rp_dev *dev, enum rp_frame type, const struct rp_device_opts *o,
                      const struct rp_report_question *question, struct rp_err *err)
{
    static const struct rp_case_watch progress = {.begin = send_case, .done = send_row};
    RP_JSON *rows = NULL;
    if (type == RP_FRAME_SPEED)
        return rp_ops_speed(dev, o, question->seconds, NULL, &progress, &rows, err);
    rows = json_array();
    return rp_ops_selftest_device(dev, dev->backend->name, &progress, rows, err);
}

/* A GPU in every arithmetic of mixed precision that it has, one after the other; the launches are added up. */
static int compare_mixed(const struct rp_device_opts *device, json_t *values, struct rp_err *err)
{
    static const struct rp_case_watch progress = {.begin = send_case, .done = send_row};
    const struct rp_cuda_gpu *gpu = rp_cuda_gpu_of(device, err);
    struct rp_err first = {0};
    json_t *launched = json_object();
    json_object_set_new(values, "kernels", launched);
    for (int n = 0; gpu && n < RP_NUMERICS_COUNT; n++) {
        struct rp_device_opts o = *device;
        RP_JSON *rows = json_array();
        o.numerics = (enum rp_numerics)n;
        if (!rp_is_mixed(o.numerics) || !rp_cuda_has_arithmetic(gpu->capability, o.numerics))
            continue;
        struct rp_dev *dev = rp_ops_selftest_open(&rp_backend_cuda, &o, err);
        if (!dev)
            return -1;
        if (rp_ops_selftest_device(dev, dev->backend->name, &progress, rows, err) < 0 && first.code == RP_OK)
            first = *err;
        RP_JSON *kernels = kernels_of(dev);
        const char *name;
        json_t *launches;
        json_object_foreach(kernels, name, launches)
            json_object_set_new(launched, name,
                                json_integer(json_integer_value(launches) + rp_json_integer_at(launched, name)));
        dev->backend->close(dev);
        if (first.code != RP_OK && first.code != RP_MISMATCH)
            break; /* the device failed */
    }
    *err = gpu ? first : *err;
    return gpu && first.code == RP_OK ? 0 : -1;
}

/* bf16 if the GPU has it, else fp16; without a GPU strict fp32, and *err. */
static enum rp_numerics mixed_of(const struct rp_device_opts *device, struct rp_err *err)
{
    const struct rp_cuda_gpu *gpu = rp_cuda_gpu_of(device, err);
    enum rp_numerics last = 0;
    for (int n = 0; gpu && n < RP_NUMERICS_COUNT; n++)
        if (rp_is_mixed((enum rp_numerics)n) && rp_cuda_has_arithmetic(gpu->capability, (enum rp_numerics)n))
            last = (enum rp_numerics)n;
    return last;
}

static int answer_mixed(const struct rp_device_opts *device, struct rp_err *err)
{
    struct rp_err failed = {0};
    const char *why = rp_backend_cuda.unavailable(device);
    json_t *values = json_object();
    if (why)
        json_object_set_new(values, "unavailable", json_string(why));
    else if (compare_mixed(device, values, &failed) < 0)
        json_object_set_new(values, "failed", json_pack("{s:i, s:s}", "code", (int)failed.code, "message", failed.msg));
    RP_JSON *body = json_pack("{s:s, s:o}", "probe", "selftest", "values", values);
    return rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, body, err);
}

/* The answer comes before the device is closed: what was compared is not lost if that hangs. */
static int answer_report(enum rp_frame type, const json_t *question, struct rp_err *err)
{
    struct rp_err failed = {0};
    RP_READ(report_question, asked, question);
    struct rp_device_opts o = {.device = asked.device};
    const struct rp_backend *b = &rp_backend_cuda;
    if (type == RP_FRAME_SELFTEST && asked.tensor_core)
        return answer_mixed(&o, err);
    if (asked.tensor_core)
        o.numerics = mixed_of(&o, &failed);
    struct rp_dev *dev =
        type == RP_FRAME_SELFTEST ? rp_ops_selftest_open(b, &o, &failed) : rp_ops_speed_open(b, &o, &failed);
    json_t *values = json_object();
    if (!dev)
        json_object_set_new(values, "unavailable", json_string(failed.msg));
    else if (run_report(dev, type, &o, &asked, &failed) < 0)
        json_object_set_new(values, "failed", json_pack("{s:i, s:s}", "code", (int)failed.code, "message", failed.msg));
    if (dev)
        json_object_set_new(values, "kernels", kernels_of(dev));
    RP_JSON *body =
        json_pack("{s:s, s:o}", "probe", type == RP_FRAME_SELFTEST ? "selftest" : "speed", "values", values);
    const int sent = rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, body, err);
    if (dev)
        b->close(dev);
    return sent;
}

/* {}: the GPUs that a command can use. Its CUDA numbers them by its own environment. */
static int answer_sample(const json_t *question, struct rp_err *err)
{
    RP_READ(sample_frame, asked, question);
    if (asked.devices) {
        rp_gpu_watch(asked.devices, asked.devices_n, RP_PROCESS_FD);
        return 0;
    }
    if (order_is_own)
        unsetenv("CUDA_DEVICE_ORDER");
    RP_JSON *body = json_pack("{s:s, s:{s:o}}", "probe", "sample", "values", "devices", rp_gpu_visible());
    return rp_frame_write(RP_PROCESS_FD, RP_FRAME_VALUES, body, err);
}

/* A job is the last thing that a worker does: *status is then what the process ends with. */
static int handle_frame(enum rp_frame type, const json_t *body, struct rp_buf *in, int *status, struct rp_err *err)
{
    if (type == RP_FRAME_PROBE)
        return answer_question(body, err);
    if (type == RP_FRAME_SELFTEST || type == RP_FRAME_SPEED)
        return answer_report(type, body, err);
    if (type == RP_FRAME_JOB)
        *status = rp_worker_train(RP_PROCESS_FD, in, body, backends, &rp_gpu_sampler, &rp_nccl_ranks);
    if (type == RP_FRAME_SAMPLE)
        return answer_sample(body, err);
    return type == RP_FRAME_DEVICE ? answer_device(body, err) : 0;
}

/* 1 while the parent may ask again, 0 when it is gone or the worker has trained. */
static int handle_next(struct rp_buf *in, int *status, struct rp_err *err)
{
    char bytes[4096];
    enum rp_frame type;
    RP_JSON *body = NULL;
    int got = rp_frame_decode(in, &type, &body, err);
    if (got > 0)
        return handle_frame(type, body, in, status, err) < 0 ? -1 : type != RP_FRAME_JOB;
    if (got < 0)
        return -1;
    ssize_t n = read(RP_PROCESS_FD, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR)
        return 1;
    if (n > 0)
        rp_buf_add(in, bytes, (size_t)n);
    return n > 0;
}

/* Before the driver looks at its environment. Kernels are loaded when a device is opened, not at their first launch,
 * where they would be timed and memory may be short; devices have the numbers of nvidia-smi. Variables that are already
 * set stay. */
static void set_driver_up(void)
{
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    order_is_own = !getenv("CUDA_DEVICE_ORDER");
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
}

static void *end_with_parent(void *unused)
{
    struct pollfd p = {.fd = RP_PROCESS_FD}; /* no events: only that the other side is closed */
    (void)unused;
    while (poll(&p, 1, -1) <= 0)
        ;
    _exit(rp_exit_status(RP_INTERRUPTED));
}

/* Under a tool this process is not a child of repro, so the kernel does not end it when repro ends. */
static void watch_parent(void)
{
    pthread_t thread;
    if (getenv("RP_GPU_TOOL") && pthread_create(&thread, NULL, end_with_parent, NULL) == 0)
        pthread_detach(thread);
}

int main(void)
{
    struct rp_err err = {0};
    RP_BUF in = {0};
    int status = 0;
    set_driver_up();
    watch_parent();
    RP_JSON *hello = json_pack("{s:i}", "pid", (int)getpid());
    int more = rp_frame_write(RP_PROCESS_FD, RP_FRAME_HELLO, hello, &err) == 0 ? 1 : -1;
    while (more > 0)
        more = handle_next(&in, &status, &err);
    if (more < 0)
        fprintf(stderr, "repro-gpu: %s\n", err.msg);
    return more < 0 ? rp_exit_status(err.code) : status;
}
