/* The parent's side: start a worker, hear from it, say what became of it. */
#include "base/clock.h"
#include "base/json.h"
#include "worker/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The same file again. By its name where the name still leads to it (a debugger or valgrind then follows), else by /proc/self/exe,
 * which outlives a replaced or deleted file, else by the path the kernel was given. Returns only if all fail. */
static void exec_self(char **argv)
{
    extern char **environ;
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n > 0) {
        path[n] = 0; /* a replaced file reads "NAME (deleted)", which does not exist */
        execve(path, argv, environ);
    }
    execve("/proc/self/exe", argv, environ);
    const char *given = (const char *)getauxval(AT_EXECFN);
    if (given)
        execve(given, argv, environ);
}

/* Never returns. Without /proc and without a path to ourselves (an empty chroot, say) the forked child goes on as the worker: it has
 * no threads. */
static void become_worker(int sock, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole group: the parent decides */
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout belongs to the result */
    if (sock == RP_WORKER_FD)
        fcntl(sock, F_SETFD, 0);
    else
        dup2(sock, RP_WORKER_FD);
    char *argv[] = {(char *)"repro", (char *)RP_WORKER_ARG, NULL};
    exec_self(argv);
    _exit(rp_worker_main(RP_WORKER_FD));
}

int rp_worker_start(struct rp_worker *w, const json_t *job, struct rp_err *err)
{
    int sv[2];
    *w = (struct rp_worker){.pid = -1, .fd = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return rp_fail(err, RP_IO, "cannot make a socket pair for the worker: %s", strerror(errno));
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) {
        int e = errno;
        close(sv[0]);
        close(sv[1]);
        return rp_fail(err, RP_UNAVAILABLE, "cannot start the worker process: %s (process or memory limit?)", strerror(e));
    }
    if (pid == 0)
        become_worker(sv[1], parent);
    close(sv[1]);
    w->pid = pid;
    w->fd = sv[0];
    w->last_heard_ns = rp_now_ns();
    if (rp_frame_write(w->fd, RP_FRAME_JOB, job, err) < 0) {
        rp_worker_kill(w);
        return rp_wrap(err, "starting the worker");
    }
    return 0;
}

/* The socket closed: find out why in the words of a user. Always -1. */
static int obituary(struct rp_worker *w, struct rp_err *err)
{
    int status = 0;
    pid_t gone = 0;
    for (int i = 0; i < 200 && (gone = waitpid(w->pid, &status, WNOHANG)) == 0; i++)
        poll(NULL, 0, 10); /* it closed the socket: two seconds to be gone by itself */
    if (gone == 0) {
        kill(w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(w->fd);
    w->fd = -1;
    w->pid = -1;
    if (gone == 0)
        return rp_fail(err, RP_BUG, "the worker closed its connection and did not end; it was killed");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return rp_fail(err, RP_UNAVAILABLE,
                       "the worker was killed (signal 9): by somebody, or by the kernel because memory ran out; see --plan and the "
                       "memory limit of this machine or container");
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGHUP || WTERMSIG(status) == SIGXCPU))
        return rp_fail(err, RP_UNAVAILABLE, "the worker was stopped from outside (signal %d, %s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    if (WIFSIGNALED(status))
        return rp_fail(err, RP_BUG, "the worker crashed (signal %d, %s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WIFEXITED(status) && WEXITSTATUS(status) == rp_exit_status(RP_UNAVAILABLE))
        return rp_fail(err, RP_UNAVAILABLE, "the worker ran out of memory or of another resource and left (status %d)",
                       WEXITSTATUS(status));
    return rp_fail(err, RP_BUG, "the worker left early (status %d) without saying why", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int rp_worker_next(struct rp_worker *w, int timeout_ms, enum rp_frame *type, json_t **body, struct rp_err *err)
{
    uint64_t until = rp_now_ns() + (uint64_t)timeout_ms * 1000000u;
    *body = NULL;
    if (w->fd < 0)
        return rp_fail(err, RP_BUG, "the worker is gone");
    for (;;) {
        int got = rp_frame_decode(&w->in, type, body, err);
        if (got < 0)
            rp_worker_kill(w);
        if (got != 0)
            return got;
        uint64_t now = rp_now_ns();
        if (now >= until)
            return 0;
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        int n = poll(&p, 1, (int)((until - now + 999999) / 1000000));
        if (n < 0 && errno == EINTR)
            return 0;
        if (n <= 0)
            continue;
        char bytes[65536];
        ssize_t r = read(w->fd, bytes, sizeof bytes);
        if (r < 0 && (errno == EINTR || errno == EAGAIN))
            return 0;
        if (r <= 0)
            return obituary(w, err);
        w->last_heard_ns = rp_now_ns();
        rp_buf_add(&w->in, bytes, (size_t)r);
    }
}

void rp_worker_stop(struct rp_worker *w)
{
    struct rp_err ignored; /* a worker that is gone needs no asking */
    RP_JSON *body = json_object();
    if (w->fd >= 0 && rp_frame_write(w->fd, RP_FRAME_STOP, body, &ignored) < 0)
        return;
}

void rp_worker_kill(struct rp_worker *w)
{
    if (w->pid > 0) {
        kill(w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (w->fd >= 0)
        close(w->fd);
    rp_buf_fini(&w->in);
    *w = (struct rp_worker){.pid = -1, .fd = -1};
}
