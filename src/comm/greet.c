/* The greeting of both sides as a state machine: no step waits. */
#include "comm/greet.h"

#include "base/buf.h"
#include "base/little_endian.h"
#include "comm/secret.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FIRST_BYTE, HELLO, CHALLENGE, PROOF, ANSWER, TLS, WELCOME, DONE };

#define CHALLENGE_AT RP_GREET_HELLO
#define PROOF_AT (CHALLENGE_AT + RP_GREET_CHALLENGE)
#define ANSWER_AT (PROOF_AT + RP_GREET_PROOF)
#define MAC RP_SECRET_SIZE
#define TLS_RECORD 0x16 /* the first byte of a handshake of TLS */

static const char welcome[RP_GREET_WELCOME] = "RPL5";

/* The MAC of everything said before `at` by the side that `label` names. */
static void greeting_mac(const struct rp_greeting *g, const char *label, size_t at, unsigned char out[MAC])
{
    unsigned char key[RP_SECRET_SIZE], labelled[RP_SECRET_SIZE];
    rp_secret_derive(key, g->opts->channel.key, "repro local 1", g->opts->channel.purpose,
                     strlen(g->opts->channel.purpose));
    rp_secret_derive(labelled, key, label, NULL, 0);
    rp_secret_mac(out, labelled, sizeof labelled, g->talk, at);
    explicit_bzero(key, sizeof key);
    explicit_bzero(labelled, sizeof labelled);
}

/* Sends the last message, from `at` on: it is small, and the socket's buffer is empty. */
static int send_message(struct rp_greeting *g, size_t at, size_t size, const char *label, struct rp_err *err)
{
    if (label)
        greeting_mac(g, label, at + size - MAC, g->talk + at + size - MAC);
    g->size = at + size;
    const ssize_t n = RP_RETRY(send(g->fd, g->talk + at, size, MSG_NOSIGNAL | MSG_DONTWAIT));
    return n == (ssize_t)size
               ? 0
               : rp_fail(err, RP_UNAVAILABLE, "cannot send the greeting: %s", n < 0 ? strerror(errno) : "cut off");
}

/* 1: the whole message is there and its magic is right; 0: not yet. */
static int receive_message(struct rp_greeting *g, size_t at, size_t size, const char *magic, struct rp_err *err)
{
    const ssize_t n = RP_RETRY(recv(g->fd, g->talk + g->size, at + size - g->size, MSG_DONTWAIT));
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n <= 0)
        return rp_fail(err, RP_UNAVAILABLE, "the connection ended in the greeting: %s",
                       n < 0 ? strerror(errno) : "closed by the other side");
    g->size += (size_t)n;
    if (g->size >= at + 4 && memcmp(g->talk + at, magic, 4) != 0)
        return rp_fail(err, RP_MALFORMED, "a connection that does not speak the protocol of ranks");
    return g->size == at + size;
}

static int check_mac(const struct rp_greeting *g, size_t at, size_t size, const char *label, struct rp_err *err)
{
    unsigned char mac[MAC];
    greeting_mac(g, label, at + size - MAC, mac);
    if (rp_secret_equal(mac, g->talk + at + size - MAC, MAC))
        return 0;
    return rp_fail(err, RP_SIGNATURE, "%s does not have the key of this job",
                   g->client ? "the listening process" : "a connecting process");
}

/* ---- both sides: TLS ---- */

static int admit_over_tls(void *arg, int rank, struct rp_err *err)
{
    struct rp_greeting *g = arg;
    if (g->one_host && rank != g->rank)
        return rp_fail(err, RP_SIGNATURE, "rank %d greeted, and rank %d continues", g->rank, rank) == 0;
    return g->opts->admit(g->opts->admit_arg, rank, g->one_host, err);
}

static int start_tls(struct rp_greeting *g, struct rp_err *err)
{
    const int fd = rp_fd_take(&g->fd);
    g->channel = g->client ? rp_channel_connect(fd, &g->opts->channel, g->rank, err)
                           : rp_channel_accept(fd, &g->opts->channel, admit_over_tls, g, err);
    g->state = TLS;
    return g->channel ? 0 : -1;
}

static int step_tls(struct rp_greeting *g, struct rp_err *err)
{
    const int done = rp_channel_handshake(g->channel, err);
    if (done <= 0)
        return done;
    g->rank = rp_channel_peer(g->channel);
    if (!g->client && !g->opts->admit(g->opts->admit_arg, g->rank, g->one_host, err))
        return -1;
    g->state = WELCOME;
    g->sent = 0;
    return 1;
}

static int step_welcome(struct rp_greeting *g, struct rp_err *err)
{
    char got[sizeof welcome];
    size_t n;
    if (!g->client) {
        if (rp_channel_write(g->channel, welcome + g->sent, sizeof welcome - g->sent, &n, err) < 0)
            return -1;
        g->sent += n;
        const int flushed = rp_channel_flush(g->channel, err);
        if (flushed < 0)
            return -1;
        g->state = flushed && g->sent == sizeof welcome ? DONE : WELCOME;
        return g->state == DONE;
    }
    const int r = rp_channel_read(g->channel, got, sizeof welcome - g->sent, &n, err);
    if (r != 0)
        return r < 0 ? -1 : rp_fail(err, RP_UNAVAILABLE, "rank %d closed the connection", g->rank);
    if (memcmp(got, welcome + g->sent, n) != 0)
        return rp_fail(err, RP_MALFORMED, "rank %d does not speak the protocol of ranks", g->rank);
    g->sent += n;
    g->state = g->sent == sizeof welcome ? DONE : WELCOME;
    return g->state == DONE;
}

/* ---- the side that connected ---- */

static int send_hello(struct rp_greeting *g, struct rp_err *err)
{
    unsigned char *p = g->talk;
    memset(p, 0, RP_GREET_HELLO);
    memcpy(p, "RPL1", 4);
    rp_put_le(p + 4, (uint64_t)g->opts->channel.own, 4);
    rp_put_le(p + 8, (uint64_t)g->rank, 4);
    rp_put_le(p + 16, g->opts->no_rings ? 0 : rp_ring_namespace(), 8);
    if (rp_secret_random(p + 24, 32, err) < 0)
        return -1;
    memcpy(p + 56, g->opts->channel.job, strnlen(g->opts->channel.job, RP_CHANNEL_JOB_MAX));
    g->state = CHALLENGE;
    return send_message(g, 0, RP_GREET_HELLO, NULL, err);
}

/* Shared memory, of the kind that the other side can open if it shares any; no offer if this side cannot. */
static void make_offer(struct rp_greeting *g)
{
    const uint64_t own = rp_get_le(g->talk + 16, 8), other = rp_get_le(g->talk + CHALLENGE_AT + 8, 8);
    unsigned char *offer = g->talk + PROOF_AT + 8;
    struct rp_err ignored;
    if (!own || !other ||
        rp_rings_create(&g->rings, own == other ? RP_RING_MEMFD : RP_RING_FILE, g->opts->ring_bytes, offer, &ignored) <
            0)
        memset(offer, 0, RP_RING_OFFER);
}

static int step_challenge(struct rp_greeting *g, struct rp_err *err)
{
    const int r = receive_message(g, CHALLENGE_AT, RP_GREET_CHALLENGE, "RPL2", err);
    if (r <= 0)
        return r;
    if (check_mac(g, CHALLENGE_AT, RP_GREET_CHALLENGE, "server", err) < 0)
        return -1;
    memset(g->talk + PROOF_AT, 0, RP_GREET_PROOF);
    memcpy(g->talk + PROOF_AT, "RPL3", 4);
    make_offer(g);
    g->state = ANSWER;
    return send_message(g, PROOF_AT, RP_GREET_PROOF, "client", err) < 0 ? -1 : 1;
}

static int step_answer(struct rp_greeting *g, struct rp_err *err)
{
    const int r = receive_message(g, ANSWER_AT, RP_GREET_ANSWER, "RPL4", err);
    if (r <= 0)
        return r;
    if (check_mac(g, ANSWER_AT, RP_GREET_ANSWER, "answer", err) < 0)
        return -1;
    if (rp_get_le(g->talk + ANSWER_AT + 4, 4) == 1 && g->rings.map) {
        rp_rings_settle(&g->rings);
        g->state = DONE;
        return 1;
    }
    rp_rings_close(&g->rings);
    g->refused_rings = 1;
    return start_tls(g, err) < 0 ? -1 : 1;
}

/* ---- the side that listens ---- */

static int step_first_byte(struct rp_greeting *g, struct rp_err *err)
{
    unsigned char byte;
    const ssize_t n = RP_RETRY(recv(g->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT));
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n <= 0)
        return rp_fail(err, RP_UNAVAILABLE, "a connection that ended without a byte");
    if (byte == TLS_RECORD)
        return start_tls(g, err) < 0 ? -1 : 1;
    g->state = HELLO;
    return 1;
}

static int step_hello(struct rp_greeting *g, struct rp_err *err)
{
    const int r = receive_message(g, 0, RP_GREET_HELLO, "RPL1", err);
    if (r <= 0)
        return r;
    const struct rp_channel_opts *o = &g->opts->channel;
    char job[RP_CHANNEL_JOB_MAX] = "";
    memcpy(job, o->job, strnlen(o->job, sizeof job));
    const uint64_t from = rp_get_le(g->talk + 4, 4), to = rp_get_le(g->talk + 8, 4);
    if (memcmp(g->talk + 56, job, sizeof job) != 0 || to != (uint32_t)o->own || from > INT32_MAX)
        return rp_fail(err, RP_SIGNATURE, "a connection for rank %u of the job '%.*s', not for rank %d of job '%s'",
                       (unsigned)to, RP_CHANNEL_JOB_MAX, (const char *)g->talk + 56, o->own, o->job);
    g->rank = (int)from;
    g->one_host = 1;
    if (!g->opts->admit(g->opts->admit_arg, g->rank, 1, err))
        return -1;
    unsigned char *p = g->talk + CHALLENGE_AT;
    memset(p, 0, RP_GREET_CHALLENGE);
    memcpy(p, "RPL2", 4);
    rp_put_le(p + 8, g->opts->no_rings ? 0 : rp_ring_namespace(), 8);
    if (rp_secret_random(p + 16, 32, err) < 0)
        return -1;
    g->state = PROOF;
    return send_message(g, CHALLENGE_AT, RP_GREET_CHALLENGE, "server", err) < 0 ? -1 : 1;
}

static int step_proof(struct rp_greeting *g, struct rp_err *err)
{
    struct rp_err ignored;
    const int r = receive_message(g, PROOF_AT, RP_GREET_PROOF, "RPL3", err);
    if (r <= 0)
        return r;
    if (check_mac(g, PROOF_AT, RP_GREET_PROOF, "client", err) < 0 ||
        !g->opts->admit(g->opts->admit_arg, g->rank, 1, err))
        return -1;
    const int joined = !g->opts->no_rings && rp_rings_join(&g->rings, g->talk + PROOF_AT + 8, &ignored) == 0;
    memset(g->talk + ANSWER_AT, 0, RP_GREET_ANSWER);
    memcpy(g->talk + ANSWER_AT, "RPL4", 4);
    rp_put_le(g->talk + ANSWER_AT + 4, (uint64_t)joined, 4);
    if (send_message(g, ANSWER_AT, RP_GREET_ANSWER, "answer", err) < 0)
        return -1;
    g->state = DONE;
    g->refused_rings = !joined;
    return !joined && start_tls(g, err) < 0 ? -1 : 1;
}

/* ---- a greeting ---- */

int rp_greet_start(struct rp_greeting *g, const struct rp_greet_opts *o, int fd, int client, int rank, int one_host,
                   struct rp_err *err)
{
    *g = (struct rp_greeting){.opts = o,
                              .fd = fd,
                              .client = client,
                              .rank = client ? rank : -1,
                              .one_host = client && one_host,
                              .state = FIRST_BYTE,
                              .rings = {.fd = -1}};
    if (!client)
        return 0;
    return one_host ? send_hello(g, err) : start_tls(g, err);
}

int rp_greet_step(struct rp_greeting *g, struct rp_err *err)
{
    static int (*const step[])(struct rp_greeting *, struct rp_err *) = {
        [FIRST_BYTE] = step_first_byte, [HELLO] = step_hello, [CHALLENGE] = step_challenge, [PROOF] = step_proof,
        [ANSWER] = step_answer,         [TLS] = step_tls,     [WELCOME] = step_welcome,
    };
    while (g->state != DONE) {
        const int r = step[g->state](g, err);
        if (r <= 0)
            return r;
    }
    return 1;
}

int rp_greet_fd(const struct rp_greeting *g)
{
    return g->channel ? rp_channel_fd(g->channel) : g->fd;
}

short rp_greet_events(const struct rp_greeting *g)
{
    return g->channel ? rp_channel_events(g->channel) : POLLIN;
}

void rp_greet_end(struct rp_greeting *g)
{
    rp_closep(&g->fd);
    rp_rings_close(&g->rings);
    rp_channel_free(g->channel);
    g->channel = NULL;
    g->fd = -1;
}
