/* Processes that become one job: forked ones that join for real over loopback, and everything that can go wrong.
 * timeout: 400 */
/* Longer than 600 lines: the cases share one world of processes and its faults. */
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

static struct job *job_new(int n)
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
static uint64_t skewed_wall(void)
{
    return rp_wall_ns() + (uint64_t)own_skew;
}

static void describe_member(struct outcome *o, const struct rp_join *join, const struct job *job)
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
        o->clocks_good &= c->error_ns > 0 && llabs(c->monotonic_ns) <= c->error_ns && llabs(wall) <= c->error_ns + 1000000;
    }
}

static void run_member(struct job *job, int i)
{
    struct outcome *o = &job->out[i];
    struct rp_join join = {0};
    struct rp_err err = {0};
    struct rp_job_key key = {.source = "test"};
    const struct rp_launch launch = {.kind = job->nodes ? RP_LAUNCH_NODES : RP_LAUNCH_RANKS, .rank = job->index[i], .size = job->size[i], .row = -1};
    struct rp_rendezvous where = {.job = "test-1", .source = "test", .hosts = 1,
                                    .port = i && job->wire ? job->wire : job->port, .loopback = 1, .pmi = {.fd = -1}};
    RP_JSON *facts = job->fact[i] ? json_pack("{s:s}", "recipe", job->fact[i]) : NULL, *about = json_pack("{s:i}", "number", i);
    memset(key.bytes, job->wrong_key[i] ? 9 : 7, sizeof key.bytes);
    snprintf(where.host[0].host, sizeof where.host[0].host, "127.0.0.1");
    own_skew = job->skew_ns[i];
    usleep((useconds_t)job->late_ms[i] * 1000);
    const struct rp_join_opts opts = {.launch = &launch, .where = &where, .key = &key, .ranks = job->ranks[i], .facts = facts, .about = about,
                                      .deadline = rp_now_ns() + (uint64_t)job->timeout_s * 1000000000u, .silence_ms = job->silence_ms,
                                      .wall = skewed_wall, .machine = job->machine[i]};
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
static pid_t start_member(struct job *job, int i)
{
    const pid_t pid = fork();
    if (pid == 0) {
        run_member(job, i);
        _exit(0);
    }
    return pid;
}

static void job_start(struct job *job)
{
    fflush(stdout);
    for (int i = 0; i < job->n; i++) {
        job->out[i].rc = 99; /* if it does not say anything */
        job->pid[i] = start_member(job, i);
    }
}

static void job_wait(struct job *job)
{
    for (int i = 0; i < job->n; i++)
        if (job->pid[i] > 0) {
            while (waitpid(job->pid[i], NULL, 0) < 0 && errno == EINTR)
                ;
            job->pid[i] = 0;
        }
}

static void wait_joined(struct job *job, int n)
{
    for (uint64_t until = rp_now_ns() + 60000000000ull; atomic_load(&job->joined) < n && rp_now_ns() < until;)
        usleep(2000);
    CHECK(atomic_load(&job->joined) >= n, "only %d of %d joined", atomic_load(&job->joined), n);
}

static void job_run(struct job *job)
{
    job_start(job);
    job_wait(job);
}

static void job_free(struct job *job)
{
    munmap(job, sizeof *job);
}

static void all_good(const struct job *job)
{
    for (int i = 0; i < job->n; i++)
        CHECK(job->out[i].rc == 0, "process %d: %d %s", i, job->out[i].rc, job->out[i].msg);
}

/* Everybody but `except` ended with this code and the same message as process `like`. */
static void all_refused(const struct job *job, int code, int like, int except)
{
    for (int i = 0; i < job->n; i++)
        if (i != except)
            CHECK(job->out[i].rc < 0 && job->out[i].code == code && strcmp(job->out[i].msg, job->out[like].msg) == 0, "process %d: %d %d %s", i, job->out[i].rc,
                  job->out[i].code, job->out[i].msg);
    SAID(job->out[like].msg);
}

/* ---- joining ---- */

TEST(four)
{
    struct job *job = job_new(4);
    job->machine[0] = job->machine[2] = "host A";
    job->machine[1] = job->machine[3] = "host B";
    job->skew_ns[2] = 7200ll * 1000000000; /* clocks that differ by hours */
    job->skew_ns[3] = -86400ll * 1000000000;
    for (int i = 0; i < 4; i++)
        job->fact[i] = "0011";
    job_run(job);
    all_good(job);
    for (int i = 0; i < 4; i++) {
        const struct outcome *o = &job->out[i];
        CHECK(o->world == 4 && o->first_rank == i && o->local_rank == i / 2 && o->host == i % 2 && o->place == i % 2 && o->clocks_good,
              "process %d: rank %d of %d, local %d, host %d, clocks %d", i, o->first_rank, o->world, o->local_rank, o->host, o->clocks_good);
    }
    job_free(job);
}

/* Processes that bring the ranks of a node; two of them on one host. */
TEST(nodes)
{
    static const int ranks[] = {2, 8, 4};
    struct job *job = job_new(3);
    job->nodes = 1;
    for (int i = 0; i < 3; i++)
        job->ranks[i] = ranks[i];
    job->machine[0] = job->machine[2] = "host A";
    job->machine[1] = "host B";
    job_run(job);
    all_good(job);
    CHECK(job->out[0].world == 14 && job->out[1].first_rank == 2 && job->out[2].first_rank == 10, "ranks");
    CHECK(job->out[0].local_rank == 0 && job->out[1].local_rank == 0 && job->out[2].local_rank == 2, "local ranks");
    job_free(job);
}

TEST(alone)
{
    struct job *job = job_new(1);
    job_run(job);
    all_good(job);
    CHECK(job->out[0].world == 1, "a world of one");
    job_free(job);
}

TEST(thirty_two)
{
    struct job *job = job_new(32);
    job_run(job);
    all_good(job);
    CHECK(job->out[31].world == 32 && job->out[31].first_rank == 31 && job->out[31].local_rank == 31, "rank %d of %d", job->out[31].first_rank, job->out[31].world);
    job_free(job);
}

/* The leader comes last, a member late. */
TEST(slow)
{
    struct job *job = job_new(3);
    job->late_ms[0] = 1500;
    job->late_ms[2] = 2500;
    job_run(job);
    all_good(job);
    job_free(job);
}

/* ---- refusals: everybody gets the same message ---- */

TEST(missing)
{
    struct job *job = job_new(3);
    job->timeout_s = 2;
    job->late_ms[2] = 20000;
    job_start(job);
    while (waitpid(job->pid[0], NULL, 0) < 0 && errno == EINTR)
        ;
    kill(job->pid[2], SIGKILL);
    job->pid[0] = 0;
    job_wait(job);
    all_refused(job, RP_UNAVAILABLE, 0, 2);
    job_free(job);
}

TEST(facts)
{
    struct job *job = job_new(3);
    job->fact[0] = job->fact[1] = "aaaa";
    job->fact[2] = "bbbb";
    job_run(job);
    all_refused(job, RP_MISMATCH, 0, -1);
    job->fact[2] = NULL; /* one has nothing to say of it */
    job_run(job);
    all_refused(job, RP_MISMATCH, 0, -1);
    job_free(job);
}

TEST(numbers)
{
    struct job *job = job_new(4);
    job->index[3] = 2; /* twice */
    job->late_ms[3] = 300; /* the message names the later one first */
    job_run(job);
    for (int i = 0; i < 4; i++)
        CHECK(job->out[i].rc < 0 && job->out[i].code == RP_USAGE && strcmp(job->out[i].msg, job->out[0].msg) == 0, "process %d: %s", i, job->out[i].msg);
    job->late_ms[3] = 0;
    job->index[3] = 3;
    job->size[3] = 5; /* of another start */
    job_run(job);
    all_refused(job, RP_USAGE, 0, -1);
    job->size[3] = 8;
    job->index[3] = 6;
    job_run(job);
    all_refused(job, RP_USAGE, 0, -1);
    job_free(job);
}

TEST(no_key)
{
    const struct rp_launch launch = {.kind = RP_LAUNCH_RANKS, .rank = 1, .size = 2, .row = -1, .key_remedy = "REMEDY"};
    struct rp_rendezvous where = {.job = "x", .pmi = {.fd = -1}};
    struct rp_job_key key = {.source = NULL};
    struct rp_join j;
    struct rp_err err = {0};
    REFUSED(rp_join_open(&j, &(struct rp_join_opts){.launch = &launch, .where = &where, .key = &key, .ranks = 1}, &err) < 0 && err.code == RP_USAGE, err.msg);
}

TEST(wrong_key)
{
    struct job *job = job_new(3);
    job->timeout_s = 12;
    job->wrong_key[2] = 1;
    job_run(job);
    CHECK(job->out[0].rc < 0 && job->out[0].code == RP_UNAVAILABLE && job->out[1].rc < 0, "%s", job->out[0].msg);
    CHECK(job->out[2].rc < 0 && job->out[2].code == RP_SIGNATURE, "%d %s", job->out[2].code, job->out[2].msg);
    CHECK(job->out[0].ended_ns > job->out[2].ended_ns, "a process with another key waits as long as all others");
    job_free(job);
}

TEST(port_taken)
{
    struct rp_err err = {0};
    struct job *job = job_new(1);
    int fd = rp_address_listen(&job->port, 1, &err);
    job->size[0] = 2;
    job_run(job);
    CHECK(job->out[0].rc < 0 && job->out[0].code == RP_UNAVAILABLE && strstr(job->out[0].msg, "--port"), "%s", job->out[0].msg);
    close(fd);
    job_free(job);
}

/* ---- strangers, while the leader waits ---- */

static int connect_to(int port)
{
    struct rp_err err;
    for (int i = 0; i < 2000; i++) {
        int fd = rp_address_connect("127.0.0.1", port, rp_now_ns() + 1000000000u, &err);
        if (fd >= 0)
            return fd;
        usleep(2000);
    }
    abort();
}

TEST(strangers)
{
    enum { MANY = 100 };
    struct job *job = job_new(3);
    int fd[MANY];
    job->late_ms[2] = 1500;
    job_start(job);
    fd[0] = connect_to(job->port); /* garbage */
    for (int i = 0; i < 100; i++)
        if (send(fd[0], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL) < 0)
            break;
    for (int i = 1; i < MANY; i++) /* half open: they say nothing */
        fd[i] = connect_to(job->port);
    job_wait(job);
    all_good(job);
    CHECK(job->out[0].strangers >= 1, "%d strangers", (int)job->out[0].strangers);
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    job_free(job);
}

/* A wire between a member and the leader that keeps what the member sent, and says it once more. */
TEST(replay)
{
    struct rp_err err = {0};
    struct job *job = job_new(2);
    int listener = rp_address_listen(&job->wire, 1, &err), bytes = 0;
    static char kept[1 << 20];
    job->size[0] = 3; /* the leader waits for one more, which never comes */
    job->size[1] = 3;
    job->timeout_s = 4;
    job_start(job);
    int up, member = -1;
    while (member < 0) {
        member = rp_address_accept(listener);
        usleep(1000);
    }
    up = connect_to(job->port);
    for (uint64_t until = rp_now_ns() + 1000000000u; rp_now_ns() < until;) {
        char buffer[4096];
        ssize_t n = recv(member, kept + bytes, sizeof kept - (size_t)bytes, MSG_DONTWAIT);
        if (n > 0 && send(up, kept + bytes, (size_t)n, MSG_NOSIGNAL) == n)
            bytes += (int)n;
        n = recv(up, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n > 0 && send(member, buffer, (size_t)n, MSG_NOSIGNAL) != n)
            break;
        usleep(1000);
    }
    CHECK(bytes > 500, "the wire carried %d bytes", bytes);
    int again = connect_to(job->port);
    CHECK(send(again, kept, (size_t)bytes, MSG_NOSIGNAL) == bytes, "replayed");
    close(member);
    job_wait(job);
    /* The replayed JOIN was refused: else processes 0, 1 and 1 would have been complete, and two of one number. */
    CHECK(job->out[0].rc < 0 && job->out[0].code == RP_UNAVAILABLE && strstr(job->out[0].msg, ": 2; "), "%s", job->out[0].msg);
    close(up);
    close(again);
    close(listener);
    job_free(job);
}

/* Waits until one of both has bytes, and hands them on, except those from `deaf`. 0: somebody closed, or `deaf` spoke. */
static int carry(int a, int b, int deaf)
{
    struct pollfd p[2] = {{.fd = a, .events = POLLIN}, {.fd = b, .events = POLLIN}};
    char buffer[4096];
    if (poll(p, 2, 20000) < 1)
        return 0;
    const int from = p[0].revents ? a : b;
    const ssize_t n = recv(from, buffer, sizeof buffer, 0);
    return n > 0 && from != deaf && send(from == a ? b : a, buffer, (size_t)n, MSG_NOSIGNAL) == n;
}

/* The leader drops a member that has proved itself, before it knows: as if it were the oldest of many strangers. The member comes back. */
TEST(dropped_too_early)
{
    struct rp_err err = {0};
    struct job *job = job_new(2);
    int listener = rp_address_listen(&job->wire, 1, &err);
    job_start(job);
    for (int turn = 0; turn < 2; turn++) {
        int member = -1, said = 0;
        for (int i = 0; member < 0 && i < 5000; i++) {
            member = rp_address_accept(listener);
            usleep(1000);
        }
        CHECK(member >= 0, "it does not connect again");
        if (member < 0)
            break;
        const int up = connect_to(job->port);
        while (carry(up, member, turn == 0 && said ? member : -1)) /* the leader gets what the member says first, and no more */
            said = 1;
        close(member);
        close(up);
    }
    job_wait(job);
    all_good(job);
    close(listener);
    job_free(job);
}

/* ---- after joining ---- */

static char *big_text(size_t n)
{
    char *text = rp_alloc(n + 1);
    for (size_t i = 0; i < n; i++)
        text[i] = (char)('a' + i % 26);
    return text;
}

/* Members send documents of 3 MiB at once, the leader answers with a sum. */
static int exchange_documents(struct rp_join *j, struct job *job, struct rp_err *err)
{
    enum { SIZE = 3 << 20 };
    int heard = 0, member;
    (void)job;
    RP_FREE char *text = big_text(SIZE);
    if (j->own) {
        RP_JSON *body = json_pack("{s:s, s:i}", "text", text, "from", j->own);
        if (rp_join_send(j, 0, RP_FRAME_CAPTURE, body, err) < 0)
            return -1;
    }
    while (heard < (j->own ? 1 : j->members - 1)) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        int got = rp_join_next(j, 1000, &member, &type, &body, err);
        if (got < 0)
            return -1;
        if (got && type == RP_FRAME_CAPTURE) {
            const char *sent = rp_json_text_at(body, "text");
            if (strcmp(sent, text) != 0 || rp_json_integer_at(body, "from") != member)
                return rp_fail(err, RP_MISMATCH, "changed on its way");
            heard++;
        } else if (got && type == RP_FRAME_DONE) {
            heard++;
        }
    }
    RP_JSON *done = json_object();
    if (!j->own && (rp_join_broadcast(j, RP_FRAME_DONE, done, err) < 0 || rp_join_clocks(j, 3, 5000, err) < 0))
        return -1;
    return rp_join_close(j, 20000, err);
}

TEST(documents)
{
    struct job *job = job_new(5);
    job->run = exchange_documents;
    job_run(job);
    all_good(job);
    job_free(job);
}

/* Until somebody is gone. */
static int wait_for_end(struct rp_join *j, struct job *job, struct rp_err *err)
{
    (void)job;
    for (;;) {
        int member;
        enum rp_frame type;
        RP_JSON *body = NULL;
        if (rp_join_next(j, 500, &member, &type, &body, err) < 0)
            return -1;
    }
}

static void within(const struct job *job, int i, uint64_t since, double seconds)
{
    CHECK(job->out[i].rc != 99 && job->out[i].ended_ns > since && (double)(job->out[i].ended_ns - since) < seconds * 1e9, "process %d: %.1f s, %s", i,
          (double)(job->out[i].ended_ns - since) / 1e9, job->out[i].msg);
}

TEST(member_killed)
{
    struct job *job = job_new(4);
    job->run = wait_for_end;
    job_start(job);
    wait_joined(job, 4);
    const uint64_t since = rp_now_ns();
    kill(job->pid[2], SIGKILL);
    job_wait(job);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            CHECK(job->out[i].rc < 0 && job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, "rank 2 ("), "process %d: %s", i, job->out[i].msg), within(job, i, since, 5);
    CHECK(strcmp(job->out[0].msg, job->out[3].msg) == 0, "%s", job->out[3].msg);
    job_free(job);
}

TEST(leader_killed)
{
    struct job *job = job_new(4);
    job->run = wait_for_end;
    job_start(job);
    wait_joined(job, 4);
    const uint64_t since = rp_now_ns();
    kill(job->pid[0], SIGKILL);
    job_wait(job);
    for (int i = 1; i < 4; i++)
        CHECK(job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, "rank 0 ("), "process %d: %s", i, job->out[i].msg), within(job, i, since, 5);
    job_free(job);
}

/* A member, and then a leader, that stand still: nobody closes their connections. */
TEST(silence)
{
    for (int who = 0; who < 2; who++) {
        struct job *job = job_new(3);
        char name[20];
        snprintf(name, sizeof name, "rank %d (", who);
        job->run = wait_for_end;
        job->silence_ms = 4000;
        job_start(job);
        wait_joined(job, 3);
        const uint64_t since = rp_now_ns();
        kill(job->pid[who], SIGSTOP);
        for (int i = 0; i < 3; i++) {
            if (i == who)
                continue;
            waitpid(job->pid[i], NULL, 0);
            job->pid[i] = 0;
            CHECK(job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, name), "process %d: %s", i, job->out[i].msg), within(job, i, since, 15);
        }
        kill(job->pid[who], SIGKILL);
        job_wait(job);
        job_free(job);
    }
}

/* Everybody stands still for longer than the limit, as under a debugger of the whole job: that is nobody's silence. */
TEST(all_stopped)
{
    struct job *job = job_new(3);
    job->run = wait_for_end;
    job->silence_ms = 2500;
    job_start(job);
    wait_joined(job, 3);
    for (int i = 0; i < 3; i++)
        kill(job->pid[i], SIGSTOP);
    usleep(4000000);
    for (int i = 0; i < 3; i++)
        kill(job->pid[i], SIGCONT);
    usleep(2000000);
    for (int i = 0; i < 3; i++)
        CHECK(job->out[i].rc == 0 && waitpid(job->pid[i], NULL, WNOHANG) == 0, "process %d: %s", i, job->out[i].msg);
    for (int i = 0; i < 3; i++)
        kill(job->pid[i], SIGKILL);
    job_wait(job);
    job_free(job);
}

/* One of them ends the job for a reason. */
static int abort_by_two(struct rp_join *j, struct job *job, struct rp_err *err)
{
    if (j->own != 2)
        return wait_for_end(j, job, err);
    rp_fail(err, RP_MISMATCH, "the loss of rank 2 is not a number");
    rp_join_abort(j, err);
    return -1;
}
static int abort_by_leader(struct rp_join *j, struct job *job, struct rp_err *err)
{
    if (j->own != 0)
        return wait_for_end(j, job, err);
    rp_fail(err, RP_INTERRUPTED, "stopped by hand");
    rp_join_abort(j, err);
    return -1;
}

TEST(aborts)
{
    int (*const runs[])(struct rp_join *, struct job *, struct rp_err *) = {abort_by_two, abort_by_leader};
    for (int r = 0; r < 2; r++) {
        struct job *job = job_new(4);
        job->run = runs[r];
        job_run(job);
        for (int i = 0; i < 4; i++)
            CHECK(job->out[i].code == (r ? RP_INTERRUPTED : RP_MISMATCH) && strcmp(job->out[i].msg, job->out[0].msg) == 0, "process %d: %d %s", i, job->out[i].code,
                  job->out[i].msg);
        CHECK(job->out[0].ended_ns + 3000000000u > job->out[3].ended_ns && job->out[3].ended_ns + 3000000000u > job->out[0].ended_ns, "not within seconds");
        job_free(job);
    }
}

/* A member that is done says farewell; the others go on, and its end is no failure. */
static int leave_early(struct rp_join *j, struct job *job, struct rp_err *err)
{
    (void)job;
    if (j->own == 1)
        return rp_join_close(j, 20000, err);
    for (int i = 0, byes = 0; i < 6 && byes < 1; i++) {
        int member, got;
        enum rp_frame type;
        RP_JSON *body = NULL;
        got = rp_join_next(j, 500, &member, &type, &body, err);
        if (got < 0)
            return -1;
        if (got && (member != (j->own ? 0 : 1) || type != RP_FRAME_BYE))
            return rp_fail(err, RP_MISMATCH, "another message");
        byes += got;
    }
    return rp_join_close(j, 20000, err);
}

TEST(farewell)
{
    struct job *job = job_new(3);
    job->run = leave_early;
    job_run(job);
    all_good(job);
    job_free(job);
}

/* The leader's descriptors wake a caller that polls them with others. */
static int poll_first(struct rp_join *j, struct job *job, struct rp_err *err)
{
    struct pollfd p[8];
    int member, got = 0;
    enum rp_frame type;
    (void)job;
    if (j->own) {
        RP_JSON *body = json_object();
        usleep(300000);
        return rp_join_send(j, 0, RP_FRAME_STEP, body, err) < 0 ? -1 : rp_join_close(j, 20000, err);
    }
    for (int steps = 0; steps < 2;) {
        RP_JSON *body = NULL;
        poll(p, (nfds_t)rp_join_poll(j, p, 8), 900);
        got = rp_join_next(j, 0, &member, &type, &body, err);
        if (got < 0)
            return -1;
        steps += got && type == RP_FRAME_STEP;
    }
    return rp_join_close(j, 20000, err);
}

TEST(polled)
{
    struct job *job = job_new(3);
    job->run = poll_first;
    job_run(job);
    all_good(job);
    job_free(job);
}
