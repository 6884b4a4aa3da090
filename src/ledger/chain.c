/* Reading: a line is accepted if it is written as this program writes it, has its own digest, names that of the line
 * before, and is signed by the key of the lines before. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/zstd_magic.h"
#include "ledger/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_TRIES 100 /* of 10 ms: a reader that does not get the lock reads without it */

struct reading {
    const char *path;
    struct rp_ledger_summary *s;
    rp_ledger_each *each;
    void *arg;
    struct rp_buf runs; /* a byte for each line: enum read_run */
    struct rp_key_pair *key; /* of the first signed line */
};

/* A run ends once. Otherwise a line added at the end could turn a failed attempt into a sealed one. */
enum read_run { RUN_NONE, RUN_OPEN, RUN_ENDED };

static int check_run(struct reading *r, const struct rp_ledger_line *line, struct rp_err *err)
{
    const char *event = line->event;
    const int64_t run = line->run;
    int start = strcmp(event, rp_ledger_event_name(RP_LEDGER_STARTED)) == 0;
    char state = start ? RUN_OPEN : RUN_NONE;
    if (rp_ledger_end(event)) {
        char *of = run >= 1 && (uint64_t)run <= r->runs.size ? &r->runs.data[run - 1] : NULL;
        if (!of || *of == RUN_NONE)
            return rp_fail(
                err, RP_MISMATCH,
                "it ends a run that no line before it started: it was inserted, or comes from another ledger; "
                "move the file aside, or ask its owner for the whole of it");
        if (*of == RUN_ENDED)
            return rp_fail(err, RP_MISMATCH, "a second end of the run that line %" PRId64 " started: it was inserted; "
                                             "only the lines before it are reliable", run);
        *of = RUN_ENDED;
    }
    rp_buf_add(&r->runs, &state, 1);
    return 0;
}

/* From the first signed line on all are, by the key that it has. */
static int check_signature(struct reading *r, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    struct rp_ledger_summary *s = r->s;
    int first = !r->key;
    if (first && !line->signature) {
        s->unsigned_lines++;
        return 0;
    }
    if (!first && line->key)
        return rp_fail(err, RP_MALFORMED, "it brings a key, and a line before it has one");
    if (first && !(r->key = rp_ledger_line_key(line->key, err)))
        return -1;
    if (rp_ledger_line_check(line, json, r->key, err) < 0)
        return -1;
    if (first) {
        rp_key_fingerprint(r->key, s->key);
        RP_FORMAT(s->made, "%s", line->key->made ? line->key->made : "");
        s->by_file = rp_same_text(line->key->known_from, "file");
    }
    return 0;
}

static int take_line(struct reading *r, const struct rp_ledger_line *line, const json_t *json, struct rp_err *err)
{
    if (strcmp(line->previous, r->s->head) != 0)
        return rp_fail(err, RP_MISMATCH,
                       "it does not follow from the line before it: lines were changed, removed or inserted");
    if (check_signature(r, line, json, err) < 0 || check_run(r, line, err) < 0)
        return -1;
    RP_FORMAT(r->s->at, "%s", line->at);
    if (!r->s->lines)
        memcpy(r->s->begun, r->s->at, sizeof r->s->begun);
    memcpy(r->s->head, line->sha256, sizeof r->s->head);
    r->s->lines++;
    return r->each ? r->each(r->arg, line, json, err) : 0;
}

static int check_line(struct reading *r, const char *text, size_t size, struct rp_err *err)
{
    struct rp_ledger_line line;
    RP_JSON *json = rp_ledger_line(&line, text, size, r->s->lines + 1, err);
    const int failed = !json || take_line(r, &line, json, err) < 0;
    rp_object_fini(&line, &rp_type_ledger_line);
    return failed ? -1 : 0;
}

static int read_lines(struct reading *r, int fd, struct rp_err *err)
{
    char block[2 * RP_LEDGER_LINE_MAX];
    char shown[72];
    size_t have = 0;
    uint64_t at = 0;
    for (;;) {
        ssize_t got = rp_pread_all(fd, block + have, sizeof block - have, at);
        if (got < 0)
            return rp_fail(err, RP_IO, "cannot read ledger '%s': %s", r->path, strerror(errno));
        at += (uint64_t)got;
        have += (size_t)got;
        char *line = block, *end;
        for (; (end = memchr(line, '\n', (size_t)(block + have - line))); line = end + 1)
            if (check_line(r, line, (size_t)(end + 1 - line), err) < 0)
                return rp_wrap(err, "ledger '%s', line %" PRId64, rp_excerpt(shown, r->path), r->s->lines + 1);
        have = (size_t)(block + have - line);
        if (have >= RP_LEDGER_LINE_MAX)
            return rp_fail(err, RP_MALFORMED, "ledger '%s', line %" PRId64 ": longer than the %d bytes of any line",
                           rp_excerpt(shown, r->path), r->s->lines + 1, RP_LEDGER_LINE_MAX);
        memmove(block, line, have);
        if (!got)
            break;
    }
    r->s->torn = have;
    if (have)
        return rp_fail(err, RP_MALFORMED,
                       "ledger '%s': %zu bytes after line %" PRId64
                       " are a torn line: a crash in the middle of an append, or the file was cut; the next append "
                       "keeps them aside",
                       rp_excerpt(shown, r->path), have, r->s->lines);
    return 0;
}

static uint64_t size_aside(const char *path)
{
    struct stat st;
    RP_FREE char *aside = rp_asprintf("%s" RP_LEDGER_ASIDE, path);
    return stat(aside, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Begins as zstd does; a ledger begins with '{'. */
static int is_bundle(int fd)
{
    char begin[RP_ZSTD_MAGIC_SIZE];
    return pread(fd, begin, sizeof begin, 0) == sizeof begin && rp_is_zstd(begin, sizeof begin);
}

int rp_ledger_read(const char *path, rp_ledger_each *each, void *arg, struct rp_ledger_summary *s, struct rp_err *err)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    struct reading r = {.path = path, .s = s, .each = each, .arg = arg};
    struct stat st;
    *s = (struct rp_ledger_summary){.head = RP_LEDGER_NOTHING};
    RP_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open ledger '%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return rp_fail(err, RP_IO, "ledger '%s' is not a regular file", path);
    if (is_bundle(fd))
        return rp_fail(err, RP_USAGE,
                       "'%s' is a bundle, not a ledger: 'repro verify' checks it, and 'repro ledger check --bundle' "
                       "finds its line in a ledger",
                       path);
    for (int i = 0; i < LOCK_TRIES && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK; i++)
        nanosleep(&nap, NULL); /* another process is appending */
    s->aside = size_aside(path);
    int failed = read_lines(&r, fd, err);
    rp_buf_fini(&r.runs);
    rp_key_free(r.key);
    return failed;
}
