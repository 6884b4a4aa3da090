/* Processes that become one job: forked ones that meet on this machine, and what each of them got. */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "launch/join.h"
#include "launch/join_link.h"
#include "tests/unit/tap.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_MAX 40

/* What the processes of a test share: plans by index, and what became of each. */
struct outcome {
    int rc, code;
    char msg[512];
    int world, first_rank, local_rank, host, place, clocks_good;
    uint64_t ended_ns, strangers;
};
struct job {
    int n, port, wire, timeout_s, silence_ms; /* wire: the port that members connect to; 0: the leader's */
    int index[JOB_MAX], size[JOB_MAX], ranks[JOB_MAX], wrong_key[JOB_MAX], late_ms[JOB_MAX], nodes;
    const char *machine[JOB_MAX], *fact[JOB_MAX];
    int64_t skew_ns[JOB_MAX];
    /* after joining: 1 and the job has succeeded */
    int (*run)(struct rp_join *j, struct job *job, struct rp_err *err);
    atomic_int joined;
    pid_t pid[JOB_MAX];
    struct outcome out[JOB_MAX];
};

static __attribute__((unused)) struct job *job_new(int n)
{
    struct job *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (j == MAP_FAILED)
        abort();
    j->n = n;
    j->timeout_s = 60;
    int port = 0; /* a free one, which nobody takes within the next moment */
    struct rp_err err;
    int fd = rp_address_listen(&port, 1, &err);
    if (fd < 0)
        abort();
    close(fd);
    j->port = port;
    for (int i = 0; i < n; i++) {
        j->index[i] = i;
        j->size[i] = n;
        j->ranks[i] = 1;
    }
    return j;
}

static int64_t own_skew;
static __attribute__((unused)) uint64_t skewed_wall(void)
{
    return rp_wall_ns() + (uint64_t)own_skew;
}

static __attribute__((unused)) void describe_member(struct outcome *o, const struct rp_join *join,
                                                    const struct job *job)
{
    const struct rp_job_member *m = &join->member[join->own];
    o->world = join->world;
    o->first_rank = m->first_rank;
    o->local_rank = m->local_rank;
    o->host = m->host;
    o->place = m->place;
    o->strangers = join->strangers;
    o->clocks_good = 1;
    for (int i = 1; i < join->members; i++) { /* the monotonic clock is one for all processes of a machine */
        const struct rp_clock_offset *c = &join->member[i].clock;
        const int64_t wall = c->wall_ns - (job->skew_ns[i] - job->skew_ns[0]);
        o->clocks_good &=
            c->error_ns > 0 && llabs(c->monotonic_ns) <= c->error_ns && llabs(wall) <= c->error_ns + 1000000;
    }
}

static __attribute__((unused)) void run_member(struct job *job, int i)
{
    struct outcome *o = &job->out[i];
    struct rp_join join = {0};
    struct rp_err err = {0};
    struct rp_job_key key = {.source = "test"};
    const struct rp_launch launch = {
        .kind = job->nodes ? RP_LAUNCH_NODES : RP_LAUNCH_RANKS, .rank = job->index[i], .size = job->size[i], .row = -1};
    struct rp_rendezvous where = {.job = "test-1", .source = "test", .hosts = 1,
                                  .port = i && job->wire ? job->wire : job->port, .loopback = 1, .pmi = {.fd = -1}};
    RP_JSON *facts = job->fact[i] ? json_pack("{s:s}", "recipe", job->fact[i]) : NULL,
            *about = json_pack("{s:i}", "number", i);
    memset(key.bytes, job->wrong_key[i] ? 9 : 7, sizeof key.bytes);
    snprintf(where.host[0].host, sizeof where.host[0].host, "127.0.0.1");
    own_skew = job->skew_ns[i];
    usleep((useconds_t)job->late_ms[i] * 1000);
    const struct rp_join_opts opts = {.launch = &launch, .where = &where, .key = &key, .ranks = job->ranks[i],
                                      .facts = facts, .about = about,
                                      .deadline = rp_now_ns() + (uint64_t)job->timeout_s * 1000000000u,
                                      .silence_ms = job->silence_ms, .wall = skewed_wall, .machine = job->machine[i]};
    o->rc = rp_join_open(&join, &opts, &err);
    if (o->rc == 0) {
        describe_member(o, &join, job);
        atomic_fetch_add(&job->joined, 1);
        o->rc = job->run ? job->run(&join, job, &err) : rp_join_close(&join, 20000, &err);
    }
    o->ended_ns = rp_now_ns();
    o->code = o->rc ? (int)err.code : 0;
    snprintf(o->msg, sizeof o->msg, "%s", o->rc ? err.msg : "");
    rp_join_fini(&join);
}

/* The child does not write its 0 into what both share. */
static __attribute__((unused)) pid_t start_member(struct job *job, int i)
{
    const pid_t pid = fork();
    if (pid == 0) {
        run_member(job, i);
        _exit(0);
    }
    return pid;
}

static __attribute__((unused)) void job_start(struct job *job)
{
    fflush(stdout);
    for (int i = 0; i < job->n; i++) {
        job->out[i].rc = 99; /* if it does not say anything */
        job->pid[i] = start_member(job, i);
    }
}

static __attribute__((unused)) void job_wait(struct job *job)
{
    for (int i = 0; i < job->n; i++)
        if (job->pid[i] > 0) {
            while (waitpid(job->pid[i], NULL, 0) < 0 && errno == EINTR)
                ;
            job->pid[i] = 0;
        }
}

static __attribute__((unused)) void wait_joined(struct job *job, int n)
{
    for (uint64_t until = rp_now_ns() + 60000000000ull; atomic_load(&job->joined) < n && rp_now_ns() < until;)
        usleep(2000);
    CHECK(atomic_load(&job->joined) >= n, "only %d of %d joined", atomic_load(&job->joined), n);
}

static __attribute__((unused)) void job_run(struct job *job)
{
    job_start(job);
    job_wait(job);
}

static __attribute__((unused)) void job_free(struct job *job)
{
    munmap(job, sizeof *job);
}

static __attribute__((unused)) void all_good(const struct job *job)
{
    for (int i = 0; i < job->n; i++)
        CHECK(job->out[i].rc == 0, "process %d: %d %s", i, job->out[i].rc, job->out[i].msg);
}

/* Everybody but `except` ended with this code and the same message as process `like`. */
/* With HOST for the name of this one, as in "process 2 (vm, 127.0.0.1)". */
static __attribute__((unused)) void said_of_host(const char *text)
{
    struct utsname u;
    RP_BUF out = {0};
    RP_BUG_IF(uname(&u) != 0);
    const size_t n = strlen(u.nodename);
    for (; *text; text++) {
        rp_buf_add(&out, text, 1);
        if (*text == '(' && strncmp(text + 1, u.nodename, n) == 0) {
            rp_buf_puts(&out, "HOST");
            text += n;
        }
    }
    SAID(rp_buf_text(&out));
}

static __attribute__((unused)) void all_refused(const struct job *job, int code, int like, int except)
{
    for (int i = 0; i < job->n; i++)
        if (i != except)
            CHECK(job->out[i].rc < 0 && job->out[i].code == code && strcmp(job->out[i].msg, job->out[like].msg) == 0,
                  "process %d: %d %d %s", i, job->out[i].rc, job->out[i].code, job->out[i].msg);
    said_of_host(job->out[like].msg);
}
