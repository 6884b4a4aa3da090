/* The parent's side: start a process, read its frames, report how it ended. */
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "process/process.h"
#include "process/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 250,           /* how often a silent process is checked */
    PROGRAM_FRAME = 4 << 20, /* bytes that a program with third-party libraries may send at once */
    TOOL_END_MS = 60000,     /* until a tool has reported what it saw of a program that ended */
    TOOL_KILLED_MS = 2000,   /* the same of a program that has to end at once */
};

/* The same file again. By its name where the name still leads to it (a debugger or valgrind then follows), else by
 * /proc/self/exe, which outlives a replaced or deleted file, else by the path the kernel was given. Returns only if all
 * fail. */
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

/* Takes the key of the job out of the environment that a program is given: it may not have been read here yet
 * (launch/job_key.h). */
static void forget_job_key(void)
{
    extern char **environ;
    char **to = environ;
    for (char **from = environ; from && *from; from++)
        if (strncmp(*from, "REPRO_JOB_KEY=", 14) != 0)
            *to++ = *from;
    if (to)
        *to = NULL;
}

/* The first steps of every child: it dies with its parent, signals have their defaults, the socket has its number. */
static void begin_child(int sock, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    forget_job_key();
    signal(SIGINT, SIG_IGN); /* Ctrl-C reaches the whole group: the parent decides */
    rp_interrupt_release();
    signal(SIGPIPE, SIG_DFL);
    dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout belongs to the result */
    if (sock == RP_PROCESS_FD)
        fcntl(sock, F_SETFD, 0);
    else
        dup2(sock, RP_PROCESS_FD);
}

/* Without /proc and without a path to this executable (in an empty chroot) the forked child continues; it has no
 * threads. */
static void become_self(int sock, pid_t parent, const char *arg, int (*otherwise)(int fd))
{
    begin_child(sock, parent);
    char *argv[] = {(char *)"repro", (char *)arg, NULL};
    exec_self(argv);
    _exit(otherwise(RP_PROCESS_FD));
}

/* Fork with a socket between both. In the child: 0, and *sock is its end. In the parent: the child's pid, and w is
 * filled. */
static pid_t fork_child(struct rp_process *w, int *sock, const char *what, struct rp_err *err)
{
    int sv[2];
    *w = (struct rp_process){.pid = -1, .fd = -1, .errors = -1, .name = what};
    *sock = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return rp_fail(err, RP_IO, "cannot make a socket pair for %s: %s", what, strerror(errno));
    pid_t pid = fork();
    if (pid < 0) {
        int e = errno;
        close(sv[0]);
        close(sv[1]);
        return rp_fail(err, RP_UNAVAILABLE, "cannot start the process of %s: %s (process or memory limit?)", what,
                       strerror(e));
    }
    *sock = sv[1];
    if (pid == 0)
        return 0;
    close(sv[1]);
    w->pid = pid;
    w->fd = sv[0];
    w->last_heard_ns = rp_now_ns();
    return pid;
}

int rp_process_start_self(struct rp_process *w, const char *arg, int (*otherwise)(int fd), const char *what,
                          struct rp_err *err)
{
    int sock;
    pid_t parent = getpid(), pid = fork_child(w, &sock, what, err);
    if (pid == 0)
        become_self(sock, parent, arg, otherwise);
    return pid < 0 ? -1 : 0;
}

/* Does not leak inherited descriptors into the GPU worker, which loads third-party libraries. Old kernel headers lack
 * these numbers. */
static void close_inherited_descriptors(void)
{
    enum { SYS_CLOSE_RANGE = 436, ON_EXEC = 4, MANY = 4096 };
    if (syscall(SYS_CLOSE_RANGE, RP_PROCESS_FD + 1, ~0u, ON_EXEC) < 0) /* before Linux 5.11 */
        for (int fd = RP_PROCESS_FD + 1; fd < MANY; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* A descriptor; or, if it is -1, the name of a file, argv[0], which is a tool that starts the program in its turn. */
struct image {
    int fd;
    char **argv;
};

/* In the child; image->fd and report are at least 10, so that dup2() does not overwrite them. Never returns. */
static void become_program(int sock, pid_t parent, const struct image *image, int errors, int report)
{
    extern char **environ;
    if (image->fd >= 0)
        dup2(errors, STDERR_FILENO);
    else
        setpgid(0, 0); /* a tool and what it starts end together */
    begin_child(sock, parent);
    close_inherited_descriptors();
    if (image->fd >= 0)
        fexecve(image->fd, image->argv, environ); /* by its number: needs no /proc since Linux 3.19 */
    else
        execvp(image->argv[0], image->argv);
    int e = errno;
    if (write(report, &e, sizeof e) < 0)
        _exit(126);
    _exit(127);
}

/* Two ends, closed on exec, neither of them below 10. */
static int high_pipe(int end[2], int flags)
{
    int low[2];
    if (pipe2(low, O_CLOEXEC | flags) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        end[i] = rp_fd_high(low[i]);
        int e = errno;
        close(low[i]);
        errno = e;
    }
    if (end[0] >= 0 && end[1] >= 0)
        return 0;
    int e = errno;
    for (int i = 0; i < 2; i++)
        if (end[i] >= 0)
            close(end[i]);
    errno = e;
    return -1;
}

/* 0: it runs. Else the errno of exec, or -1 and *err. */
static int start_image(struct rp_process *w, const struct image *image, const char *what, struct rp_err *err)
{
    int report[2], errors[2], sock, failure = 0;
    if (high_pipe(report, 0) < 0)
        return rp_fail(err, RP_IO, "cannot make a pipe for %s: %s", what, strerror(errno));
    /* output that does not fit into the pipe is lost: the program must not wait */
    if (high_pipe(errors, O_NONBLOCK) < 0) {
        rp_fail(err, RP_IO, "cannot make a pipe for %s: %s", what, strerror(errno));
        close(report[0]);
        close(report[1]);
        return -1;
    }
    pid_t parent = getpid(), pid = fork_child(w, &sock, what, err);
    if (pid == 0)
        become_program(sock, parent, image, errors[1], report[1]);
    close(report[1]);
    close(errors[1]);
    w->errors = errors[0];
    if (pid < 0)
        failure = -1;
    else if (read(report[0], &failure, sizeof failure) != sizeof failure)
        failure = 0;
    close(report[0]);
    if (failure)
        rp_process_kill(w);
    w->has_tool = !failure && image->fd < 0;
    return failure;
}

#if defined __aarch64__
#define LOADER "/lib/ld-linux-aarch64.so.1"
#else
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#endif

int rp_process_start_program(struct rp_process *w, const struct rp_buf *program, const char *name, const char *what,
                             struct rp_err *err)
{
    RP_BUF why = {0};
    *w = (struct rp_process){.pid = -1, .fd = -1, .errors = -1, .name = what};
    for (int way = 0; way < RP_PROGRAM_WAYS; way++) {
        RP_FD fd = rp_program_open(program, name, way, NULL, err);
        const struct image image = {.fd = fd, .argv = (char *[]){(char *)name, NULL}};
        int e = fd < 0 ? -1 : start_image(w, &image, what, err);
        if (e == 0)
            return 0;
        if (e < 0 && err->sys == EMFILE) /* a file would need as many */
            return rp_wrap(err, "%s cannot start", what);
        if (e == ENOENT) { /* of a file that is there: its interpreter is not */
            errno = e;
            return rp_fail(err, RP_UNAVAILABLE,
                           "%s cannot start: this system has no glibc loader (" LOADER "); take an image with glibc",
                           what);
        }
        if (e > 0)
            rp_fail(err, RP_UNAVAILABLE, "%s: %s",
                    way == RP_PROGRAM_MEMORY ? "from memory" : "from a file in the cache", strerror(e));
        rp_buf_printf(&why, "%s%s", why.size ? "; " : "", err->msg);
    }
    errno = 0; /* ENOENT is kept for the loader */
    return rp_fail(err, RP_UNAVAILABLE,
                   "%s cannot start: %s; set XDG_CACHE_HOME to a directory whose files may be executed", what,
                   why.data);
}

const char *rp_process_tool(void)
{
    const char *tool = getenv("RP_GPU_TOOL");
    return tool && *tool ? tool : NULL;
}

int rp_process_start_watched(struct rp_process *w, const struct rp_buf *program, const char *name, const char *what,
                             struct rp_err *err)
{
    const char *tool = rp_process_tool();
    if (!tool)
        return rp_process_start_program(w, program, name, what, err);
    RP_FREE char *words = rp_strdup(tool), *path = NULL;
    RP_FREE char **argv = rp_alloc((strlen(tool) / 2 + 3) * sizeof *argv);
    char *rest = NULL;
    size_t n = 0;
    *w = (struct rp_process){.pid = -1, .fd = -1, .errors = -1, .name = what};
    for (char *word = strtok_r(words, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest))
        argv[n++] = word;
    RP_FD fd = rp_program_open(program, name, RP_PROGRAM_FILE, &path, err);
    if (fd < 0)
        return rp_wrap(err, "%s cannot start under the program of RP_GPU_TOOL", what);
    argv[n] = path;
    argv[n + 1] = NULL;
    const struct image image = {.fd = -1, .argv = argv};
    const int e = start_image(w, &image, what, err);
    return e > 0 ? rp_fail(err, RP_UNAVAILABLE, "%s cannot start: %s (RP_GPU_TOOL): %s", what, argv[0], strerror(e))
                 : e;
}

/* Reaps it, waiting at most wait_ms; 0: it is still running, and *status means nothing: waitpid() leaves 0 in it, as
 * after an exit with 0. */
static int reap_child(pid_t pid, int *status, int wait_ms)
{
    pid_t gone;
    uint64_t until = rp_now_ns() + (uint64_t)wait_ms * 1000000u;
    while ((gone = waitpid(pid, status, WNOHANG)) == 0 && rp_now_ns() < until)
        poll(NULL, 0, 10);
    return gone != 0;
}

/* A killed process that a driver blocks may never end, so the wait for a program is bounded. A program under a tool
 * ends when it finds the socket closed, so that the tool can report. */
static void kill_and_reap(const struct rp_process *w)
{
    int status;
    if (w->has_tool && w->fd >= 0 && shutdown(w->fd, SHUT_RDWR) == 0 && reap_child(w->pid, &status, TOOL_KILLED_MS))
        return;
    kill(w->has_tool ? -w->pid : w->pid, SIGKILL);
    if (w->errors >= 0)
        reap_child(w->pid, &status, 1000);
    else
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
}

/* The last line a program wrote to its stderr, after a colon; "" when there is none. */
static const char *last_words(const struct rp_process *w, char out[256])
{
    char all[4096], *line;
    ssize_t n = 0, got;
    *out = 0;
    while (w->errors >= 0 && (size_t)n < sizeof all - 1 &&
           (got = read(w->errors, all + n, sizeof all - 1 - (size_t)n)) > 0)
        n += got;
    while (n > 0 && all[n - 1] == '\n')
        n--;
    all[n] = 0;
    if (n > 0) {
        line = strrchr(all, '\n');
        snprintf(out, 256, ": %.253s", line ? line + 1 : all);
    }
    return out;
}

static void close_all(struct rp_process *w)
{
    if (w->has_tool && w->pid > 0)
        kill(-w->pid, SIGKILL); /* what a tool leaves behind */
    rp_closep(&w->fd);
    rp_closep(&w->errors);
    w->pid = -1;
}

/* After the socket was closed: describes for a user why. Always -1. */
static int report_end(struct rp_process *w, struct rp_err *err)
{
    int status = 0, gone = reap_child(w->pid, &status, 2000); /* it closed the socket: it has two seconds to end */
    char said[256];
    const char *name = w->name,
               *hint = w->errors < 0 ? "; see --plan and the memory limit of this machine or container" : "";
    w->ended = gone ? status : 0;
    if (!gone)
        kill_and_reap(w);
    last_words(w, said);
    close_all(w);
    if (!gone)
        return rp_fail(err, RP_BUG, "%s closed its connection and did not end; it was killed%s", name, said);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return rp_fail(err, RP_UNAVAILABLE,
                       "%s was killed (signal 9): by a user, or by the kernel because memory ran out%s%s", name, hint,
                       said);
    if (WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGHUP || WTERMSIG(status) == SIGXCPU))
        return rp_fail(err, RP_UNAVAILABLE, "%s was stopped from outside (signal %d, %s)%s", name, WTERMSIG(status),
                       strsignal(WTERMSIG(status)), said);
    if (WIFSIGNALED(status))
        return rp_fail(err, RP_BUG, "%s crashed (signal %d, %s)%s", name, WTERMSIG(status), strsignal(WTERMSIG(status)),
                       said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == rp_exit_status(RP_UNAVAILABLE))
        return rp_fail(err, RP_UNAVAILABLE, "%s ran out of memory or of another resource and left (status %d)%s", name,
                       WEXITSTATUS(status), said);
    return rp_fail(err, RP_BUG, "%s left early (status %d)%s", name, WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                   *said ? said : " without a message");
}

/* Has the process ended, although a child of it keeps its end of the socket open? */
static int is_gone(const struct rp_process *w)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == w->pid;
}

int rp_process_next(struct rp_process *w, int timeout_ms, enum rp_frame *type, json_t **body, struct rp_err *err)
{
    uint64_t until = rp_now_ns() + (uint64_t)timeout_ms * 1000000u;
    *body = NULL;
    if (w->fd < 0)
        return rp_fail(err, RP_BUG, "%s is gone", w->name);
    for (;;) {
        int got = rp_frame_decode(&w->in, type, body, err);
        if (got < 0)
            rp_process_kill(w);
        if (got > 0 && *type != RP_FRAME_TELEMETRY)
            w->last_heard_ns = rp_now_ns();
        if (got != 0)
            return got;
        uint64_t now = rp_now_ns();
        if (now >= until)
            return 0;
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        int left = (int)((until - now + 999999) / 1000000), n = poll(&p, 1, left < LOOK_MS ? left : LOOK_MS);
        if (n < 0 && errno == EINTR)
            return 0;
        if (n == 0 && is_gone(w) && poll(&p, 1, 0) == 0)
            return report_end(w, err);
        if (n <= 0)
            continue;
        char bytes[65536];
        ssize_t r = read(w->fd, bytes, sizeof bytes);
        if (r < 0 && (errno == EINTR || errno == EAGAIN))
            return 0;
        if (r <= 0)
            return report_end(w, err);
        rp_buf_add(&w->in, bytes, (size_t)r);
        if (w->errors >= 0 && w->in.size > PROGRAM_FRAME) {
            rp_process_kill(w);
            return rp_fail(err, RP_MALFORMED, "%s sent more than %d MiB at once", w->name, PROGRAM_FRAME >> 20);
        }
    }
}

uint64_t rp_process_memory(const struct rp_process *w)
{
    unsigned long long size, resident, shared; /* pages */
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)w->pid);
    FILE *f = w->pid > 0 ? fopen(path, "re") : NULL;
    if (!f)
        return 0;
    int known = fscanf(f, "%llu %llu %llu", &size, &resident, &shared) == 3 && resident > shared;
    fclose(f);
    return known ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

void rp_process_stop(struct rp_process *w)
{
    struct rp_err ignored; /* a worker that is gone has stopped */
    RP_JSON *body = json_object();
    if (w->fd >= 0 && rp_frame_write(w->fd, RP_FRAME_STOP, body, &ignored) < 0)
        return;
}

int rp_process_limit_ms(int otherwise)
{
    const char *text = getenv("RP_GPU_TIMEOUT_MS");
    int64_t n;
    return text && rp_parse_count(text, &n) == 0 && n > 0 && n <= RP_PROCESS_LIMIT_MAX_MS ? (int)n : otherwise;
}

int rp_process_end(struct rp_process *w, int wait_ms, struct rp_err *err)
{
    int status = 0, failed = 0;
    char said[256];
    if (w->pid > 0 && w->errors >= 0) {
        const char *name = w->name;
        if (w->has_tool && wait_ms < TOOL_END_MS)
            wait_ms = TOOL_END_MS;
        shutdown(w->fd, SHUT_WR);
        const int gone = reap_child(w->pid, &status, wait_ms);
        last_words(w, said);
        if (gone)
            w->pid = -1;
        if (!gone)
            failed = rp_fail(err, RP_UNAVAILABLE, "%s did not end within %g s of its last answer; it was killed%s",
                             name, wait_ms * 1e-3, said);
        else if (WIFSIGNALED(status))
            failed = rp_fail(err, RP_BUG, "%s crashed at its end (signal %d, %s)%s", name, WTERMSIG(status),
                             strsignal(WTERMSIG(status)), said);
        else if (WEXITSTATUS(status) != 0)
            failed = rp_fail(err, RP_BUG, "%s ended with status %d after its last answer%s", name, WEXITSTATUS(status),
                             said);
    }
    rp_process_kill(w);
    return failed;
}

void rp_process_kill(struct rp_process *w)
{
    if (w->pid > 0)
        kill_and_reap(w);
    close_all(w);
    rp_buf_fini(&w->in);
}
