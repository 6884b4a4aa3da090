/* Processes that become one job: forked ones that join for real over loopback, and what keeps them from it.
 * timeout: 400 */
#include "tests/unit/join_fixture.h"

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
        CHECK(o->world == 4 && o->first_rank == i && o->local_rank == i / 2 && o->host == i % 2 && o->place == i % 2 &&
                  o->clocks_good,
              "process %d: rank %d of %d, local %d, host %d, clocks %d", i, o->first_rank, o->world, o->local_rank,
              o->host, o->clocks_good);
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
    CHECK(job->out[31].world == 32 && job->out[31].first_rank == 31 && job->out[31].local_rank == 31, "rank %d of %d",
          job->out[31].first_rank, job->out[31].world);
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
        CHECK(job->out[i].rc < 0 && job->out[i].code == RP_USAGE && strcmp(job->out[i].msg, job->out[0].msg) == 0,
              "process %d: %s", i, job->out[i].msg);
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
    REFUSED(rp_join_open(&j, &(struct rp_join_opts){.launch = &launch, .where = &where, .key = &key, .ranks = 1},
                         &err) < 0 &&
                err.code == RP_USAGE,
            err.msg);
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
    CHECK(job->out[0].rc < 0 && job->out[0].code == RP_UNAVAILABLE && strstr(job->out[0].msg, "--port"), "%s",
          job->out[0].msg);
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
    CHECK(job->out[0].rc < 0 && job->out[0].code == RP_UNAVAILABLE && strstr(job->out[0].msg, ": 2; "), "%s",
          job->out[0].msg);
    close(up);
    close(again);
    close(listener);
    job_free(job);
}

/* Waits until one of both has bytes, and hands them on, except those from `deaf`. 0: somebody closed, or `deaf`
 * spoke. */
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

/* The leader drops a member that has proved itself, before it knows: as if it were the oldest of many strangers. The
 * member comes back. */
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
        /* the leader gets what the member says first, and no more */
        while (carry(up, member, turn == 0 && said ? member : -1))
            said = 1;
        close(member);
        close(up);
    }
    job_wait(job);
    all_good(job);
    close(listener);
    job_free(job);
}
