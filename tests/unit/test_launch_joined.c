/* A job of processes after joining: messages between its processes, and how it ends.
 * timeout: 400 */
#include "tests/unit/join_fixture.h"

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
    job->silence_ms = 60000; /* who reads a document says nothing, for seconds on a busy machine */
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
    CHECK(job->out[i].rc != 99 && job->out[i].ended_ns > since &&
              (double)(job->out[i].ended_ns - since) < seconds * 1e9,
          "process %d: %.1f s, %s", i, (double)(job->out[i].ended_ns - since) / 1e9, job->out[i].msg);
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
            CHECK(job->out[i].rc < 0 && job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, "rank 2 ("),
                  "process %d: %s", i, job->out[i].msg),
                within(job, i, since, 5);
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
        CHECK(job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, "rank 0 ("), "process %d: %s", i,
              job->out[i].msg),
            within(job, i, since, 5);
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
            CHECK(job->out[i].code == RP_UNAVAILABLE && strstr(job->out[i].msg, name), "process %d: %s", i,
                  job->out[i].msg),
                within(job, i, since, 15);
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
            CHECK(job->out[i].code == (r ? RP_INTERRUPTED : RP_MISMATCH) &&
                      strcmp(job->out[i].msg, job->out[0].msg) == 0,
                  "process %d: %d %s", i, job->out[i].code, job->out[i].msg);
        CHECK(job->out[0].ended_ns + 3000000000u > job->out[3].ended_ns &&
                  job->out[3].ended_ns + 3000000000u > job->out[0].ended_ns,
              "not within seconds");
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
