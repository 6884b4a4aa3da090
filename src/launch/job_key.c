#include "launch/job_key.h"

#include "base/buf.h"
#include "base/private_file.h"
#include "base/text.h"
#include "comm/secret.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY "the job's key"
enum { OTHERS_READ = 0077 };

void rp_job_key_fini(struct rp_job_key *k)
{
    explicit_bzero(k, sizeof *k);
}

void rp_job_key_hex(char out[RP_JOB_KEY_HEX], const struct rp_job_key *k)
{
    rp_hex(out, k->bytes, sizeof k->bytes);
}

int rp_job_key_new(struct rp_job_key *k, struct rp_err *err)
{
    *k = (struct rp_job_key){.source = "new"};
    rp_secret_stay_out_of_cores();
    return rp_secret_random(k->bytes, sizeof k->bytes, err);
}

/* All zeros, as from a placeholder or an empty buffer, and the like. */
static int is_one_byte(const struct rp_job_key *k)
{
    unsigned char others = 0;
    for (size_t i = 1; i < sizeof k->bytes; i++)
        others |= k->bytes[i] ^ k->bytes[0];
    return !others;
}

/* 64 hex digits of either case, with blanks and line ends around. `text` is changed. */
static int parse_key(struct rp_job_key *k, char *text, const char *source, struct rp_err *err)
{
    static const char blanks[] = " \t\r\n";
    char *digits = text + strspn(text, blanks);
    digits[strcspn(digits, blanks)] = 0;
    for (char *c = digits; *c; c++)
        if (*c >= 'A' && *c <= 'F')
            *c = (char)(*c - 'A' + 'a');
    if (rp_unhex(k->bytes, sizeof k->bytes, digits) < 0) {
        rp_job_key_fini(k);
        return rp_fail(err, RP_MALFORMED, KEY " in %s is not 64 hex digits: 'repro launch key' makes one", source);
    }
    if (is_one_byte(k)) {
        rp_job_key_fini(k);
        return rp_fail(err, RP_USAGE,
                       KEY " in %s is one byte repeated, which is easy to guess: 'repro launch key' makes one", source);
    }
    k->source = source;
    return 1;
}

/* Up to the end or the first line end, at most what a key may have. */
static int read_descriptor(struct rp_job_key *k, int fd, const char *source, struct rp_err *err)
{
    char text[256] = "";
    size_t used = 0;
    ssize_t n = 1;
    while (used < sizeof text - 1 && !memchr(text, '\n', used) &&
           (n = RP_RETRY(read(fd, text + used, sizeof text - 1 - used))) > 0)
        used += (size_t)n;
    int e = errno;
    text[used] = 0;
    int result = n < 0 ? rp_fail(err, RP_IO, "cannot read " KEY " from %s: %s", source, strerror(e))
                       : parse_key(k, text, source, err);
    explicit_bzero(text, sizeof text);
    return result;
}

static int read_key_file(struct rp_job_key *k, const char *path, const char *source, struct rp_err *err)
{
    struct stat st;
    RP_FREE char *real = realpath(path, NULL); /* a Secret is mounted as links */
    RP_FD fd = real ? rp_private_open(real, KEY, err)
                    : rp_fail(err, RP_IO, "cannot open " KEY " '%s': %s", path, strerror(errno));
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return rp_fail(err, RP_USAGE, KEY " '%s' is not a regular file", path);
    if (rp_private_check(&st, real, KEY, err) < 0)
        return -1;
    if ((st.st_mode & OTHERS_READ) && !rp_private_in_memory(fd, &st))
        return rp_fail(err, RP_USAGE, KEY " can be read by others (mode %04o): run chmod 600 '%s' and make a new key",
                       (unsigned)(st.st_mode & 07777), path);
    return read_descriptor(k, fd, source, err);
}

/* The variable's own bytes, which /proc/PID/environ shows, are overwritten. */
static int take_variable(struct rp_job_key *k, struct rp_err *err)
{
    char *value = getenv("REPRO_JOB_KEY"), text[256];
    size_t n = strlen(value);
    snprintf(text, sizeof text, "%s", value);
    explicit_bzero(value, n);
    unsetenv("REPRO_JOB_KEY");
    int result = parse_key(k, n < sizeof text ? text : (text[0] = 0, text), "REPRO_JOB_KEY", err);
    explicit_bzero(text, sizeof text);
    return result;
}

const char *rp_job_key_offered(void)
{
    const char *variable = getenv("REPRO_JOB_KEY"), *file = getenv("REPRO_JOB_KEY_FILE");
    return variable && *variable ? "REPRO_JOB_KEY" : file && *file ? "REPRO_JOB_KEY_FILE" : NULL;
}

/* Both variables, and different keys: one of them is left over from another job. */
static int check_other_variable(const struct rp_job_key *k, struct rp_err *err)
{
    const char *file = getenv("REPRO_JOB_KEY_FILE");
    struct rp_job_key other = {.source = NULL};
    struct rp_err ignored;
    const int same = !file || !*file || (read_key_file(&other, file, "REPRO_JOB_KEY_FILE", &ignored) > 0 &&
                                         rp_secret_equal(k->bytes, other.bytes, sizeof k->bytes));
    rp_job_key_fini(&other);
    return same ? 0
                : rp_fail(err, RP_USAGE,
                          "REPRO_JOB_KEY and REPRO_JOB_KEY_FILE are both set, and the file does not have that key: "
                          "unset one of them");
}

int rp_job_key_load(struct rp_job_key *k, const struct rp_job_key_opts *o, struct rp_err *err)
{
    const char *offered = rp_job_key_offered();
    *k = (struct rp_job_key){.source = NULL};
    rp_secret_stay_out_of_cores();
    int variable = offered && strcmp(offered, "REPRO_JOB_KEY") == 0;
    if (variable && (o->fd > 0 || o->file)) { /* not used, and not left to children either */
        char *value = getenv("REPRO_JOB_KEY");
        explicit_bzero(value, strlen(value));
        unsetenv("REPRO_JOB_KEY");
    }
    if (o->fd > 0)
        return read_descriptor(k, o->fd, "--job-key-fd", err);
    if (o->file && strcmp(o->file, "-") == 0)
        return read_descriptor(k, STDIN_FILENO, "standard input", err);
    if (o->file)
        return read_key_file(k, o->file, "--job-key", err);
    if (!offered)
        return 0;
    if (variable && take_variable(k, err) > 0 && check_other_variable(k, err) == 0)
        return 1;
    if (variable) {
        rp_job_key_fini(k);
        return -1;
    }
    return read_key_file(k, getenv("REPRO_JOB_KEY_FILE"), "REPRO_JOB_KEY_FILE", err);
}
