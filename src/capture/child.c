#include "capture/child.h"

#include "base/clock.h"
#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_NS = 1000000000 }; /* for a killed process to go */

static void limit_resources(void)
{
    const struct rlimit none = {0, 0}, cpu = {2, 2};
    setrlimit(RLIMIT_CORE, &none);
    setrlimit(RLIMIT_FSIZE, &none); /* the answer goes through a pipe */
    setrlimit(RLIMIT_CPU, &cpu);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow takes terabytes of address space */
    const struct rlimit space = {(rlim_t)4 << 30, (rlim_t)4 << 30};
    setrlimit(RLIMIT_AS, &space);
#endif
}

/* The child's answer, a line of JSON and the rest; NULL if it is invalid or late. The child is killed in any case. */
static json_t *listen_to(int fd, pid_t pid, int patience_ms, size_t max_answer, struct rp_buf *rest, const char **why)
{
    RP_BUF answer = {0};
    char block[16384];
    struct rp_err err;
    int late = 0;
    uint64_t end = rp_now_ns() + (uint64_t)patience_ms * 1000000;
    for (;;) {
        uint64_t now = rp_now_ns();
        struct pollfd pf = {.fd = fd, .events = POLLIN};
        int ready = now < end ? poll(&pf, 1, (int)((end - now) / 1000000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        ssize_t n = ready > 0 ? read(fd, block, sizeof block) : -1;
        late = ready == 0;
        if (n <= 0 || answer.size + (size_t)n > max_answer)
            break;
        rp_buf_add(&answer, block, (size_t)n);
    }
    kill(pid, SIGKILL);
    for (uint64_t last = rp_now_ns() + PATIENCE_NS; waitpid(pid, NULL, WNOHANG) == 0 && rp_now_ns() < last;)
        poll(NULL, 0, 1); /* a hung file system may hold it in the kernel: then it is abandoned */
    int whole = !late && answer.size && answer.data[answer.size - 1] == 0;
    const char *end_of_line = whole ? memchr(answer.data, '\n', answer.size) : NULL;
    size_t size = end_of_line ? (size_t)(end_of_line - answer.data) : 0;
    json_t *j = end_of_line ? rp_json_parse(answer.data, size, "answer", &err) : NULL;
    if (j && rest)
        rp_buf_add(rest, end_of_line + 1, answer.size - size - 2);
    if (!j)
        *why = late ? "looking took too long" : "the library failed on what it found";
    return j;
}

json_t *rp_in_child(rp_child_work *work, const void *arg, int patience_ms, size_t max_answer, struct rp_buf *rest,
                    const char **why)
{
    int fds[2];
    pid_t pid = -1;
    *why = "no process could be started to look";
    if (pipe2(fds, O_CLOEXEC) < 0)
        return NULL;
    pid = fork();
    if (pid == 0) {
        RP_BUF answer = {0}, more = {0};
        limit_resources();
        rp_json_write_line(&answer, work(arg, &more));
        rp_buf_add(&answer, rp_buf_text(&more), more.size + 1); /* its NUL marks the end of a complete answer */
        _exit(answer.size > max_answer || rp_write_all(fds[1], answer.data, answer.size) < 0);
    }
    close(fds[1]);
    json_t *answer = pid < 0 ? NULL : listen_to(fds[0], pid, patience_ms, max_answer, rest, why);
    close(fds[0]);
    return answer;
}
