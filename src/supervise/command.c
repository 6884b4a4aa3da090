/* Starts a command, passes its output and our signals on, keeps a copy of the output, and reports how it ended. */
#include "supervise/command.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "bundle/bundle.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 250,  /* how often the end of a silent command is looked for */
    TICK_MS = 200,  /* how often the caller is called */
    LEFT_MS = 1000, /* after its end, for what processes that it left behind still write */
    LEFT_BYTES = 1 << 20,
    TREE_DEPTH = 8,
    TREE_MOST = 1024,
    TREE_BYTES = 1 << 16,
    NOT_FOUND = 127, /* as shells have it */
    NOT_STARTED = 126
};

/* ---- what is kept ---- */

static size_t half_of(const struct rp_kept *k)
{
    return (k->most ? k->most : RP_BUNDLE_LOG_MAX) / 2;
}

void rp_kept_add(struct rp_kept *k, const char *data, size_t size)
{
    const size_t half = half_of(k);
    k->bytes += (int64_t)size;
    size_t room = half - k->head.size, n = size < room ? size : room;
    rp_buf_add(&k->head, data, n);
    data += n;
    size -= n;
    if (size && !k->tail)
        k->tail = rp_alloc(half);
    if (size > half) {
        data += size - half;
        size = half;
    }
    for (; size; data += n, size -= n) {
        n = size < half - k->at ? size : half - k->at;
        memcpy(k->tail + k->at, data, n);
        k->at = (k->at + n) % half;
        k->n = k->n + n < half ? k->n + n : half;
    }
}

void rp_kept_text(struct rp_buf *out, int64_t *dropped, const struct rp_kept *k)
{
    const size_t half = half_of(k);
    size_t head = k->head.size, tail = k->n, from = (k->at + half - k->n) % half;
    if (k->bytes > (int64_t)(head + tail)) { /* something is missing between them */
        const char *line = memrchr(rp_buf_text(&k->head), '\n', head);
        head = line ? (size_t)(line - k->head.data) + 1 : head;
        const size_t first = tail < half - from ? tail : half - from; /* until the ring begins again */
        const char *next = memchr(k->tail + from, '\n', first);
        const size_t skip = next ? (size_t)(next - (k->tail + from)) + 1 : 0;
        from = (from + skip) % half;
        tail -= skip;
    }
    rp_buf_add(out, rp_buf_text(&k->head), head);
    for (size_t n; tail; tail -= n, from = 0) {
        n = tail < half - from ? tail : half - from;
        rp_buf_add(out, k->tail + from, n);
    }
    *dropped = k->bytes - (int64_t)out->size;
}

void rp_kept_fini(struct rp_kept *k)
{
    rp_buf_fini(&k->head);
    free(k->tail);
    *k = (struct rp_kept){0};
}

int rp_kept_file(struct rp_kept *k, const char *path, struct rp_err *err)
{
    RP_FREE char *block = rp_alloc(1 << 16);
    RP_FD fd = rp_open_regular(path, err);
    ssize_t n;
    if (fd < 0)
        return -1;
    while ((n = RP_RETRY(read(fd, block, 1 << 16))) > 0)
        rp_kept_add(k, block, (size_t)n);
    return n < 0 ? rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno)) : 0;
}

void rp_command_end_fini(struct rp_command_end *end)
{
    rp_kept_fini(&end->out);
    rp_kept_fini(&end->errors);
}

/* ---- which file ---- */

static int is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

char *rp_command_find(const char *word, int *status, struct rp_err *err)
{
    char shown[72];
    const char *path = getenv("PATH");
    *status = NOT_FOUND;
    if (strchr(word, '/')) {
        if (is_program(word))
            return rp_strdup(word);
        *status = access(word, F_OK) == 0 ? NOT_STARTED : NOT_FOUND;
        return rp_fail_null(err, RP_UNAVAILABLE,
                            *status == NOT_FOUND ? "'%s': there is no such file" : "'%s' is not an executable file",
                            rp_excerpt(shown, word));
    }
    for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *word; path += *path == ':') {
        const size_t n = strcspn(path, ":");
        char *file = n ? rp_asprintf("%.*s/%s", (int)n, path, word) : rp_asprintf("./%s", word);
        if (is_program(file))
            return file;
        free(file);
        path += n;
        if (!*path)
            break;
    }
    return rp_fail_null(
        err, RP_UNAVAILABLE,
        "'%s': there is no such command in $PATH; 'repro exec -- COMMAND' runs a program, not a line of a shell",
        rp_excerpt(shown, word));
}

/* ---- signals ---- */

static const int passed[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
#define PASSED (sizeof passed / sizeof *passed)

static volatile sig_atomic_t child, last_signal, interrupts;
static volatile uint64_t last_interrupt;

static void on_signal(int sig, siginfo_t *info, void *context)
{
    (void)context;
    last_signal = sig;
    interrupts += sig == SIGINT && !rp_interrupt_is_echo(&last_interrupt);
    if (child > 0 && info->si_code != SI_KERNEL) /* the terminal sent it to the command, too */
        kill((pid_t)child, sig);
}

struct signals {
    struct sigaction before[PASSED];
    sigset_t mask;
};

/* Blocked until the command has a number; what is ignored (nohup) stays ignored. */
static void begin_signals(struct signals *s)
{
    sigset_t all;
    sigemptyset(&all);
    child = last_signal = interrupts = 0;
    for (size_t i = 0; i < PASSED; i++)
        sigaddset(&all, passed[i]);
    sigprocmask(SIG_BLOCK, &all, &s->mask);
    for (size_t i = 0; i < PASSED; i++) {
        struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigaction(passed[i], NULL, &s->before[i]);
        if (s->before[i].sa_handler != SIG_IGN)
            sigaction(passed[i], &a, NULL);
    }
}

static void end_signals(const struct signals *s)
{
    child = 0;
    for (size_t i = 0; i < PASSED; i++)
        sigaction(passed[i], &s->before[i], NULL);
}

/* ---- the command ---- */

/* Pipes: 0 standard output, 1 standard error, 2 errno of a program that cannot be executed. */
struct pipes {
    int end[3][2];
};

static void close_pipes(struct pipes *p)
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 2; k++)
            rp_closep(&p->end[i][k]);
}

static int open_pipes(struct pipes *p, struct rp_err *err)
{
    memset(p, -1, sizeof *p);
    for (int i = 0; i < 3; i++)
        if (pipe2(p->end[i], O_CLOEXEC) < 0) {
            const int e = errno;
            close_pipes(p);
            return rp_fail(err, RP_IO, "cannot make a pipe for the command: %s", strerror(e));
        }
    return 0;
}

/* In the child. What a caller of this program did not set is as this program found it: SIGPIPE and SIGXFSZ are ignored
 * here (cli.c). */
static void become_command(struct pipes *p, const struct signals *s, const struct rp_command_opts *o)
{
    extern char **environ;
    dup2(p->end[0][1], STDOUT_FILENO);
    dup2(p->end[1][1], STDERR_FILENO);
    for (size_t i = 0; i < PASSED; i++)
        if (s->before[i].sa_handler != SIG_IGN)
            signal(passed[i], SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->mask, NULL);
    if (o->inherited)
        fcntl(o->inherited, F_SETFD, 0);
    execve(o->file, o->argv, environ);
    const int e = errno;
    if (write(p->end[2][1], &e, sizeof e) < 0)
        _exit(NOT_STARTED);
    _exit(NOT_FOUND);
}

/* One piece: kept, and passed on. A reader of ours that is gone is gone for the command, too: its pipe is closed. */
static void pass_on(int *from, int to, struct rp_kept *k)
{
    char bytes[1 << 16];
    const ssize_t n = RP_RETRY(read(*from, bytes, sizeof bytes));
    if (n > 0)
        rp_kept_add(k, bytes, (size_t)n);
    if (n <= 0 || rp_write_all(to, bytes, (size_t)n) < 0)
        rp_closep(from);
}

static int has_ended(pid_t pid)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

/* Until both pipes are closed. What the command leaves behind may hold them open: after its end, until nothing comes
 * for a while, or too much. */
static void watch_command(struct rp_command_end *end, struct pipes *p, pid_t pid, const struct rp_command_opts *o)
{
    uint64_t looked = 0, ended = 0, ticked = 0;
    int64_t had = 0;
    while (p->end[0][0] >= 0 || p->end[1][0] >= 0) {
        struct pollfd f[2] = {{.fd = p->end[0][0], .events = POLLIN}, {.fd = p->end[1][0], .events = POLLIN}};
        const int n = poll(f, 2, LOOK_MS);
        if (n > 0 && f[0].revents)
            pass_on(&p->end[0][0], o->out, &end->out);
        if (n > 0 && f[1].revents)
            pass_on(&p->end[1][0], STDERR_FILENO, &end->errors);
        const uint64_t now = rp_now_ns();
        const int64_t has = end->out.bytes + end->errors.bytes;
        if (o->tick && now - ticked >= TICK_MS * 1000000ull) {
            ticked = now;
            o->tick(o->arg);
        }
        if (!ended && now - looked >= LOOK_MS * 1000000ull) {
            looked = now;
            ended = has_ended(pid) ? now : 0;
            had = has;
        }
        if (ended && now - ended >= LEFT_MS * 1000000ull && (n == 0 || has - had > LEFT_BYTES))
            break;
    }
}

/* A command that closed both pipes early may go on for long. */
static void wait_for_end(pid_t pid, const struct rp_command_opts *o)
{
    for (int ms = 1; !has_ended(pid); ms = ms < LOOK_MS ? 2 * ms : LOOK_MS) {
        poll(NULL, 0, ms);
        if (o->tick && ms >= TICK_MS)
            o->tick(o->arg);
    }
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void reap_command(struct rp_command_end *end, pid_t pid)
{
    int status = 0;
    struct rusage used = {0};
    child = 0; /* the number may be another process's from now on */
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {
    }
    end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : -1;
    end->user_s = seconds_of(used.ru_utime);
    end->system_s = seconds_of(used.ru_stime);
    end->peak_rss_bytes = (int64_t)used.ru_maxrss * 1024;
}

/* 0, or -1 where the program was not executed. */
static int check_started(struct pipes *p, const char *file, int *status, struct rp_err *err)
{
    int e = 0;
    char shown[72];
    if (RP_RETRY(read(p->end[2][0], &e, sizeof e)) <= 0)
        return 0;
    *status = e == ENOENT ? NOT_FOUND : NOT_STARTED;
    return rp_fail(err, RP_UNAVAILABLE,
                   e == ENOEXEC  ? "cannot execute '%s': %s; a script needs a first line such as #!/bin/sh"
                   : e == ENOENT ? "cannot execute '%s': %s; the interpreter that it names is missing"
                                 : "cannot execute '%s': %s",
                   rp_excerpt(shown, file), strerror(e));
}

int rp_command_run(struct rp_command_end *end, const struct rp_command_opts *o, int *status, struct rp_err *err)
{
    struct pipes p;
    struct signals s;
    *end = (struct rp_command_end){
        .exit_status = -1, .signal = -1, .out = {.most = o->out_most}, .errors = {.most = o->errors_most}};
    if (open_pipes(&p, err) < 0)
        return -1;
    begin_signals(&s);
    end->start_ns = (int64_t)rp_now_ns();
    const pid_t pid = fork();
    if (pid == 0)
        become_command(&p, &s, o);
    const int e = errno;
    child = pid > 0 ? pid : 0;
    sigprocmask(SIG_SETMASK, &s.mask, NULL);
    for (int i = 0; i < 3; i++)
        rp_closep(&p.end[i][1]);
    int failed = pid < 0 ? rp_fail(err, RP_UNAVAILABLE, "cannot start a process for the command: %s", strerror(e))
                         : check_started(&p, o->file, status, err);
    if (!failed)
        watch_command(end, &p, pid, o);
    if (pid > 0) {
        wait_for_end(pid, o);
        reap_command(end, pid);
    }
    end->end_ns = (int64_t)rp_now_ns();
    end->interrupted = last_signal;
    end_signals(&s);
    close_pipes(&p);
    return failed ? -1 : 0;
}

int rp_command_interrupts(void)
{
    return interrupts;
}

/* What a process has started, as deep as a launcher's shell and its workers are. */
struct tree {
    pid_t pid[TREE_MOST];
    int n;
};

static void add_children(struct tree *t, pid_t pid, int depth)
{
    RP_FREE char *folder = rp_asprintf("/proc/%d/task", (int)pid);
    DIR *tasks = depth < TREE_DEPTH ? opendir(folder) : NULL;
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        struct rp_err ignored;
        RP_BUF text = {0};
        RP_FREE char *path = rp_asprintf("%s/%s/children", folder, e->d_name);
        char *save = NULL;
        if (*e->d_name == '.' || rp_read_file(&text, path, TREE_BYTES, &ignored) < 0 || !text.size)
            continue;
        for (char *one = strtok_r(text.data, " ", &save); one; one = strtok_r(NULL, " ", &save)) {
            const pid_t next = (pid_t)strtol(one, NULL, 10);
            if (next <= 1 || t->n == TREE_MOST)
                continue;
            t->pid[t->n++] = next;
            add_children(t, next, depth + 1);
        }
    }
    if (tasks)
        closedir(tasks);
}

/* The command first: a shell whose child ends before it would go on with its next line. */
int rp_command_signal(int sig)
{
    const pid_t pid = (pid_t)child;
    struct tree t = {.n = 0};
    if (pid <= 0)
        return 0;
    add_children(&t, pid, 0);
    const int sent = kill(pid, sig) == 0;
    for (int i = 0; i < t.n; i++)
        kill(t.pid[i], sig);
    return sent;
}
