/* Encrypted channels over a socket pair: identities, keys, replays, garbage, broken connections. */
#include "base/buf.h"
#include "base/clock.h"
#include "comm/channel.h"
#include "comm/secret.h"
#include "tests/unit/tap.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static const unsigned char key[RP_CHANNEL_KEY] = "thirty-two bytes for this job...",
                           other_key[RP_CHANNEL_KEY] = "another key";

static struct rp_channel_opts side(int own, const char *job, const unsigned char *k)
{
    return (struct rp_channel_opts){.key = k, .purpose = "data", .job = job, .own = own};
}

struct pair {
    struct rp_channel *client, *server;
    struct rp_err client_err, server_err;
    int client_result, server_result;
};

static void pair_sockets(int fd[2])
{
    RP_BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0);
}

/* Handshakes of both sides until both have a result. A failure of one closes its socket. */
static void pair_handshake(struct pair *p)
{
    for (int i = 0; i < 1000 && (!p->client_result || !p->server_result); i++) {
        if (p->client && !p->client_result)
            p->client_result = rp_channel_handshake(p->client, &p->client_err);
        if (p->server && !p->server_result)
            p->server_result = rp_channel_handshake(p->server, &p->server_err);
        if (p->server_result < 0) {
            rp_channel_free(p->server);
            p->server = NULL;
        }
    }
}

static struct pair pair_open(struct rp_channel_opts client, int to, struct rp_channel_opts server,
                             int (*admit)(void *arg, int rank, struct rp_err *err))
{
    struct pair p = {0};
    int fd[2];
    pair_sockets(fd);
    p.client = rp_channel_connect(fd[0], &client, to, &p.client_err);
    p.server = rp_channel_accept(fd[1], &server, admit, &p, &p.server_err);
    CHECK(p.client && p.server);
    pair_handshake(&p);
    return p;
}

static void pair_close(struct pair *p)
{
    rp_channel_free(p->client);
    rp_channel_free(p->server);
}

TEST(macs)
{
    /* RFC 4231, cases 1, 2 and 6 */
    unsigned char mac[RP_SECRET_SIZE], k[131];
    char hex[2 * sizeof mac + 1];
    memset(k, 0x0b, 20);
    rp_secret_mac(mac, k, 20, "Hi There", 8);
    rp_hex(hex, mac, sizeof mac);
    CHECK_STR(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    rp_secret_mac(mac, "Jefe", 4, "what do ya want for nothing?", 28);
    rp_hex(hex, mac, sizeof mac);
    CHECK_STR(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(k, 0xaa, sizeof k);
    rp_secret_mac(mac, k, sizeof k, "Test Using Larger Than Block-Size Key - Hash Key First", 54);
    rp_hex(hex, mac, sizeof mac);
    CHECK_STR(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    CHECK(rp_secret_equal("abc", "abc", 3) && !rp_secret_equal("abc", "abd", 3) && !rp_secret_equal("bbc", "abc", 3));
}

TEST(identities)
{
    const struct rp_channel_opts o = side(4, "job-1", key);
    static const struct {
        const char *text;
        int rank;
    } cases[] = {
        {"repro1 data job-1 3 4", 3}, {"repro1 data job-1 -1 4", -1}, {"repro1 data job-1 3 5", -2},
        {"repro1 data job-2 3 4", -2}, {"repro1 control job-1 3 4", -2}, {"repro1 data job-1 03 4", -2},
        {"repro1 data job-1 3 4 ", -2}, {"repro1 data job-1 -2 4", -2}, {"repro2 data job-1 3 4", -2},
        {"repro1 data job-1  3 4", -2}, {"repro1 data job-1 99999999999 4", -2}, {"", -2},
        {"repro1 data job-1 +3 4", -2}, {"repro1 data job-1 2147483647 4", 2147483647},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(rp_channel_identity(&o, cases[i].text, strlen(cases[i].text)) == cases[i].rank, "%s", cases[i].text);
    CHECK(rp_channel_identity(&o, "repro1 data job-1 3 4\0", 22) == -2);
}

TEST(bytes_of_any_size)
{
    struct rp_channel_opts client = side(3, "job", key);
    client.key_records = 7; /* the keys change in between, on one side */
    struct pair p = pair_open(client, 1, side(1, "job", key), NULL);
    CHECK(p.client_result == 1 && p.server_result == 1, "%s / %s", p.client_err.msg, p.server_err.msg);
    CHECK(rp_channel_peer(p.server) == 3 && rp_channel_peer(p.client) == 1);
    enum { TOTAL = 3000000 };
    unsigned char *sent = rp_alloc(TOTAL), *got = rp_alloc(TOTAL);
    for (size_t i = 0; i < TOTAL; i++)
        sent[i] = (unsigned char)(i * 2654435761u >> 13);
    struct rp_err err = {0};
    size_t out = 0, in = 0, piece = 1, n;
    int flushed = 0;
    while (in < TOTAL || !flushed) {
        piece = piece * 3 % 200003 + 1;
        if (out < TOTAL) {
            CHECK(rp_channel_write(p.client, sent + out, piece < TOTAL - out ? piece : TOTAL - out, &n, &err) == 0,
                  "%s", err.msg);
            out += n;
        } else if (!flushed) {
            flushed = rp_channel_flush(p.client, &err);
        }
        CHECK((rp_channel_events(p.client) & POLLIN) != 0);
        if (!CHECK(rp_channel_read(p.server, got + in, piece < TOTAL - in ? piece : TOTAL - in, &n, &err) == 0, "%s",
                   err.msg))
            break;
        in += n;
    }
    CHECK(memcmp(sent, got, TOTAL) == 0);
    CHECK(rp_channel_key_updates(p.client) > 20 && rp_channel_key_updates(p.server) == 0, "%d changes of keys",
          (int)rp_channel_key_updates(p.client));
    CHECK(rp_channel_end(p.client, &err) == 1);
    CHECK(rp_channel_read(p.server, got, 10, &n, &err) == 1 && n == 0); /* an end, not a failure */
    CHECK(rp_channel_write(p.server, "back", 4, &n, &err) == 0 && n == 4);
    CHECK(rp_channel_read(p.client, got, 10, &n, &err) == 0 && n == 4 && memcmp(got, "back", 4) == 0);
    pair_close(&p);
    free(sent);
    free(got);
}

TEST(wrong_keys_and_identities)
{
    const struct {
        const char *name;
        struct rp_channel_opts client;
        int to;
    } cases[] = {
        {"key", side(3, "job", other_key), 1},
        {"job", side(3, "job2", key), 1},
        {"recipient", side(3, "job", key), 2},
        {"purpose", {.key = key, .purpose = "control", .job = "job", .own = 3}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pair p = pair_open(cases[i].client, cases[i].to, side(1, "job", key), NULL);
        CHECK(p.server_result == -1 && p.server_err.code == RP_SIGNATURE, "%s: %s", cases[i].name, p.server_err.msg);
        CHECK(p.client_result == -1 && p.client_err.code == RP_SIGNATURE, "%s: %s", cases[i].name, p.client_err.msg);
        pair_close(&p);
    }
}

static int admit_none(void *arg, int rank, struct rp_err *err)
{
    (void)arg;
    return rp_fail(err, RP_USAGE, "rank %d", rank) == 0;
}

TEST(refused_by_the_caller)
{
    struct pair p = pair_open(side(3, "job", key), 1, side(1, "job", key), admit_none);
    CHECK(p.server_result == -1 && p.server_err.code == RP_USAGE);
    CHECK_STR(p.server_err.msg, "rank 3");
    CHECK(p.client_result == -1);
    pair_close(&p);
}

TEST(bad_job)
{
    static const char *const jobs[] = {"", "two words", "a/b",
                                       "12345678901234567890123456789012345678901234567890123456789012345"};
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct rp_err err = {0};
        const struct rp_channel_opts o = side(0, jobs[i], key);
        int fd[2];
        pair_sockets(fd);
        CHECK(!rp_channel_connect(fd[0], &o, 1, &err) && err.code == RP_USAGE, "%s", jobs[i]);
        CHECK(fcntl(fd[0], F_GETFD) < 0); /* taken all the same */
        close(fd[1]);
    }
}

/* What a client sent in its handshake, sent again. */
TEST(replay)
{
    int fd[2], wire[2];
    struct rp_err err = {0};
    const struct rp_channel_opts client = side(3, "job", key), server = side(1, "job", key);
    RP_BUF recording = {0};
    pair_sockets(fd);
    pair_sockets(wire);
    struct rp_channel *c = rp_channel_connect(fd[0], &client, 1, &err),
                      *s = rp_channel_accept(wire[1], &server, NULL, NULL, &err);
    char bytes[4096];
    int done = 0;
    for (int i = 0; i < 100 && done < 2; i++) { /* a wire that listens */
        done = (rp_channel_handshake(c, &err) == 1) + (rp_channel_handshake(s, &err) == 1);
        ssize_t n = recv(fd[1], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) {
            rp_buf_add(&recording, bytes, (size_t)n);
            CHECK(send(wire[0], bytes, (size_t)n, 0) == n);
        }
        n = recv(wire[0], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0)
            CHECK(send(fd[1], bytes, (size_t)n, 0) == n);
    }
    CHECK(done == 2 && recording.size > 200);
    rp_channel_free(c);
    rp_channel_free(s);
    close(fd[1]);
    close(wire[0]);

    pair_sockets(fd);
    s = rp_channel_accept(fd[1], &server, NULL, NULL, &err);
    CHECK(rp_write_all(fd[0], recording.data, recording.size) == 0);
    int result = 0;
    for (int i = 0; i < 10 && !result; i++)
        result = rp_channel_handshake(s, &err);
    CHECK(result == -1 && err.code == RP_SIGNATURE, "%d %s", result, err.msg);
    CHECK(rp_channel_peer(s) == -2);
    rp_channel_free(s);
    close(fd[0]);
}

TEST(garbage)
{
    static const char *const texts[] = {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x40\x00\x01\x02\x03\x04\x05\x06",
                                        "RPL1 and what follows that", "\x16\x03\x03\x00\x04\x01\x00\x00\x00"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct rp_channel_opts server = side(1, "job", key);
        struct rp_err err = {0};
        int fd[2], result = 0;
        pair_sockets(fd);
        struct rp_channel *s = rp_channel_accept(fd[1], &server, NULL, NULL, &err);
        CHECK(rp_write_all(fd[0], texts[i], strlen(texts[i])) == 0 || i);
        shutdown(fd[0], SHUT_WR);
        for (int k = 0; k < 10 && !result; k++)
            result = rp_channel_handshake(s, &err);
        CHECK(result == -1 && (err.code == RP_MALFORMED || err.code == RP_UNAVAILABLE) && *err.msg, "%zu: %s", i,
              err.msg);
        CHECK(rp_channel_handshake(s, &err) == -1); /* and stays so */
        rp_channel_free(s);
        close(fd[0]);
    }
}

/* A server without the key, which has a certificate that it signed itself. */
TEST(server_with_a_certificate)
{
    int fd[2], result = 0;
    struct rp_err err = {0};
    EVP_PKEY *pkey = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    X509_gmtime_adj(X509_getm_notBefore(cert), 0);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, pkey);
    X509_sign(cert, pkey, EVP_sha256());
    CHECK(SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_use_PrivateKey(ctx, pkey) == 1);
    pair_sockets(fd);
    const struct rp_channel_opts client = side(3, "job", key);
    struct rp_channel *c = rp_channel_connect(fd[0], &client, 1, &err);
    SSL *ssl = SSL_new(ctx);
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    SSL_set_fd(ssl, fd[1]);
    for (int i = 0; i < 10 && !result; i++) {
        (void)SSL_accept(ssl);
        ERR_clear_error();
        result = rp_channel_handshake(c, &err);
    }
    CHECK(result == -1 && err.code == RP_SIGNATURE, "%d %s", result, err.msg);
    rp_channel_free(c);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    X509_free(cert);
    EVP_PKEY_free(pkey);
    close(fd[1]);
}

TEST(changed_and_cut)
{
    char bytes[256];
    size_t n;
    struct rp_err err = {0};
    struct pair p = pair_open(side(3, "job", key), 1, side(1, "job", key), NULL);
    CHECK(send(rp_channel_fd(p.client), "\x17\x03\x03\x00\x20 32 bytes that nobody encrypted..", 37, 0) == 37);
    CHECK(rp_channel_read(p.server, bytes, sizeof bytes, &n, &err) == -1 && err.code == RP_SIGNATURE && n == 0, "%s",
          err.msg);
    CHECK(rp_channel_write(p.server, "x", 1, &n, &err) == -1 && n == 0);
    pair_close(&p);

    p = pair_open(side(3, "job", key), 1, side(1, "job", key), NULL);
    rp_channel_free(p.client); /* without rp_channel_end() */
    p.client = NULL;
    CHECK(rp_channel_read(p.server, bytes, sizeof bytes, &n, &err) == -1 && err.code == RP_UNAVAILABLE, "%s", err.msg);
    /* no SIGPIPE */
    CHECK(rp_channel_write(p.server, bytes, sizeof bytes, &n, &err) == -1 && err.code == RP_UNAVAILABLE);
    pair_close(&p);
}
