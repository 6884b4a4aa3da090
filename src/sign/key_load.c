/* Reading keys: private ones of PKCS#8 PEM files and of OpenSSH, public ones also of signify and minisign; and the
 * user's own key. */
#include "sign/key_inner.h"

#include "base/hash.h"
#include "base/openssl.h"
#include "base/private_file.h"
#include "sign/openssh.h"
#include "sign/passphrase.h"
#include "sign/point.h"
#include "sign/signify.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY_FILE_MAX 16384

/* The private bytes of a file; wiped when freed. */
struct secret {
    char data[KEY_FILE_MAX];
    size_t size;
    struct stat st;
    int in_memory; /* a mounted Secret */
};
static void secret_freep(struct secret **s)
{
    if (*s)
        rp_wipe(*s, sizeof **s);
    free(*s);
}

static int read_secret_file(struct secret *s, const char *path, struct rp_err *err)
{
    RP_FD fd = rp_private_open(path, "key", err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &s->st) < 0)
        return rp_fail(err, RP_IO, "cannot open key '%s': %s", path, strerror(errno));
    if (!S_ISREG(s->st.st_mode))
        return rp_fail(err, RP_MALFORMED, "key '%s' is not a regular file", path);
    s->in_memory = rp_private_in_memory(fd, &s->st);
    for (;;) {
        ssize_t n = RP_RETRY(read(fd, s->data + s->size, sizeof s->data - s->size));
        if (n < 0)
            return rp_fail(err, RP_IO, "cannot read key '%s': %s", path, strerror(errno));
        if (n == 0)
            return 0;
        s->size += (size_t)n;
        if (s->size == sizeof s->data)
            return rp_fail(err, RP_MALFORMED, "key '%s' is larger than a key (%d bytes)", path, KEY_FILE_MAX);
    }
}

/* What a key file may hold. */
enum form {
    NO_KEY,
    PEM_PUBLIC,
    PEM_SECRET,
    PEM_ENCRYPTED,
    OPENSSH_PUBLIC,
    OPENSSH_SECRET,
    OTHER_PUBLIC, /* of signify or minisign */
    OTHER_SECRET
};
enum { PUBLIC_RECORD = 42, SIGNIFY_RECORD = 104, MINISIGN_RECORD = 158 };

static int has_block(const char *data, size_t size, const char *label)
{
    char begin[64];
    RP_FORMAT(begin, "-----BEGIN %s-----", label);
    return memmem(data, size, begin, strlen(begin)) != NULL;
}

static enum form form_of(const char *data, size_t size)
{
    if (rp_is_commented(data, size)) {
        size_t n = rp_record_size(data, size);
        return n == SIGNIFY_RECORD || n == MINISIGN_RECORD ? OTHER_SECRET : OTHER_PUBLIC;
    }
    return has_block(data, size, "ENCRYPTED PRIVATE KEY") ? PEM_ENCRYPTED
           : has_block(data, size, "PRIVATE KEY")         ? PEM_SECRET
           : has_block(data, size, "PUBLIC KEY")          ? PEM_PUBLIC
           : rp_is_openssh_private(data, size)            ? OPENSSH_SECRET
           : rp_is_openssh_public(data, size)             ? OPENSSH_PUBLIC
                                                          : NO_KEY;
}

/* What a file with none of the forms above holds. */
static int fail_no_key(const char *data, size_t size, const char *what, const char *expected, struct rp_err *err)
{
    static const char *const kinds[] = {"EC", "RSA", "DSA"};
    char label[32];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_block(data, size, RP_FORMAT(label, "%s PRIVATE KEY", kinds[i])))
            return rp_fail(err, RP_MALFORMED,
                           "%s is a private key in %s form; expected Ed25519 in PKCS#8 PEM (repro key new makes one)",
                           what, kinds[i]);
    return rp_fail(err, RP_MALFORMED, size ? "%s holds no key; expected %s" : "%s is empty; expected %s", what,
                   expected);
}

static int is_public(enum form form)
{
    return form == PEM_PUBLIC || form == OPENSSH_PUBLIC || form == OTHER_PUBLIC;
}

static int get_passphrase(struct rp_passphrase *p, const char *path, int fd, struct rp_err *err)
{
    char prompt[300];
    snprintf(prompt, sizeof prompt, "passphrase of key '%.200s': ", path);
    return fd >= 0 ? rp_passphrase_from_fd(p, fd, err) : rp_passphrase_ask(p, prompt, 0, err);
}

/* Context of OpenSSL's passphrase callback. */
struct asking {
    const char *path;
    int fd, tried, asked; /* asked: got a passphrase */
    struct rp_err *err;
};

static int on_passphrase(char *out, int size, int writing, void *arg)
{
    struct asking *a = arg;
    RP_PASSPHRASE p = {{0}};
    (void)writing;
    if (a->tried++) /* OpenSSL tries one decoder after the other; the user is asked once */
        return -1;
    int failed = get_passphrase(&p, a->path, a->fd, a->err) < 0;
    size_t n = strlen(p.text);
    if (failed || n > (size_t)size)
        return -1;
    memcpy(out, p.text, n);
    a->asked = 1;
    return (int)n;
}

static int only_ed25519(const EVP_PKEY *pkey, const char *what, struct rp_err *err)
{
    if (EVP_PKEY_is_a(pkey, "ED25519"))
        return 0;
    const char *type = EVP_PKEY_get0_type_name(pkey);
    return rp_fail(err, RP_MALFORMED, "%s is a key of type %s; expected Ed25519 (repro key new makes one)", what,
                   type ? type : "unknown");
}

/* With two keys in one file a reader would have to guess which of them is meant. */
static int only_one_block(const char *data, size_t size, const char *what, struct rp_err *err)
{
    static const char begin[] = "-----BEGIN ";
    const char *end = data + size, *first = memmem(data, size, begin, strlen(begin));
    if (!first || !memmem(first + 1, (size_t)(end - first) - 1, begin, strlen(begin)))
        return 0;
    return rp_fail(err, RP_MALFORMED, "%s holds several PEM blocks; expected one key: keep each in a file of its own",
                   what);
}

static int check_point(const EVP_PKEY *pkey, const char *what, struct rp_err *err)
{
    unsigned char key[32];
    size_t n = sizeof key;
    RP_BUG_IF(EVP_PKEY_get_raw_public_key(pkey, key, &n) != 1 || n != sizeof key);
    return rp_point_check(key, what, err);
}

/* A public key of OpenSSH, or of signify or minisign, which also give it a number. */
static struct rp_key_pair *load_foreign_public(enum form form, const char *text, size_t size, const char *what,
                                               struct rp_err *err)
{
    struct rp_foreign_public raw;
    int read = form == OPENSSH_PUBLIC ? rp_openssh_public_read(raw.key, text, size, what, err)
                                      : rp_foreign_public_read(&raw, text, size, what, err);
    if (read < 0 || rp_point_check(raw.key, what, err) < 0)
        return NULL;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, raw.key, sizeof raw.key);
    if (!pkey) {
        rp_key_fail(err, RP_MALFORMED, "%s is not a valid public key", what);
        return NULL;
    }
    struct rp_key_pair *k = rp_key_new(pkey);
    if (form == OTHER_PUBLIC)
        memcpy(k->number, raw.number, sizeof k->number);
    return k;
}

/* ---- PEM ---- */

/* A public key in exactly the form that this program and OpenSSL write, or NULL. OpenSSL reads every form, but tries
 * all of its decoders: a twentieth of the time of `compare`. */
static EVP_PKEY *read_written_pem(const char *pem, size_t size)
{
    static const char begin[] = "-----BEGIN PUBLIC KEY-----\n", end[] = "\n-----END PUBLIC KEY-----\n";
    enum { BEGIN = sizeof begin - 1, CODED = RP_KEY_DER / 3 * 4 + 4, END = sizeof end - 1 };
    RP_BUF der = {0};
    if (size != BEGIN + CODED + END || memcmp(pem, begin, BEGIN) != 0 || memcmp(pem + BEGIN + CODED, end, END) != 0 ||
        rp_unbase64(&der, pem + BEGIN, CODED) < 0 || der.size != RP_KEY_DER ||
        memcmp(der.data, rp_key_der_head, sizeof rp_key_der_head) != 0)
        return NULL;
    return EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (unsigned char *)der.data + sizeof rp_key_der_head, 32);
}

static EVP_PKEY *read_public_pem(const char *pem, size_t size)
{
    EVP_PKEY *pkey = read_written_pem(pem, size);
    RP_KEY_BIO *bio = pkey ? NULL : BIO_new_mem_buf(pem, (int)size);
    return bio ? PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL) : pkey;
}

/* Reads a file that holds a private key and that others cannot read. */
static int read_private(struct secret *s, enum form *form, const char *path, struct rp_err *err)
{
    if (read_secret_file(s, path, err) < 0)
        return -1;
    static const char expected[] = "a private key in PKCS#8 PEM form, or of OpenSSH";
    RP_FREE char *what = rp_asprintf("key '%s'", path);
    *form = form_of(s->data, s->size);
    if (*form == PEM_PUBLIC || *form == OPENSSH_PUBLIC || rp_record_size(s->data, s->size) == PUBLIC_RECORD)
        return rp_fail(err, RP_MALFORMED, "%s holds a public key; expected %s", what, expected);
    if (*form == OTHER_SECRET)
        return rp_fail(err, RP_MALFORMED,
                       "%s is a secret key of signify or minisign, which are not read: make one with 'repro key new', "
                       "whose help shows how to convert one without a passphrase",
                       what);
    if (*form == NO_KEY || is_public(*form))
        return fail_no_key(s->data, s->size, what, expected, err);
    if (only_one_block(s->data, s->size, what, err) < 0)
        return -1;
    /* checked last: for a file that is not a key, chmod would be the wrong advice */
    if (s->st.st_mode & (s->in_memory ? 007 : 077))
        return rp_fail(err, RP_USAGE,
                       "key '%s' can be read by others (mode %04o): run chmod 600 '%s'; make a new key if it "
                       "may have been read",
                       path, (unsigned)(s->st.st_mode & 07777), path);
    return rp_private_check(&s->st, path, "the key", err);
}

int rp_key_check(const char *path, struct rp_err *err)
{
    __attribute__((cleanup(secret_freep))) struct secret *s = rp_alloc(sizeof *s);
    enum form form;
    if (read_private(s, &form, path, err) < 0)
        return -1;
    if (form == PEM_ENCRYPTED)
        return 0;
    struct rp_key_pair *k = rp_key_load(path, -1, err);
    rp_key_free(k);
    return k ? 0 : -1;
}

static struct rp_key_pair *load_openssh_private(const char *text, size_t size, const char *path, struct rp_err *err)
{
    unsigned char seed[32];
    RP_FREE char *what = rp_asprintf("key '%s'", path);
    if (rp_openssh_private_read(seed, text, size, what, err) < 0)
        return NULL;
    EVP_PKEY *pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof seed);
    rp_wipe(seed, sizeof seed);
    if (!pkey) {
        rp_key_fail(err, RP_MALFORMED, "%s is damaged", what);
        return NULL;
    }
    return rp_key_new(pkey);
}

struct rp_key_pair *rp_key_load(const char *path, int passphrase_fd, struct rp_err *err)
{
    rp_openssl_init();
    __attribute__((cleanup(secret_freep))) struct secret *s = rp_alloc(sizeof *s);
    enum form form;
    if (read_private(s, &form, path, err) < 0)
        return NULL;
    if (form == OPENSSH_SECRET)
        return load_openssh_private(s->data, s->size, path, err);
    struct asking a = {.path = path, .fd = passphrase_fd, .err = err};
    *err = (struct rp_err){0};
    RP_KEY_BIO *bio = BIO_new_mem_buf(s->data, (int)s->size);
    RP_KEY_PKEY *pkey = bio ? PEM_read_bio_PrivateKey(bio, NULL, on_passphrase, &a) : NULL;
    if (!pkey) {
        if (form == PEM_ENCRYPTED && !a.asked && err->code != RP_OK) {
            ERR_clear_error();
            rp_wrap(err, "key '%s'", path); /* the callback has filled *err: there is no passphrase */
        } else if (a.asked) {
            ERR_clear_error(); /* its reason differs with chance: one wrong passphrase of 256 gives a valid padding */
            rp_fail(err, RP_USAGE, "the passphrase does not open key '%s'", path);
        } else {
            rp_key_fail(err, RP_MALFORMED, "key '%s' is damaged", path);
        }
        return NULL;
    }
    RP_FREE char *what = rp_asprintf("'%s'", path);
    if (only_ed25519(pkey, what, err) < 0)
        return NULL;
    struct rp_key_pair *k = rp_key_new(pkey);
    pkey = NULL;
    return k;
}

struct rp_key_pair *rp_key_load_public(const char *pem, size_t size, const char *what, struct rp_err *err)
{
    rp_openssl_init();
    if (size > KEY_FILE_MAX)
        return rp_fail_null(err, RP_MALFORMED, "%s is larger than a public key (%zu bytes)", what, size);
    if (size == 0)
        return rp_fail_null(err, RP_MALFORMED, "%s is empty; expected a public key", what);
    enum form form = form_of(pem, size);
    if (form == OPENSSH_PUBLIC || form == OTHER_PUBLIC)
        return load_foreign_public(form, pem, size, what, err);
    if (form == NO_KEY)
        return rp_fail_null(err, RP_MALFORMED, "%s holds no public key in PEM, OpenSSH, signify or minisign form",
                            what);
    if (form == OTHER_SECRET)
        return rp_fail_null(err, RP_MALFORMED,
                            "%s holds a secret key of signify or minisign; expected the public key that was made with "
                            "it",
                            what);
    if (form != PEM_PUBLIC)
        return rp_fail_null(err, RP_MALFORMED,
                            "%s holds a private key; expected a public one, as 'repro key show --form pem FILE' prints "
                            "it",
                            what);
    if (only_one_block(pem, size, what, err) < 0)
        return NULL;
    RP_KEY_PKEY *pkey = read_public_pem(pem, size);
    if (!pkey) {
        rp_key_fail(err, RP_MALFORMED, "%s is not a valid public key", what);
        return NULL;
    }
    if (only_ed25519(pkey, what, err) < 0 || check_point(pkey, what, err) < 0)
        return NULL;
    struct rp_key_pair *k = rp_key_new(pkey);
    pkey = NULL;
    return k;
}

static struct rp_key_pair *load_file(const char *path, int passphrase_fd, int also_private, struct rp_err *err)
{
    __attribute__((cleanup(secret_freep))) struct secret *s = rp_alloc(sizeof *s);
    RP_FREE char *what = rp_asprintf("'%s'", path);
    if (read_secret_file(s, path, err) < 0)
        return NULL;
    enum form form = form_of(s->data, s->size);
    if (form == NO_KEY)
        return fail_no_key(s->data, s->size, what,
                           also_private ? "a public key in PEM form or one of OpenSSH, signify or minisign, or the "
                                          "private key that it belongs to"
                                        : "a public key in PEM form or one of OpenSSH, signify or minisign",
                           err),
               NULL;
    return is_public(form) || !also_private ? rp_key_load_public(s->data, s->size, what, err)
                                            : rp_key_load(path, passphrase_fd, err);
}

struct rp_key_pair *rp_key_load_any(const char *path, int passphrase_fd, struct rp_err *err)
{
    return load_file(path, passphrase_fd, 1, err);
}

struct rp_key_pair *rp_key_load_public_file(const char *path, struct rp_err *err)
{
    return load_file(path, -1, 0, err);
}

/* ---- the own key ---- */

/* ---- the user's own ---- */

/* otherwise: what else helps, as the end of the message. */
static char *config_path(const char *leaf, const char *otherwise, struct rp_err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (xdg && *xdg == '/') /* the specification requires relative paths to be ignored */
        return rp_asprintf("%s/repro/%s", xdg, leaf);
    if (home && *home == '/')
        return rp_asprintf("%s/.config/repro/%s", home, leaf);
    const char *relative = xdg && *xdg ? xdg : home && *home ? home : NULL;
    if (relative)
        return rp_fail_null(err, RP_USAGE, "%s is '%s', which is not an absolute path: write all of it%s",
                            relative == xdg ? "XDG_CONFIG_HOME" : "HOME", relative, otherwise);
    return rp_fail_null(err, RP_USAGE, "neither HOME nor XDG_CONFIG_HOME is set: set one%s", otherwise);
}

char *rp_config_path(const char *leaf, struct rp_err *err)
{
    return config_path(leaf, "", err);
}

char *rp_key_default_path(struct rp_err *err)
{
    const char *own = getenv("REPRO_KEY");
    return own && *own ? rp_strdup(own) : config_path("key.pem", ", or REPRO_KEY=FILE for a key elsewhere", err);
}

/* The own key, as it was read last: `compare` of many bundles asks for it at each of them. */
static struct {
    pthread_mutex_t lock;
    unsigned char file[RP_SHA256_SIZE]; /* digest of its bytes */
    char fingerprint[RP_FINGERPRINT_SIZE];
} own_key = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int recall_own_key(char fingerprint[RP_FINGERPRINT_SIZE], const unsigned char file[RP_SHA256_SIZE])
{
    pthread_mutex_lock(&own_key.lock);
    const int is_same = *own_key.fingerprint && memcmp(own_key.file, file, RP_SHA256_SIZE) == 0;
    if (is_same)
        memcpy(fingerprint, own_key.fingerprint, RP_FINGERPRINT_SIZE);
    pthread_mutex_unlock(&own_key.lock);
    return is_same;
}

static void keep_own_key(const char fingerprint[RP_FINGERPRINT_SIZE], const unsigned char file[RP_SHA256_SIZE])
{
    pthread_mutex_lock(&own_key.lock);
    memcpy(own_key.file, file, RP_SHA256_SIZE);
    memcpy(own_key.fingerprint, fingerprint, RP_FINGERPRINT_SIZE);
    pthread_mutex_unlock(&own_key.lock);
}

int rp_key_own(char fingerprint[RP_FINGERPRINT_SIZE], struct rp_err *err)
{
    unsigned char file[RP_SHA256_SIZE];
    __attribute__((cleanup(secret_freep))) struct secret *s = rp_alloc(sizeof *s);
    RP_FREE char *path = rp_key_default_path(err);
    enum form form;
    if (!path || read_private(s, &form, path, err) < 0)
        return -1;
    if (form == PEM_ENCRYPTED)
        return rp_fail(err, RP_UNAVAILABLE, "key '%s' is encrypted", path);
    rp_sha256_bytes(file, s->data, s->size);
    if (recall_own_key(fingerprint, file))
        return 0;
    RP_KEY *k = rp_key_load(path, -1, err);
    if (!k)
        return -1;
    rp_key_fingerprint(k, fingerprint);
    keep_own_key(fingerprint, file);
    return 0;
}

struct rp_key_pair *rp_key_load_or_create(const char *path, int passphrase_fd, int *created, struct rp_err *err)
{
    struct stat st;
    *created = 0;
    if (path)
        return rp_key_load(path, passphrase_fd, err);
    RP_FREE char *own = rp_key_default_path(err);
    if (!own)
        return NULL;
    if (stat(own, &st) < 0 && errno == ENOENT) {
        if (rp_key_create(own, NULL, err) == 0)
            *created = 1;
        else if (stat(own, &st) < 0) /* unless another run created it first */
            return NULL;
    }
    return rp_key_load(own, passphrase_fd, err);
}
