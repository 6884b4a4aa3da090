/* What a worker and its parent tell each other while a job is done. */
#include "worker/loop.h"

#include "base/clock.h"
#include "base/json.h"

#include <poll.h>
#include <unistd.h>

#define ALIVE_EVERY_NS 200000000u

void rp_loop_send(struct rp_loop *l, enum rp_frame type, json_t *body)
{
    struct rp_err err;
    if (rp_frame_write(l->fd, type, body, &err) < 0)
        l->stop = 1;
    json_decref(body);
}

/* Sets l->stop if the parent has sent STOP or closed the socket. Never blocks. */
static void read_parent(struct rp_loop *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    while (!l->stop && poll(&p, 1, 0) > 0) {
        char bytes[4096];
        struct rp_err err;
        enum rp_frame type;
        json_t *body;
        ssize_t n = read(l->fd, bytes, sizeof bytes);
        if (n <= 0) {
            l->stop = 1;
            return;
        }
        rp_buf_add(&l->in, bytes, (size_t)n);
        int got = rp_frame_decode(&l->in, &type, &body, &err);
        if (got < 0 || (got > 0 && type == RP_FRAME_STOP))
            l->stop = 1;
        json_decref(body);
    }
}

int rp_loop_alive(void *arg)
{
    struct rp_loop *l = arg;
    uint64_t now = rp_now_ns();
    if (now - l->alive_ns < ALIVE_EVERY_NS)
        return l->stop;
    l->alive_ns = now;
    read_parent(l);
    if (!l->stop)
        rp_loop_send(l, RP_FRAME_ALIVE, l->waiting < 0 ? json_object() : json_pack("{s:i}", "waiting", l->waiting));
    return l->stop;
}

int rp_loop_waiting(void *arg, int rank)
{
    struct rp_loop *l = arg;
    l->waiting = rank;
    int stop = rp_loop_alive(l);
    l->waiting = -1;
    return stop;
}

void rp_loop_leave_phase(struct rp_loop *l, const char *phase, uint64_t start_ns)
{
    double before = json_number_value(json_object_get(l->phases, phase));
    json_object_set_new(l->phases, phase, json_real(before + (double)(rp_now_ns() - start_ns) * 1e-9));
}
