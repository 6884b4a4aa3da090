/* Any bytes at the beginning of a connection between ranks, and an end.
 *
 *   first byte 'c': from a listening process to a rank that connects within its host; 't': to one of another host
 *   'o': the offer of shared memory by a rank that has the key, whose greeting is completed around it
 *   else: all bytes from a process that connects
 *
 * Nobody is let in who does not have the key, a refusal is one line, and no memory is shared that was not created for
 * it. */
#include "base/buf.h"
#include "comm/greet.h"
#include "comm/secret.h"
#include "tests/fuzz/fuzz.h"

#include <sys/socket.h>
#include <unistd.h>

static const unsigned char key[RP_CHANNEL_KEY] = "a key that no input has";

static int admit(void *arg, int rank, int one_host, struct rp_err *err)
{
    (void)arg, (void)one_host;
    return rank == 3 || rp_fail(err, RP_SIGNATURE, "rank %d", rank) == 0;
}

static struct rp_greet_opts greet_as(int rank)
{
    return (struct rp_greet_opts){.channel = {.key = key, .purpose = "data", .job = "job-1", .own = rank},
                                  .ring_bytes = RP_RING_LEAST,
                                  .admit = admit};
}

/* Steps until there is nothing more to read. */
static int steps(struct rp_greeting *g, struct rp_err *err)
{
    int r = 0;
    for (int i = 0; i < 100 && r == 0; i++)
        r = rp_greet_step(g, err);
    return r;
}

static void put(int fd, const void *data, size_t size)
{
    must(size == 0 || rp_write_all(fd, data, size) == 0);
}

static void mac(unsigned char out[RP_SECRET_SIZE], const char *label, const struct rp_buf *said)
{
    unsigned char k[RP_SECRET_SIZE], labelled[RP_SECRET_SIZE];
    rp_secret_derive(k, key, "repro local 1", "data", 4);
    rp_secret_derive(labelled, k, label, NULL, 0);
    rp_secret_mac(out, labelled, sizeof labelled, said->data, said->size);
}

/* A rank 3 with the key, which offers this. */
static void offer(const uint8_t *data, size_t size)
{
    const struct rp_greet_opts own = greet_as(0);
    struct rp_greeting g;
    struct rp_err err = {0};
    unsigned char hello[RP_GREET_HELLO] = "RPL1\3", challenge[RP_GREET_CHALLENGE], bytes[RP_RING_OFFER] = {0},
                  proof[RP_SECRET_SIZE];
    RP_BUF said = {0};
    int end[2];
    memcpy(hello + 56, "job-1", 5);
    hello[16] = 1; /* a namespace */
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, end) == 0);
    must(rp_greet_start(&g, &own, end[0], 0, -1, 0, &err) == 0);
    put(end[1], hello, sizeof hello);
    must(steps(&g, &err) == 0 && recv(end[1], challenge, sizeof challenge, 0) == sizeof challenge);
    rp_buf_add(&said, hello, sizeof hello);
    rp_buf_add(&said, challenge, sizeof challenge);
    mac(proof, "server", &(struct rp_buf){.data = said.data, .size = said.size - RP_SECRET_SIZE});
    must(rp_secret_equal(proof, challenge + RP_GREET_CHALLENGE - RP_SECRET_SIZE, RP_SECRET_SIZE));
    rp_buf_add(&said, "RPL3\0\0\0", 8);
    rp_buf_add(&said, bytes, sizeof bytes);
    mac(proof, "client", &said);
    put(end[1], "RPL3\0\0\0", 8);
    put(end[1], bytes, sizeof bytes);
    put(end[1], proof, sizeof proof);
    must(steps(&g, &err) == 0 && !g.rings.map && g.rank == 3); /* TLS follows */
    put(end[1], data, size < 60000 ? size : 60000);
    shutdown(end[1], SHUT_WR);
    must(steps(&g, &err) < 0);
    must_be_refusal(&err);
    rp_greet_end(&g);
    close(end[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int client = size && (*data == 'c' || *data == 't');
    const struct rp_greet_opts own = greet_as(client ? 3 : 0);
    struct rp_greeting g;
    struct rp_err err = {0};
    int end[2];
    if (size && *data == 'o') {
        offer(data + 1, size - 1);
        return 0;
    }
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, end) == 0);
    must(rp_greet_start(&g, &own, end[0], client, 0, client && *data == 'c', &err) == 0);
    put(end[1], data + client, size - (size_t)client < 60000 ? size - (size_t)client : 60000);
    shutdown(end[1], SHUT_WR);
    must(steps(&g, &err) < 0);
    must_be_refusal(&err);
    rp_greet_end(&g);
    close(end[1]);
    return 0;
}
