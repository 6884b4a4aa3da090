#include "launch/ssh.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/embed.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "comm/secret.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 50,
    ANSWER_S = 30,       /* from the start of ssh until the first answer */
    CLOCK_S = 60,        /* largest difference of the clocks */
    NOISE_MAX = 1 << 20, /* what a login shell may print before */
    LINE_MAX_BYTES = 4096,
    CHUNK = 1 << 16,
    LATER_MS = 500,  /* what a host lacks is a better message than that it is late */
    LEAVE_MS = 5000, /* time for a process to end by itself, */
    EOF_MS = 2500,   /* after the end of its input, */
    TERM_MS = 500    /* and for ssh after SIGTERM */
};

enum ssh_stage { AT_SHELL, AT_COPY, AT_PROGRAM, AT_RUN, AT_END };

struct ssh_process {
    char *host;
    pid_t pid;
    int in, out, errors; /* -1: closed */
    enum ssh_stage stage;
    struct rp_buf send;
    size_t sent, copied;   /* bytes of send, of the program */
    struct rp_buf line[2]; /* the line at hand of standard output and error */
    size_t noise;
    char last[200]; /* line of standard error, or else what a login shell printed */
    int said;       /* there was one of standard error */
    json_t *order;
    struct rp_err failed;
};

struct rp_ssh {
    int n, over, closing, expected; /* expected: that a process ends is in order */
    struct ssh_process *process;
    char nonce[RP_SSH_NONCE], digest[RP_SHA256_HEX];
    void *program;
    size_t size;
    uint64_t began, answer_until;
    int threaded;
    pthread_t thread;
    pthread_mutex_t lock;
};

/* ---- the command ---- */

/* No questions, no forwarding, no shared connection that would outlive the job; a connection that breaks ends within
 * seconds. */
static const char *const fixed_words[] = {"-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o",
                                          "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3", "-o",
                                          "LogLevel=ERROR", "-o", "ControlMaster=no", "-o", "ClearAllForwardings=yes",
                                          "-o", "EscapeChar=none", "--"};

int rp_ssh_words(char *words[RP_SSH_WORDS], char *command, const char *host, struct rp_err *err)
{
    const int fixed = (int)(sizeof fixed_words / sizeof *fixed_words);
    char *save = NULL;
    int n = 0;
    for (char *word = strtok_r(command, " \t", &save); word && n < RP_SSH_WORDS; word = strtok_r(NULL, " \t", &save))
        words[n++] = word;
    if (n == 0 || n + fixed + 3 > RP_SSH_WORDS)
        return rp_fail(err, RP_USAGE, "the command for ssh has %s", n ? "too many words" : "no word");
    for (int i = 0; i < fixed; i++)
        words[n++] = (char *)fixed_words[i];
    words[n++] = (char *)host;
    words[n++] = (char *)RP_SSH_COMMAND;
    words[n] = NULL;
    return 0;
}

/* Never returns. */
static void become_ssh(char **words, int in, int out, int errors, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(1);
    setsid(); /* Ctrl-C is for this program, and ssh cannot ask for a password */
    signal(SIGPIPE, SIG_DFL);
    if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(errors, STDERR_FILENO) >= 0)
        execvp(words[0], words);
    dprintf(STDERR_FILENO, "%s cannot be started: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Both ends at least 10, closed on exec, so that dup2() overwrites none of them; ours does not wait. */
static int make_pipe(int end[2], int ours)
{
    int low[2];
    if (pipe2(low, O_CLOEXEC) < 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        end[i] = rp_fd_high(low[i]);
        close(low[i]);
    }
    return end[0] < 0 || end[1] < 0 ? -1 : fcntl(end[ours], F_SETFL, O_NONBLOCK);
}

static int start_ssh(struct ssh_process *p, const char *command, struct rp_err *err)
{
    char *words[RP_SSH_WORDS];
    RP_FREE char *copy = rp_strdup(command);
    int in[2] = {-1, -1}, out[2] = {-1, -1}, errors[2] = {-1, -1};
    if (rp_ssh_words(words, copy, p->host, err) < 0)
        return -1;
    const pid_t parent = getpid();
    const int made = make_pipe(in, 1) == 0 && make_pipe(out, 0) == 0 && make_pipe(errors, 0) == 0;
    p->pid = made ? fork() : -1;
    if (p->pid == 0)
        become_ssh(words, in[0], out[1], errors[1], parent);
    const int e = errno;
    rp_closep(&in[0]);
    rp_closep(&out[1]);
    rp_closep(&errors[1]);
    p->in = in[1];
    p->out = out[0];
    p->errors = errors[0];
    return p->pid > 0 ? 0 : rp_fail(err, RP_UNAVAILABLE, "cannot start ssh for host %s: %s", p->host, strerror(e));
}

/* ---- messages of a process ---- */

static int fail_host(struct ssh_process *p, enum rp_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static int fail_host(struct ssh_process *p, enum rp_code code, const char *fmt, ...)
{
    char text[400];
    RP_FORMAT_ARGS(text, fmt);
    if (!p->failed.code)
        (void)rp_fail(&p->failed, code, "host %s: %s", p->host, text);
    rp_closep(&p->in); /* what runs there ends */
    return -1;
}

static void send_order(struct ssh_process *p)
{
    struct rp_err err;
    p->stage = AT_PROGRAM;
    if (rp_frame_encode(&p->send, RP_FRAME_HOST, p->order, &err) < 0)
        fail_host(p, err.code, "%s", err.msg);
}

/* "here Linux x86_64 1763900000 need" */
static int take_host_facts(struct ssh_process *p, char *text)
{
    struct utsname u = {.machine = "?"};
    char *save = NULL;
    const char *word[4];
    int64_t seconds = 0;
    for (int i = 0; i < 4; i++)
        if (!(word[i] = strtok_r(i ? NULL : text, " ", &save)))
            return fail_host(p, RP_MALFORMED, "its answer is not understood");
    uname(&u);
    if (strcmp(word[0], "Linux") != 0 || strcmp(word[1], u.machine) != 0)
        return fail_host(p, RP_UNAVAILABLE,
                         "it is %s on %s, and this program is for Linux on %s: start a program for it there, with "
                         "--nodes and --node-rank",
                         word[0], word[1], u.machine);
    const int64_t ahead = rp_parse_count(word[2], &seconds) == 0 ? seconds - (int64_t)(rp_wall_ns() / 1000000000u) : 0;
    if (ahead > CLOCK_S || ahead < -CLOCK_S)
        return fail_host(p, RP_UNAVAILABLE,
                         "its clock is %lld s %s ours: set one of them right (chronyd, timedatectl set-ntp true)",
                         (long long)(ahead > 0 ? ahead : -ahead), ahead > 0 ? "ahead of" : "behind");
    if (strcmp(word[3], "need") == 0)
        p->stage = AT_COPY;
    else
        send_order(p);
    return 0;
}

static int take_error(struct ssh_process *p, char *text)
{
    char *rest = strchr(text, ' ');
    const size_t n = rest ? (size_t)(rest - text) : strlen(text);
    rest = rest ? rest + 1 : text + n;
    if (strncmp(text, "place", n) == 0)
        return fail_host(p, RP_UNAVAILABLE,
                         "it has no directory for the program (%.250s): set TMPDIR there to one without noexec", rest);
    if (strncmp(text, "copy", n) == 0)
        return fail_host(p, RP_UNAVAILABLE, "the program cannot be copied to %.300s", rest);
    return fail_host(p, RP_UNAVAILABLE, "the program cannot be started there: %.300s", rest);
}

/* An answer of remote_start.sh, or of the program. */
static int take_answer(struct ssh_process *p, char *text)
{
    if (p->stage == AT_SHELL && strncmp(text, "here ", 5) == 0)
        return take_host_facts(p, text + 5);
    if (strncmp(text, "error ", 6) == 0)
        return take_error(p, text + 6);
    if (p->stage == AT_COPY && strcmp(text, "copied") == 0)
        send_order(p);
    else if (p->stage == AT_PROGRAM && strcmp(text, "ready") == 0)
        p->stage = AT_RUN;
    else
        return fail_host(p, RP_MALFORMED, "its answer is not understood");
    return 0;
}

/* One write, so that lines of several hosts do not mix; over the line of progress on a terminal. */
static void show_line(const struct ssh_process *p, const char *text)
{
    RP_BUF line = {0};
    rp_buf_printf(&line, "%s%s: %s\n", isatty(STDERR_FILENO) ? "\r\033[K" : "", p->host, text);
    if (RP_RETRY(write(STDERR_FILENO, line.data, line.size)) < 0)
        return; /* the other end is closed */
}

static void take_line(struct rp_ssh *s, struct ssh_process *p, int errors, char *text)
{
    const size_t n = strlen(s->nonce);
    const char *at = errors ? NULL : strstr(text, s->nonce); /* noise may lack its line end */
    if (at && at[n] == ' ' && p->stage < AT_RUN) {
        rp_sanitize(text);
        take_answer(p, text + (at - text) + n + 1);
        return;
    }
    rp_sanitize(text);
    if (*text && (errors || (p->stage == AT_SHELL && !p->said)))
        RP_FORMAT(p->last, "%s", text);
    p->said |= errors && *text;
    if (p->stage == AT_RUN && *text && !s->expected)
        show_line(p, text);
    p->noise += p->stage == AT_RUN ? 0 : strlen(text) + 1;
    if (p->noise > NOISE_MAX)
        fail_host(p, RP_UNAVAILABLE, "its login shell prints without end");
}

static void take_bytes(struct rp_ssh *s, struct ssh_process *p, int errors, const char *bytes, size_t size)
{
    struct rp_buf *line = &p->line[errors];
    for (size_t i = 0; i < size; i++) {
        const char c = bytes[i] ? bytes[i] : '?';
        if (c != '\n' && line->size < LINE_MAX_BYTES)
            rp_buf_add(line, &c, 1);
        if (c != '\n' && line->size < LINE_MAX_BYTES)
            continue;
        if (line->size && line->data[line->size - 1] == '\r') /* ssh's own messages end so */
            line->data[--line->size] = 0;
        RP_FREE char *text = rp_buf_take(line);
        if (text)
            take_line(s, p, errors, text);
    }
}

/* ---- the thread ---- */

static void read_some(struct rp_ssh *s, struct ssh_process *p, int errors)
{
    char bytes[LINE_MAX_BYTES] = "";
    int *fd = errors ? &p->errors : &p->out;
    ssize_t n = *fd < 0 ? -1 : RP_RETRY(read(*fd, bytes, sizeof bytes));
    if (n > 0)
        take_bytes(s, p, errors, bytes, (size_t)n);
    else if (n == 0)
        rp_closep(fd);
}

static int wants_to_write(const struct rp_ssh *s, const struct ssh_process *p)
{
    return p->in >= 0 && (p->sent < p->send.size || (p->stage == AT_COPY && p->copied < s->size));
}

static void write_some(struct rp_ssh *s, struct ssh_process *p)
{
    const int copying = p->sent == p->send.size;
    const char *from = copying ? (const char *)s->program + p->copied : p->send.data + p->sent;
    size_t left = copying ? s->size - p->copied : p->send.size - p->sent;
    if (!wants_to_write(s, p))
        return;
    ssize_t n = RP_RETRY(write(p->in, from, left < CHUNK ? left : CHUNK));
    if (n < 0 && errno != EAGAIN)
        rp_closep(&p->in); /* the reason is in how ssh ended */
    if (n <= 0)
        return;
    if (copying)
        p->copied += (size_t)n;
    else
        p->sent += (size_t)n;
    if (p->sent == p->send.size) { /* it had the key of the job */
        if (p->send.size)
            explicit_bzero(p->send.data, p->send.size);
        rp_buf_fini(&p->send);
        p->sent = 0;
    }
}

static void judge_end(struct rp_ssh *s, struct ssh_process *p, int status)
{
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const char *colon = *p->last ? ": " : "";
    if (p->failed.code || s->expected)
        return;
    if (p->stage == AT_RUN)
        fail_host(p, code == rp_exit_status(RP_INTERRUPTED) ? RP_INTERRUPTED : RP_UNAVAILABLE,
                  "its process ended with status %d%s%s", code, colon, p->last);
    else if (code == 127 && strstr(p->last, "cannot be started"))
        fail_host(p, RP_UNAVAILABLE, "%s; install OpenSSH's client, or name another one with --ssh or REPRO_SSH",
                  p->last);
    else if (code == 255)
        fail_host(p, RP_UNAVAILABLE,
                  "ssh cannot reach it%s%s; 'ssh -o BatchMode=yes %s true' has to work, without questions", colon,
                  p->last, p->host);
    else
        fail_host(p, RP_UNAVAILABLE,
                  "its login shell left with status %d%s%s; it has to be able to run sh, head, mkdir and wc", code,
                  colon, p->last);
}

static void look_after(struct rp_ssh *s, struct ssh_process *p)
{
    int status;
    if (p->pid > 0 && waitpid(p->pid, &status, WNOHANG) == p->pid) {
        p->pid = 0;
        /* What it wrote last. A connection that ssh shares in the background keeps the other end open. */
        for (int i = 0; i < 2; i++)
            read_some(s, p, i);
        judge_end(s, p, status);
        p->stage = AT_END;
        rp_closep(&p->in);
    }
    if (s->closing && p->sent == p->send.size)
        rp_closep(&p->in);
    if (p->stage == AT_SHELL && rp_now_ns() > s->answer_until && !p->failed.code)
        fail_host(p, RP_UNAVAILABLE, "no answer for %d s after ssh was started%s%s",
                  (int)((s->answer_until - s->began + 500000000u) / 1000000000u), *p->last ? ": " : "", p->last);
}

static void *tend_processes(void *arg)
{
    struct rp_ssh *s = arg;
    RP_FREE struct pollfd *fd = rp_alloc((size_t)s->n * 3 * sizeof *fd);
    for (;;) {
        pthread_mutex_lock(&s->lock);
        const int over = s->over;
        for (int i = 0; i < s->n; i++) {
            struct ssh_process *p = &s->process[i];
            look_after(s, p);
            fd[3 * i] = (struct pollfd){.fd = p->out, .events = POLLIN};
            fd[3 * i + 1] = (struct pollfd){.fd = p->errors, .events = POLLIN};
            fd[3 * i + 2] = (struct pollfd){.fd = wants_to_write(s, p) ? p->in : -1, .events = POLLOUT};
        }
        pthread_mutex_unlock(&s->lock);
        if (over)
            return NULL;
        poll(fd, (nfds_t)s->n * 3, LOOK_MS);
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < s->n; i++) {
            for (int k = 0; k < 2; k++)
                if (fd[3 * i + k].revents)
                    read_some(s, &s->process[i], k);
            if (fd[3 * i + 2].revents)
                write_some(s, &s->process[i]);
        }
        pthread_mutex_unlock(&s->lock);
    }
}

/* ---- all of them ---- */

/* The file that runs, even if it was replaced since. */
static int map_program(struct rp_ssh *s, struct rp_err *err)
{
    static const char self[] = "/proc/self/exe";
    struct stat st;
    RP_FD fd = open(self, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot read this program, to copy it to other hosts: %s: %s", self,
                       strerror(errno));
    s->size = (size_t)st.st_size;
    s->program = mmap(NULL, s->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (s->program == MAP_FAILED) {
        s->program = NULL;
        return rp_fail(err, RP_IO, "cannot map this program: %s", strerror(errno));
    }
    return rp_sha256_fd(s->digest, fd, self, NULL, err);
}

/* remote_start.sh as one line. */
static void put_script(struct rp_buf *out, const struct rp_ssh *s, int keep)
{
    const struct rp_embed *e = rp_embed_find("src/launch/remote_start.sh");
    RP_BUG_IF(!e);
    rp_buf_printf(out, "nonce=%s size=%zu digest=%s keep=%d;", s->nonce, s->size, s->digest, keep);
    const char *text = (const char *)e->data, *end = text + e->size;
    while (text < end) {
        const char *next = memchr(text, '\n', (size_t)(end - text)), *stop = next ? next : end;
        while (text < stop && *text == ' ')
            text++;
        if (text < stop && *text != '#') {
            rp_buf_puts(out, " ");
            rp_buf_add(out, text, (size_t)(stop - text));
        }
        text = stop + 1;
    }
    rp_buf_puts(out, "\n");
}

static int start_all(struct rp_ssh *s, const struct rp_ssh_opts *o, struct rp_err *err)
{
    unsigned char random[(RP_SSH_NONCE - 1) / 2];
    sigset_t all, before;
    if (rp_secret_random(random, sizeof random, err) < 0 || map_program(s, err) < 0)
        return -1;
    rp_hex(s->nonce, random, sizeof random);
    for (int i = 0; i < s->n; i++) {
        struct ssh_process *p = &s->process[i];
        put_script(&p->send, s, o->keep);
        if (start_ssh(p, o->command ? o->command : "ssh", err) < 0)
            return -1;
    }
    sigfillset(&all); /* signals are for the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(&s->thread, NULL, tend_processes, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    s->threaded = e == 0;
    return e ? rp_fail(err, RP_UNAVAILABLE, "cannot start a thread for ssh: %s", strerror(e)) : 0;
}

int rp_ssh_check(struct rp_ssh *s, struct rp_err *err)
{
    int failed = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !failed; i++)
        if (s->process[i].failed.code) {
            *err = s->process[i].failed;
            failed = 1;
        }
    pthread_mutex_unlock(&s->lock);
    return failed ? -1 : 0;
}

static int count_in(struct rp_ssh *s, enum ssh_stage stage)
{
    int n = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n; i++)
        n += s->process[i].stage == stage;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* The first host that is not as far. */
static const char *late_host(const struct rp_ssh *s)
{
    int i = 0;
    while (i + 1 < s->n && s->process[i].stage == AT_RUN)
        i++;
    return s->process[i].host;
}

static int wait_for_all(struct rp_ssh *s, uint64_t deadline, struct rp_err *err)
{
    while (count_in(s, AT_RUN) < s->n) {
        if (rp_ssh_check(s, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted while the program was started on other hosts");
        if (rp_now_ns() > deadline + LATER_MS * 1000000ull)
            return rp_fail(err, RP_UNAVAILABLE, "host %s: the program did not run there in time (--join-timeout)",
                           late_host(s));
        poll(NULL, 0, LOOK_MS);
    }
    return 0;
}

struct rp_ssh *rp_ssh_start(const struct rp_ssh_opts *o, struct rp_err *err)
{
    struct rp_ssh *s = rp_alloc(sizeof *s);
    const uint64_t now = rp_now_ns(), limit = now + ANSWER_S * 1000000000ull;
    *s = (struct rp_ssh){.n = o->n,
                         .process = rp_alloc((size_t)o->n * sizeof *s->process),
                         .began = now,
                         .answer_until = limit < o->deadline ? limit : o->deadline};
    pthread_mutex_init(&s->lock, NULL);
    for (int i = 0; i < o->n; i++)
        s->process[i] = (struct ssh_process){
            .host = rp_strdup(o->host[i]), .in = -1, .out = -1, .errors = -1, .order = json_incref(o->order[i])};
    if (start_all(s, o, err) == 0 && wait_for_all(s, o->deadline, err) == 0)
        return s;
    rp_ssh_end(s, 1);
    return NULL;
}

int rp_ssh_tell(struct rp_ssh *s, enum rp_frame type, const json_t *body, struct rp_err *err)
{
    int failed = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n && !failed; i++)
        failed = rp_frame_encode(&s->process[i].send, type, body, err) < 0;
    pthread_mutex_unlock(&s->lock);
    return failed ? -1 : 0;
}

/* ---- the end ---- */

static int wait_until_ended(struct rp_ssh *s, int ms)
{
    const uint64_t until = rp_now_ns() + (uint64_t)ms * 1000000u;
    int gone;
    while ((gone = count_in(s, AT_END) == s->n) == 0 && rp_now_ns() < until)
        poll(NULL, 0, LOOK_MS / 2);
    return gone;
}

/* Those that are at most as far as `last`. */
static void signal_all(struct rp_ssh *s, int number, enum ssh_stage last)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->n; i++)
        if (s->process[i].pid > 0 && s->process[i].stage <= last)
            kill(s->process[i].pid, number);
    pthread_mutex_unlock(&s->lock);
}

void rp_ssh_expect_end(struct rp_ssh *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->expected = 1;
    pthread_mutex_unlock(&s->lock);
}

static void end_processes(struct rp_ssh *s, int failed)
{
    rp_ssh_expect_end(s);
    if (!failed && wait_until_ended(s, LEAVE_MS))
        return;
    pthread_mutex_lock(&s->lock);
    s->closing = 1;
    pthread_mutex_unlock(&s->lock);
    signal_all(s, SIGTERM, AT_SHELL); /* nothing runs there yet */
    if (wait_until_ended(s, EOF_MS))
        return;
    signal_all(s, SIGTERM, AT_END);
    if (!wait_until_ended(s, TERM_MS))
        signal_all(s, SIGKILL, AT_END);
    wait_until_ended(s, TERM_MS);
}

void rp_ssh_end(struct rp_ssh *s, int failed)
{
    if (!s)
        return;
    if (s->threaded) {
        end_processes(s, failed);
        pthread_mutex_lock(&s->lock);
        s->over = 1;
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    for (int i = 0; i < s->n; i++) {
        struct ssh_process *p = &s->process[i];
        if (p->pid > 0) {
            kill(p->pid, SIGKILL);
            waitpid(p->pid, NULL, 0);
        }
        rp_closep(&p->in);
        rp_closep(&p->out);
        rp_closep(&p->errors);
        if (p->send.size)
            explicit_bzero(p->send.data, p->send.size);
        rp_buf_fini(&p->send);
        rp_buf_fini(&p->line[0]);
        rp_buf_fini(&p->line[1]);
        free(p->host);
        json_decref(p->order);
    }
    if (s->program)
        munmap(s->program, s->size);
    pthread_mutex_destroy(&s->lock);
    free(s->process);
    free(s);
}
