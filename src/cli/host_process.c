#include "cli/host_process.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/run.h"
#include "launch/ssh.h"
#include "process/process.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RP_OBJECT_LIST "cli/host_order.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "cli/host_order.def"
#include "base/object_tables.inc.h"

enum { ORDER_S = 60, LOOK_MS = 50, LAST_S = 6 };

struct host_process {
    struct rp_joining_place place;
    struct rp_run_opts o;
    struct rp_host_order order; /* HOST */
    struct rp_buf in;
    pthread_mutex_t lock;
    json_t *meet; /* MEET; NULL: not here yet */
    int lost;     /* standard input has ended */
};

/* ---- standard input ---- */

/* 1: a frame; 0: the end, or bytes that are none. */
static int read_frame(struct host_process *h, enum rp_frame *type, json_t **body)
{
    struct rp_err ignored;
    char bytes[4096];
    for (;;) {
        int got = rp_frame_decode(&h->in, type, body, &ignored);
        if (got)
            return got > 0;
        ssize_t n = RP_RETRY(read(STDIN_FILENO, bytes, sizeof bytes));
        if (n <= 0)
            return 0;
        rp_buf_add(&h->in, bytes, (size_t)n);
        explicit_bzero(bytes, (size_t)n);
    }
}

/* Waits for MEET, then for the end: the connection broke, or process 0 is gone. What does not end by itself then is
 * ended. */
static void *watch_input(void *arg)
{
    struct host_process *h = arg;
    enum rp_frame type;
    json_t *body = NULL;
    while (read_frame(h, &type, &body)) {
        pthread_mutex_lock(&h->lock);
        if (type == RP_FRAME_MEET && !h->meet)
            h->meet = json_incref(body);
        pthread_mutex_unlock(&h->lock);
        json_decref(body);
        body = NULL;
    }
    __atomic_store_n(&h->lost, 1, __ATOMIC_RELEASE);
    kill(getpid(), SIGTERM);
    sleep(LAST_S);
    _exit(rp_exit_status(RP_UNAVAILABLE));
}

static int check_input(void *arg, struct rp_err *err)
{
    const struct host_process *h = arg;
    if (!__atomic_load_n(&h->lost, __ATOMIC_ACQUIRE))
        return 0;
    return rp_fail(err, RP_UNAVAILABLE, "host %s: the ssh connection that started its process has ended",
                   h->order.name);
}

static int start_watching(struct host_process *h, struct rp_err *err)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int e = pthread_create(&thread, NULL, watch_input, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return e ? rp_fail(err, RP_UNAVAILABLE, "cannot start a thread: %s", strerror(e)) : 0;
}

/* The address from which ssh came is the one by which this host reaches process 0's, unless another host forwards. */
static void put_ssh_client(struct rp_meet_frame *where)
{
    const char *connection = getenv("SSH_CONNECTION");
    if (!connection || where->given == 1)
        return;
    const size_t n = (size_t)where->addresses_n++;
    where->addresses = rp_realloc(where->addresses, (n + 1) * sizeof *where->addresses);
    memmove(where->addresses + 1, where->addresses, n * sizeof *where->addresses);
    where->addresses[0] = rp_asprintf("%.*s", (int)strcspn(connection, " "), connection);
}

static int learn_place(void *arg, struct rp_meet_frame *where, uint64_t deadline, struct rp_err *err)
{
    struct host_process *h = arg;
    for (;;) {
        pthread_mutex_lock(&h->lock);
        const int is_here = h->meet != NULL;
        if (is_here)
            rp_object_read(where, &rp_type_meet_frame, h->meet);
        pthread_mutex_unlock(&h->lock);
        if (is_here) {
            put_ssh_client(where);
            return 0;
        }
        if (check_input(h, err) < 0)
            return -1;
        if (rp_interrupted())
            return rp_fail(err, RP_INTERRUPTED, "interrupted");
        if (rp_now_ns() > deadline)
            return rp_fail(err, RP_UNAVAILABLE, "process 0 was not ready in time");
        poll(NULL, 0, LOOK_MS);
    }
}

/* ---- who it is ---- */

static void take_order(struct host_process *h)
{
    const struct rp_host_order *order = &h->order;
    RP_BUG_IF(rp_unhex(h->place.key.bytes, sizeof h->place.key.bytes, order->key) < 0);
    explicit_bzero(h->order.key, sizeof h->order.key);
    h->place.key.source = "--hosts";
    h->place.index = order->index;
    h->place.size = order->size;
    h->place.ranks = order->ranks;
    h->place.talk = (struct rp_rendezvous_talk){.arg = h, .learn = learn_place};
    h->place.check = check_input;
    h->place.arg = h;
    h->o.set.item = rp_alloc((size_t)(order->set_n + 1) * sizeof *h->o.set.item);
    for (int64_t i = 0; i < order->set_n; i++)
        h->o.set.item[h->o.set.n++] = order->set[i];
    h->o.store = order->store;
    h->o.identify = order->identify;
    h->o.other_programs = order->different;
    h->o.joining.timeout = (long)order->timeout;
    h->o.joining.place = &h->place;
}

static int read_order(struct host_process *h, struct rp_err *err)
{
    enum rp_frame type;
    RP_JSON *body = NULL;
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    if (RP_RETRY(poll(&p, 1, ORDER_S * 1000)) < 1 || !read_frame(h, &type, &body) || type != RP_FRAME_HOST)
        return rp_fail(err, RP_MALFORMED,
                       "only 'repro run --hosts' starts this process, on another host: an argument is missing");
    if (rp_object_take(&h->order, &rp_type_host_order, body, "HOST", err) < 0)
        return -1;
    take_order(h);
    (void)!(h->order.directory && chdir(h->order.directory) < 0); /* of use with a shared file system only */
    return 0;
}

static int load_text(const struct rp_run_from *from, struct rp_recipe *r, const char *backend, const char *const *set,
                     int n, struct rp_err *err)
{
    const struct rp_host_recipe *recipe = &((const struct host_process *)(const void *)from->where)->order.recipe;
    return rp_recipe_parse_again(r, recipe->text, strlen(recipe->text), recipe->name, recipe->config, backend, set, n,
                                 err);
}

/* ---- the process ---- */

static void remove_copy(const char *directory)
{
    RP_FREE char *file = rp_asprintf("%s/repro", directory);
    if (unlink(file) < 0 || rmdir(directory) < 0)
        fprintf(stderr, "repro: cannot remove %s: %s\n", directory, strerror(errno));
}

static int run_process(struct rp_cli *cli, const char *nonce, struct rp_err *err)
{
    static struct host_process h = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* the thread may outlive this function */
    const struct rp_run_from from = {.load = load_text, .where = (const void *)&h};
    printf("%s ready\n", nonce);
    if (fflush(stdout) != 0)
        return rp_fail(err, RP_IO, "standard output is closed: the process that started this one has ended");
    rp_interrupt_catch();
    if (read_order(&h, err) < 0 || start_watching(&h, err) < 0)
        return -1;
    return rp_run(cli, &h.o, &from, err);
}

int rp_host_process_main(int argc, char **argv)
{
    struct rp_cli cli = {.quiet = 1};
    struct rp_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    const int known = argc > 2 && strlen(argv[2]) == RP_SSH_NONCE - 1 && !argv[2][strspn(argv[2], "0123456789abcdef")];
    if (known && argc > 3 && rp_ends_with(argv[3], argv[2]))
        remove_copy(argv[3]);
    if (!known)
        (void)rp_fail(&err, RP_USAGE, "this option is for 'repro run --hosts' alone");
    else if (rp_cli_check_stack(&err) == 0 && run_process(&cli, argv[2], &err) == 0)
        return 0;
    rp_cli_print_error(&cli, &err);
    return rp_exit_status(err.code);
}
