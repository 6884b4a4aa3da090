#include "launch/pmi.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/text.h"
#include "launch/address.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int pmi_fail(struct rp_pmi *p, const char *why, struct rp_err *err)
{
    rp_closep(&p->fd);
    return rp_fail(err, RP_UNAVAILABLE, "the process manager of mpiexec (PMI): %s", why);
}

/* One line without its end, into `out`. */
static int read_line(struct rp_pmi *p, char out[1024], uint64_t deadline, struct rp_err *err)
{
    for (;;) {
        char *end = memchr(p->line, '\n', p->used);
        if (end) {
            size_t n = (size_t)(end - p->line);
            memcpy(out, p->line, n);
            out[n] = 0;
            p->used -= n + 1;
            memmove(p->line, end + 1, p->used);
            return 0;
        }
        if (p->used == sizeof p->line)
            return pmi_fail(p, "its answer is too long", err);
        uint64_t now = rp_now_ns();
        struct pollfd w = {.fd = p->fd, .events = POLLIN};
        if (now >= deadline)
            return pmi_fail(p, "it does not answer, or not all processes of the job have started", err);
        if (poll(&w, 1, (int)((deadline - now) / 1000000 % 1000) + 1) < 1)
            continue;
        ssize_t n = RP_RETRY(read(p->fd, p->line + p->used, sizeof p->line - p->used));
        if (n <= 0)
            return pmi_fail(p, "it closed the connection", err);
        p->used += (size_t)n;
    }
}

/* The value of "key=" in a line, up to the next blank; NULL if there is none. */
static const char *line_value(const char *line, const char *key, char out[RP_PMI_VALUE])
{
    size_t n = strlen(key);
    for (const char *at = line; at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (strncmp(at, key, n) != 0 || at[n] != '=')
            continue;
        size_t size = strcspn(at + n + 1, " ");
        if (size >= RP_PMI_VALUE)
            return NULL;
        memcpy(out, at + n + 1, size);
        out[size] = 0;
        return out;
    }
    return NULL;
}

/* Sends a command and waits for the answer `expected`. */
static int pmi_ask(struct rp_pmi *p, const char *command, const char *expected, char answer[1024], uint64_t deadline,
                   struct rp_err *err)
{
    char value[RP_PMI_VALUE];
    if (p->fd < 0)
        return pmi_fail(p, "the connection is closed", err);
    if (rp_write_all(p->fd, command, strlen(command)) < 0)
        return pmi_fail(p, strerror(errno), err);
    if (read_line(p, answer, deadline, err) < 0)
        return -1;
    if (!line_value(answer, "cmd", value) || strcmp(value, expected) != 0)
        return pmi_fail(p, "it does not speak version 1 of the protocol", err);
    if (line_value(answer, "rc", value) && strcmp(value, "0") != 0)
        return pmi_fail(p, "it refused a command", err);
    return 0;
}

/* "host:port" of PMI_PORT; the answers to the first command are four lines. */
static int open_port(struct rp_pmi *p, uint64_t deadline, struct rp_err *err)
{
    char command[64], answer[1024], value[RP_PMI_VALUE];
    struct rp_address at;
    int64_t id, rank;
    if (rp_parse_count(getenv("PMI_ID"), &id) < 0 || rp_address_parse(&at, getenv("PMI_PORT"), err) < 0 || !at.port)
        return pmi_fail(p, "PMI_ID or PMI_PORT is not as expected", err);
    p->fd = rp_address_connect(at.host, at.port, deadline, err);
    if (p->fd < 0)
        return rp_wrap(err, "PMI_PORT");
    if (fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) & ~O_NONBLOCK) < 0)
        return pmi_fail(p, strerror(errno), err);
    snprintf(command, sizeof command, "cmd=initack pmiid=%lld\n", (long long)id);
    if (pmi_ask(p, command, "initack", answer, deadline, err) < 0)
        return -1;
    p->size = rank = -1;
    for (int i = 0; i < 3; i++) {
        if (read_line(p, answer, deadline, err) < 0)
            return -1;
        if (line_value(answer, "size", value) && rp_parse_count(value, &p->size) < 0)
            return pmi_fail(p, "it gives no size of the job", err);
        if (line_value(answer, "rank", value) && rp_parse_count(value, &rank) < 0)
            return pmi_fail(p, "it gives no rank", err);
    }
    p->rank = rank;
    return p->size > 0 && rank >= 0 && rank < p->size ? 0 : pmi_fail(p, "it gives no rank or size", err);
}

static int open_inherited(struct rp_pmi *p, struct rp_err *err)
{
    int64_t fd, rank, size;
    const char *number = getenv("PMI_FD"), *own = getenv("PMI_RANK"), *all = getenv("PMI_SIZE");
    if (!number || !own || !all || rp_parse_count(number, &fd) < 0 || fd > 65535 || rp_parse_count(own, &rank) < 0 ||
        rp_parse_count(all, &size) < 0)
        return pmi_fail(p, "PMI_FD, PMI_RANK or PMI_SIZE is not as expected", err);
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
        return pmi_fail(p, "PMI_FD is not open in this process: something between mpiexec and it closed it", err);
    p->fd = (int)fd;
    p->rank = rank;
    p->size = size;
    return 0;
}

int rp_pmi_open(struct rp_pmi *p, uint64_t deadline, struct rp_err *err)
{
    char answer[1024];
    *p = (struct rp_pmi){.fd = -1};
    int by_port = getenv("PMI_PORT") && getenv("PMI_ID");
    if ((by_port ? open_port(p, deadline, err) : open_inherited(p, err)) < 0)
        return -1;
    if (pmi_ask(p, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, deadline, err) < 0 ||
        pmi_ask(p, "cmd=get_my_kvsname\n", "my_kvsname", answer, deadline, err) < 0)
        return -1;
    return line_value(answer, "kvsname", p->space) ? 0 : pmi_fail(p, "it gives no name of the job", err);
}

int rp_pmi_put(struct rp_pmi *p, const char *key, const char *value, uint64_t deadline, struct rp_err *err)
{
    char command[1024], answer[1024];
    snprintf(command, sizeof command, "cmd=put kvsname=%s key=%s value=%s\n", p->space, key, value);
    return pmi_ask(p, command, "put_result", answer, deadline, err);
}

int rp_pmi_barrier(struct rp_pmi *p, uint64_t deadline, struct rp_err *err)
{
    char answer[1024];
    return pmi_ask(p, "cmd=barrier_in\n", "barrier_out", answer, deadline, err);
}

int rp_pmi_get(struct rp_pmi *p, const char *key, char value[RP_PMI_VALUE], uint64_t deadline, struct rp_err *err)
{
    char command[1024], answer[1024];
    snprintf(command, sizeof command, "cmd=get kvsname=%s key=%s\n", p->space, key);
    if (pmi_ask(p, command, "get_result", answer, deadline, err) < 0)
        return -1;
    return line_value(answer, "value", value) ? 0 : pmi_fail(p, "it does not have what rank 0 put", err);
}

void rp_pmi_close(struct rp_pmi *p)
{
    struct rp_err ignored;
    char answer[1024];
    if (p->fd >= 0 && pmi_ask(p, "cmd=finalize\n", "finalize_ack", answer, rp_now_ns() + 2000000000u, &ignored) == 0)
        rp_closep(&p->fd);
    p->fd = -1;
}
