/* TLS 1.3 by OpenSSL over a non-blocking socket.
 *
 * OpenSSL writes records into `out`, from which they are sent many at a time; it reads through a large buffer of its
 * own. So the only thing that it ever waits for is bytes to read, and no call of it raises SIGPIPE. */
#include "comm/channel.h"

#include "base/buf.h"
#include "base/openssl.h"
#include "base/text.h"
#include "comm/secret.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define KEY_RECORDS (1u << 22) /* with one key */
#define RECORD 16384         /* bytes of one record at most */
#define OUT_MAX (4 * RECORD) /* no more is encrypted while this much waits to be sent */
#define READ_BUFFER (4 * (RECORD + 256))
#define PURPOSE_MAX 16
#define IDENTITY_MAX 128
#define SESSION_CONTEXT "repro" /* OpenSSL needs one to verify a peer */

struct rp_channel {
    SSL *ssl;
    int fd, own, peer, server, done, ended;
    /* identity: of a client, which OpenSSL borrows */
    char purpose[PURPOSE_MAX + 1], job[RP_CHANNEL_JOB_MAX + 1], identity[IDENTITY_MAX];
    unsigned char key[RP_CHANNEL_KEY];
    int (*admit)(void *arg, int rank, struct rp_err *err);
    void *admit_arg;
    struct rp_err failed; /* code: what every further call reports */
    int eof, sys;         /* how the socket failed, noted below OpenSSL */
    char *out;
    size_t out_at, out_size; /* bytes of out: [at, size) are not sent yet */
    uint32_t key_records, records; /* between new keys; since the last ones */
    uint64_t key_updates;
};

/* ---- the identity ---- */

static void identity_of(char out[IDENTITY_MAX], const char *purpose, const char *job, int from, int to)
{
    snprintf(out, IDENTITY_MAX, "repro1 %s %s %d %d", purpose, job, from, to);
}

int rp_channel_identity(const struct rp_channel_opts *o, const void *identity, size_t size)
{
    char text[IDENTITY_MAX] = "", expected[IDENTITY_MAX];
    if (size >= sizeof text || memchr(identity, 0, size))
        return -2;
    memcpy(text, identity, size);
    const int at = snprintf(expected, sizeof expected, "repro1 %s %s ", o->purpose, o->job);
    if (strncmp(text, expected, (size_t)at) != 0)
        return -2;
    char *end;
    const long from = strtol(text + at, &end, 10);
    if (from < -1 || from > INT32_MAX)
        return -2;
    identity_of(expected, o->purpose, o->job, (int)from, o->own); /* one spelling */
    return strcmp(text, expected) == 0 ? (int)from : -2;
}

/* ---- sockets below OpenSSL ---- */

static int send_out(struct rp_channel *c)
{
    while (c->out_at < c->out_size) {
        ssize_t n = RP_RETRY(send(c->fd, c->out + c->out_at, c->out_size - c->out_at, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 0;
        if (n < 0) {
            c->sys = errno;
            return -1;
        }
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_size = 0;
    return 1;
}

static int bio_write(BIO *b, const char *data, int size)
{
    struct rp_channel *c = BIO_get_data(b);
    const size_t n = (size_t)size, room = 2 * OUT_MAX; /* a record more than write() allows, alerts, key updates */
    BIO_clear_retry_flags(b);
    if (c->out_at && c->out_size + n > room) {
        memmove(c->out, c->out + c->out_at, c->out_size - c->out_at);
        c->out_size -= c->out_at;
        c->out_at = 0;
    }
    if (!c->out)
        c->out = rp_alloc(room);
    if (c->out_size + n > room) {
        c->sys = ENOBUFS;
        return -1;
    }
    memcpy(c->out + c->out_size, data, n);
    c->out_size += n;
    return size;
}

static int bio_read(BIO *b, char *data, int size)
{
    struct rp_channel *c = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    ssize_t n = RP_RETRY(recv(c->fd, data, (size_t)size, MSG_DONTWAIT));
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(b);
    else if (n < 0)
        c->sys = errno;
    else if (n == 0)
        c->eof = 1;
    return n < 0 ? -1 : (int)n;
}

static long bio_ctrl(BIO *b, int command, long number, void *pointer)
{
    (void)number, (void)pointer;
    const struct rp_channel *c = BIO_get_data(b);
    return command == BIO_CTRL_EOF ? c->eof : command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP;
}

/* ---- keys ---- */

/* The session that OpenSSL takes a pre-shared key as. */
static SSL_SESSION *session_of(struct rp_channel *c, const char *identity)
{
    static const unsigned char cipher[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
    unsigned char key[RP_SECRET_SIZE];
    SSL_SESSION *s = SSL_SESSION_new();
    rp_secret_derive(key, c->key, "repro channel 1", identity, strlen(identity));
    if (s && (!SSL_SESSION_set1_master_key(s, key, sizeof key) ||
              !SSL_SESSION_set_cipher(s, SSL_CIPHER_find(c->ssl, cipher)) ||
              !SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) ||
              !SSL_SESSION_set1_id_context(s, (const unsigned char *)SESSION_CONTEXT, sizeof SESSION_CONTEXT - 1))) {
        SSL_SESSION_free(s);
        s = NULL;
    }
    explicit_bzero(key, sizeof key);
    return s;
}

static int client_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *size, SSL_SESSION **session)
{
    struct rp_channel *c = SSL_get_app_data(ssl);
    (void)md; /* after a request to repeat the hello: SHA-256, as no other cipher is offered */
    *id = (const unsigned char *)c->identity;
    *size = strlen(c->identity);
    *session = session_of(c, c->identity);
    return *session != NULL;
}

static int server_key(SSL *ssl, const unsigned char *id, size_t size, SSL_SESSION **session)
{
    struct rp_channel *c = SSL_get_app_data(ssl);
    const struct rp_channel_opts o = {.purpose = c->purpose, .job = c->job, .own = c->own};
    char identity[IDENTITY_MAX];
    const int from = rp_channel_identity(&o, id, size);
    *session = NULL;
    c->peer = -2;
    if (from == -2) {
        (void)rp_fail(&c->failed, RP_SIGNATURE,
                      "a connection with the identity '%.*s', not one for rank %d of job '%s'",
                      (int)(size < IDENTITY_MAX ? size : IDENTITY_MAX), (const char *)id, c->own, c->job);
        return 0;
    }
    if (c->admit && !c->admit(c->admit_arg, from, &c->failed))
        return 0;
    identity_of(identity, c->purpose, c->job, from, c->own);
    *session = session_of(c, identity);
    c->peer = from;
    return *session != NULL;
}

/* ---- one context for all channels of the process ---- */

static SSL_CTX *context;
static BIO_METHOD *method;

static void make_context(void)
{
    rp_openssl_init();
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "repro channel");
    SSL_CTX *x = SSL_CTX_new(TLS_method());
    if (!method || !x || !BIO_meth_set_write(method, bio_write) || !BIO_meth_set_read(method, bio_read) ||
        !BIO_meth_set_ctrl(method, bio_ctrl) || !SSL_CTX_set_min_proto_version(x, TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(x, TLS1_3_VERSION) || !SSL_CTX_set_ciphersuites(x, "TLS_AES_128_GCM_SHA256") ||
        !SSL_CTX_set1_groups_list(x, "X25519") || !SSL_CTX_set_num_tickets(x, 0) || !SSL_CTX_set_max_early_data(x, 0) ||
        !SSL_CTX_set_session_id_context(x, (const unsigned char *)SESSION_CONTEXT, sizeof SESSION_CONTEXT - 1)) {
        SSL_CTX_free(x);
        return;
    }
    SSL_CTX_set_options(x, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(x, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(x, 1);
    SSL_CTX_set_default_read_buffer_len(x, READ_BUFFER);
    /* Without a pre-shared key a handshake would go on with certificates: there are none, and none is trusted. Without
     * SSL_VERIFY_PEER a client accepts a server that ignores the key and shows any certificate. */
    SSL_CTX_set_verify(x, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_psk_use_session_callback(x, client_key);
    SSL_CTX_set_psk_find_session_callback(x, server_key);
    context = x;
}

/* ---- errors ---- */

/* The other side does not have the key, as opposed to: does not speak this protocol. */
static int is_about_the_key(unsigned long e)
{
    const int reason = ERR_GET_REASON(e);
    return reason > SSL_AD_REASON_OFFSET || reason == SSL_R_BINDER_DOES_NOT_VERIFY ||
           reason == SSL_R_CERTIFICATE_VERIFY_FAILED || reason == SSL_R_DIGEST_CHECK_FAILED ||
           reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC || reason == SSL_R_NO_SHARED_CIPHER ||
           reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_MISSING_SIGALGS_EXTENSION;
}

/* Notes why the channel is of no further use, and clears OpenSSL's queue. */
static int channel_fail(struct rp_channel *c, const char *doing, struct rp_err *err)
{
    const unsigned long e = ERR_peek_error();
    const char *why = ERR_reason_error_string(e);
    if (c->failed.code)
        ; /* by server_key() or before */
    else if (c->sys)
        (void)rp_fail(&c->failed, RP_UNAVAILABLE, "%s: %s", doing, strerror(c->sys));
    else if (c->eof)
        (void)rp_fail(&c->failed, RP_UNAVAILABLE, "%s: the other side closed the connection", doing);
    else if (is_about_the_key(e))
        (void)rp_fail(&c->failed, RP_SIGNATURE, "%s: the other side does not have the key of this job (TLS: %s)", doing,
                      why ? why : "refused");
    else
        (void)rp_fail(&c->failed, RP_MALFORMED, "%s: the other side does not speak this protocol (TLS: %s)", doing,
                      why ? why : "failed");
    ERR_clear_error();
    *err = c->failed;
    return -1;
}

static int channel_failed(const struct rp_channel *c, struct rp_err *err)
{
    if (c->failed.code)
        *err = c->failed;
    return c->failed.code ? -1 : 0;
}

/* ---- opening ---- */

static struct rp_channel *channel_new(int fd, const struct rp_channel_opts *o, int server, struct rp_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    RP_FD socket = fd;
    if (!rp_secret_is_name(o->job, RP_CHANNEL_JOB_MAX) || !rp_secret_is_name(o->purpose, PURPOSE_MAX))
        return rp_fail_null(err, RP_USAGE, "'%s' is not the id of a job: 1 to %d letters, digits, '.', '_' or '-'",
                            o->job, RP_CHANNEL_JOB_MAX);
    pthread_once(&once, make_context);
    const int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return rp_fail_null(err, RP_UNAVAILABLE, "cannot use the socket of a connection: %s", strerror(errno));
    ERR_clear_error();
    SSL *ssl = context ? SSL_new(context) : NULL;
    BIO *bio = ssl ? BIO_new(method) : NULL;
    if (!bio) {
        SSL_free(ssl);
        ERR_clear_error();
        return rp_fail_null(err, RP_UNAVAILABLE, "OpenSSL cannot encrypt connections in this program");
    }
    struct rp_channel *c = rp_alloc(sizeof *c);
    *c = (struct rp_channel){.ssl = ssl, .fd = rp_fd_take(&socket), .own = o->own, .peer = -2, .server = server,
                             .key_records = o->key_records ? o->key_records : KEY_RECORDS};
    RP_FORMAT(c->purpose, "%s", o->purpose);
    RP_FORMAT(c->job, "%s", o->job);
    memcpy(c->key, o->key, sizeof c->key);
    BIO_set_data(bio, c);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, c);
    return c;
}

struct rp_channel *rp_channel_connect(int fd, const struct rp_channel_opts *o, int peer, struct rp_err *err)
{
    struct rp_channel *c = channel_new(fd, o, 0, err);
    if (!c)
        return NULL;
    c->peer = peer;
    identity_of(c->identity, c->purpose, c->job, c->own, peer);
    SSL_set_connect_state(c->ssl);
    return c;
}

struct rp_channel *rp_channel_accept(int fd, const struct rp_channel_opts *o,
                                     int (*admit)(void *arg, int rank, struct rp_err *err), void *arg,
                                     struct rp_err *err)
{
    struct rp_channel *c = channel_new(fd, o, 1, err);
    if (!c)
        return NULL;
    c->admit = admit;
    c->admit_arg = arg;
    SSL_set_accept_state(c->ssl);
    return c;
}

void rp_channel_free(struct rp_channel *c)
{
    if (!c)
        return;
    SSL_free(c->ssl);
    ERR_clear_error();
    close(c->fd);
    free(c->out);
    explicit_bzero(c, sizeof *c);
    free(c);
}

int rp_channel_handshake(struct rp_channel *c, struct rp_err *err)
{
    static const char doing[] = "opening an encrypted connection";
    if (channel_failed(c, err) < 0)
        return -1;
    if (!c->done) {
        ERR_clear_error();
        const int r = SSL_do_handshake(c->ssl), e = r == 1 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, r);
        if (e != SSL_ERROR_NONE && e != SSL_ERROR_WANT_READ) {
            (void)send_out(c); /* the alert has the reason */
            return channel_fail(c, doing, err);
        }
        if (r == 1 && (!SSL_session_reused(c->ssl) || c->peer == -2)) {
            (void)rp_fail(&c->failed, RP_SIGNATURE, "%s: the other side did not use the key of the job", doing);
            return channel_fail(c, doing, err);
        }
        c->done = r == 1;
    }
    const int sent = send_out(c);
    if (sent < 0)
        return channel_fail(c, doing, err);
    return c->done && sent;
}

int rp_channel_peer(const struct rp_channel *c)
{
    return c->server && !c->done ? -2 : c->peer;
}

uint64_t rp_channel_key_updates(const struct rp_channel *c)
{
    return c->key_updates;
}

int rp_channel_fd(const struct rp_channel *c)
{
    return c->fd;
}

short rp_channel_events(const struct rp_channel *c)
{
    return (short)(POLLIN | (c->out_at < c->out_size ? POLLOUT : 0));
}

/* ---- bytes ---- */

int rp_channel_read(struct rp_channel *c, void *data, size_t size, size_t *got, struct rp_err *err)
{
    *got = 0;
    while (*got < size && !c->ended && !c->failed.code) {
        size_t n = 0;
        ERR_clear_error();
        if (SSL_read_ex(c->ssl, (char *)data + *got, size - *got, &n)) {
            *got += n;
            continue;
        }
        const int e = SSL_get_error(c->ssl, 0);
        if (e == SSL_ERROR_WANT_READ)
            break;
        if (e == SSL_ERROR_ZERO_RETURN)
            c->ended = 1;
        else
            (void)channel_fail(c, "reading from an encrypted connection", err);
    }
    if (!c->failed.code && c->out_at < c->out_size && send_out(c) < 0) /* what reading made OpenSSL answer */
        (void)channel_fail(c, "answering on an encrypted connection", err);
    if (*got)
        return 0; /* an end or a failure is reported by the next call */
    return channel_failed(c, err) < 0 ? -1 : c->ended;
}

int rp_channel_write(struct rp_channel *c, const void *data, size_t size, size_t *took, struct rp_err *err)
{
    static const char doing[] = "writing to an encrypted connection";
    *took = 0;
    if (channel_failed(c, err) < 0)
        return -1;
    while (*took < size) {
        if (c->out_size >= OUT_MAX) {
            const int sent = send_out(c);
            if (sent < 0)
                return channel_fail(c, doing, err);
            if (!sent && c->out_size - c->out_at >= OUT_MAX)
                return 0;
        }
        size_t n = 0;
        ERR_clear_error();
        if (c->records == c->key_records) { /* OpenSSL does not do it by itself */
            if (SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) != 1)
                return channel_fail(c, "changing the keys of an encrypted connection", err);
            c->records = 0;
            c->key_updates++;
        }
        if (!SSL_write_ex(c->ssl, (const char *)data + *took, size - *took < RECORD ? size - *took : RECORD, &n))
            return channel_fail(c, doing, err);
        *took += n;
        c->records++;
    }
    return send_out(c) < 0 ? channel_fail(c, doing, err) : 0;
}

int rp_channel_flush(struct rp_channel *c, struct rp_err *err)
{
    if (channel_failed(c, err) < 0)
        return -1;
    const int sent = send_out(c);
    return sent < 0 ? channel_fail(c, "writing to an encrypted connection", err) : sent;
}

int rp_channel_end(struct rp_channel *c, struct rp_err *err)
{
    if (channel_failed(c, err) < 0)
        return -1;
    ERR_clear_error();
    if (c->done)
        (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
    return rp_channel_flush(c, err);
}
