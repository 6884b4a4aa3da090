/* Appending: under a lock, synced, and either a whole line or none. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr */
#endif
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/private_file.h"
#include "base/text.h"
#include "ledger/inner.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_NS 10000000000ull
#define LEDGER_MAX (256 << 20)
#define LINE_BEGINS "{\"at\":\"" /* every line: keys are sorted */
#define ELSEWHERE "; another place: $REPRO_LEDGER" /* of the ledger of runs, which is signed */

const char *rp_ledger_event_name(enum rp_ledger_event e)
{
    static const char *const names[] = {
#define X(id, name, meaning) name,
        RP_LEDGER_EVENTS(X)
#undef X
    };
    return names[e];
}

const char *rp_ledger_end(const char *name)
{
    for (int e = RP_LEDGER_SEALED; e <= RP_LEDGER_INTERRUPTED; e++)
        if (rp_same_text(name, rp_ledger_event_name((enum rp_ledger_event)e)))
            return rp_ledger_event_name((enum rp_ledger_event)e);
    return NULL;
}

struct target {
    const char *path;
    int named;
    struct rp_ledger_writer *w;
    struct rp_ledger_ref *mark;
    struct rp_err *err;
};

/* The reason alone goes into bundles, the message with the path to the user. */
__attribute__((format(printf, 3, 4))) static int fail(const struct target *t, enum rp_code code, const char *fmt, ...)
{
    int no = errno;
    RP_FORMAT_ARGS(t->mark->reason, fmt);
    errno = no;
    return rp_fail(t->err, code, "ledger '%s': %s%s", t->path, t->mark->reason, t->w->key ? ELSEWHERE : "");
}

static int io(const struct target *t, const char *doing)
{
    return fail(t, RP_IO, "cannot %s: %s", doing, strerror(errno));
}

static int make_directory(const struct target *t)
{
    struct rp_err why = {0};
    RP_FREE char *dir = rp_folder_of(t->path);
    if (rp_mkdirs(dir, 0700, &why) == 0)
        return 0;
    errno = why.sys;
    return io(t, "make its directory");
}

/* In a directory where everybody can write, a file with our name may belong to another user. A ledger that the user
 * named must only belong to that user: symbolic links are followed, it may have several names, and others may write to
 * it. */
static int open_file(const struct target *t, const char *path, int flags, int named)
{
    struct stat st;
    int no_follow = named ? 0 : O_NOFOLLOW;
    RP_FD fd = open(path, flags | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | no_follow, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return io(t, "open it");
    if (!S_ISREG(st.st_mode))
        return fail(t, RP_IO, "it is not a regular file");
    if (st.st_uid != geteuid() || (!named && (st.st_nlink != 1 || (st.st_mode & (S_IWGRP | S_IWOTH)))))
        return fail(t, RP_IO, "%s is not ours alone",
                    strcmp(path, t->path) == 0 ? "it" : "the file for its torn lines");
    struct rp_err why; /* names the path, which a bundle does not */
    if (!named && rp_private_check(&st, path, "the ledger", &why) < 0)
        return fail(t, RP_IO, "others may write to its directory: chmod go-w that");
    return rp_fd_take(&fd);
}

/* Held until the descriptor is closed, by a crash too. */
static int lock_file(const struct target *t, int fd)
{
    const struct timespec nap = {.tv_nsec = 10000000};
    uint64_t until = rp_now_ns() + LOCK_WAIT_NS;
    struct stat a, b;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return io(t, "lock it");
        if (rp_now_ns() > until)
            return fail(t, RP_IO, "another process has kept it locked for %llu s", LOCK_WAIT_NS / 1000000000ull);
        nanosleep(&nap, NULL);
    }
    if (fstat(fd, &a) < 0 || stat(t->path, &b) < 0 || a.st_ino != b.st_ino || a.st_dev != b.st_dev)
        return fail(t, RP_IO, "it was moved or replaced while it was opened");
    return 0;
}

struct end {
    off_t size;           /* of the file up to the end of its last line */
    int64_t n;            /* of the last line */
    char head[RP_SHA256_HEX];
    int is_signed;        /* that line; what follows has to be, by the same key */
    struct rp_buf torn;   /* what follows it */
};

/* A ledger has one key. */
static int check_key(const struct target *t, const struct rp_ledger_line *line, const json_t *json, struct end *e)
{
    struct rp_err why;
    e->is_signed = line->signature != NULL;
    if (!e->is_signed)
        return 0;
    if (!t->w->key)
        return fail(t, RP_SIGNATURE, "its lines are signed, and this one would not be");
    if (rp_ledger_line_check(line, json, t->w->key, &why) < 0)
        return fail(t, RP_SIGNATURE, "its last line was not signed by the key of this run: it is another key's");
    return 0;
}

static int read_last_line(const struct target *t, const char *text, size_t size, struct end *e)
{
    struct rp_err why;
    const char *before = size > 1 ? memrchr(text, '\n', size - 1) : NULL, *start = before ? before + 1 : text;
    struct rp_ledger_line line;
    RP_JSON *json = rp_ledger_line(&line, start, (size_t)(text + size - start), 0, &why);
    int failed =
        !json && fail(t, RP_MALFORMED, "its last line is damaged; see repro ledger check, and move it aside") < 0;
    if (!failed) {
        e->n = line.n;
        memcpy(e->head, line.sha256, sizeof e->head);
        failed = check_key(t, &line, json, e) < 0;
    }
    rp_object_fini(&line, &rp_type_ledger_line);
    return failed ? -1 : 0;
}

/* The whole ledger: a line has some 400 bytes, so it stays small. */
static int read_whole(const struct target *t, int fd, struct rp_buf *text)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return io(t, "read it");
    if (st.st_size > LEDGER_MAX)
        return fail(t, RP_MALFORMED, "it is larger than %d MiB; move it aside", LEDGER_MAX >> 20);
    RP_FREE char *bytes = rp_alloc((size_t)st.st_size);
    if (rp_pread_all(fd, bytes, (size_t)st.st_size, 0) < st.st_size)
        return io(t, "read it");
    rp_buf_add(text, bytes, (size_t)st.st_size);
    return 0;
}

static int find_end(const struct target *t, const struct rp_buf *text, struct end *e)
{
    const char *last = text->size ? memrchr(text->data, '\n', text->size) : NULL, *torn = last ? last + 1 : text->data;
    size_t left = text->size - (last ? (size_t)(torn - text->data) : 0);
    memcpy(e->head, RP_LEDGER_NOTHING, sizeof e->head);
    if (left >= RP_LEDGER_LINE_MAX)
        return fail(t, RP_MALFORMED,
                    "it ends in %zu bytes that are not a line; see repro ledger check, and move it aside", left);
    if (memcmp(torn, LINE_BEGINS, left < strlen(LINE_BEGINS) ? left : strlen(LINE_BEGINS)) != 0)
        return fail(t, RP_MALFORMED,
                    "it ends in %zu bytes that are not part of a line of a ledger: it is left as it is", left);
    rp_buf_add(&e->torn, torn, left);
    e->size = (off_t)(text->size - left);
    return last ? read_last_line(t, text->data, (size_t)e->size, e) : 0;
}

/* What a crash left of a line is copied to a file of its own before it is removed here: it may be the only trace of an
 * attempt. */
static int keep_aside(const struct target *t, int fd, const struct end *e)
{
    if (!e->torn.size)
        return 0;
    RP_FREE char *path = rp_asprintf("%s" RP_LEDGER_ASIDE, t->path);
    RP_FD aside = open_file(t, path, O_WRONLY | O_APPEND, 0);
    if (aside < 0)
        return -1;
    if (rp_write_all(aside, e->torn.data, e->torn.size) < 0 || rp_write_all(aside, "\n", 1) < 0 || fsync(aside) < 0)
        return io(t, "keep its torn last line aside");
    if (ftruncate(fd, e->size) < 0)
        return io(t, "take its torn last line off");
    t->mark->torn = e->torn.size;
    return 0;
}

/* What the lines before the new one contain. They are taken as they are:
 * rp_ledger_read() is the one that checks them. */
struct before {
    const char *recipe;                 /* of a run that starts */
    const struct rp_ledger_ref *start; /* of a run that ends, or NULL */
    int64_t line, starts;               /* lines read; starts of the recipe among them */
    int started, ended;
    struct rp_buf open;                 /* a byte for each line: 1 if it started a run that has no end so far */
    struct rp_ledger_ref *mark;         /* the first line and the key */
};

static void note_key(struct rp_ledger_ref *mark, const struct rp_ledger_line *line)
{
    const struct rp_ledger_key *key = line->key;
    if (!*mark->begun)
        RP_FORMAT(mark->begun, "%s", line->at ? line->at : "");
    if (!key || *mark->made)
        return;
    RP_FORMAT(mark->made, "%s", key->made ? key->made : "");
    mark->by_file = rp_same_text(key->known_from, "file");
}

static void note_line(struct before *b, const char *text, size_t size)
{
    struct rp_err ignored;
    struct rp_ledger_line line;
    RP_JSON *json = rp_json_parse(text, size, NULL, &ignored);
    rp_object_read(&line, &rp_type_ledger_line, json);
    const int ends = rp_ledger_end(line.event) != NULL;
    char start = rp_same_text(line.event, rp_ledger_event_name(RP_LEDGER_STARTED));
    b->line++;
    note_key(b->mark, &line);
    b->starts += start && *b->recipe && strcmp(line.recipe, b->recipe) == 0;
    if (b->start && b->line == b->start->position)
        b->started = start && strcmp(line.sha256, b->start->head) == 0;
    else if (b->start && ends)
        b->ended |= line.run == b->start->position;
    if (ends && line.run >= 1 && (uint64_t)line.run <= b->open.size)
        b->open.data[line.run - 1] = 0;
    rp_buf_add(&b->open, &start, 1);
    rp_object_fini(&line, &rp_type_ledger_line);
}

/* Counts the runs without an end whose process still marks them; the others were killed. */
static int64_t count_running(const struct before *b, int fd)
{
    int64_t n = 0;
    for (size_t i = 0; i < b->open.size; i++) {
        int is = b->open.data[i] ? rp_ledger_running_is(fd, (int64_t)i + 1) : 0;
        if (is < 0)
            return -1;
        n += is;
    }
    return n;
}

/* Counts the earlier runs of a recipe whose run starts. A run that ends must have started in this file, and must not
 * have an end yet. */
static int check_earlier_lines(const struct target *t, const char *text, size_t size, const struct rp_ledger_ref *start,
                               const char *recipe)
{
    struct before b = {.recipe = recipe, .start = start, .mark = t->mark};
    for (size_t at = 0, n; at < size; at += n + 1) {
        /* every line before `size` has its newline */
        n = (size_t)((const char *)memchr(text + at, '\n', size - at) - text) - at;
        note_line(&b, text + at, n);
    }
    t->mark->earlier = start ? 0 : b.starts;
    t->mark->overlapping = -1;
    if (!start && (t->w->running = rp_ledger_running_open(t->path)) >= 0)
        t->mark->overlapping = count_running(&b, t->w->running);
    rp_buf_fini(&b.open);
    if (start && !b.started)
        return fail(t, RP_MISMATCH, "the run that ends did not start in it: it was moved or cut meanwhile");
    if (b.ended)
        return fail(t, RP_MISMATCH, "the run that line %" PRId64 " started has its end already", start->position);
    return 0;
}

static int write_line(const struct target *t, int fd, const struct end *e, const struct rp_buf *line)
{
    if (lseek(fd, e->size, SEEK_SET) < 0)
        return io(t, "write to it");
    if (rp_write_all(fd, line->data, line->size) == 0 && fsync(fd) == 0)
        return 0;
    int no = errno;
    if (ftruncate(fd, e->size) == 0) /* else the next append finds a torn line */
        fsync(fd);
    errno = no;
    return io(t, "write to it");
}

/* What every line has, and the key in the first that is signed; the digest and time of the line for its place. */
static int make_line(const struct target *t, enum rp_ledger_event event, const struct rp_ledger_ref *start,
                     struct end *e, json_t *line, struct rp_buf *text)
{
    char torn[RP_SHA256_HEX];
    struct rp_ledger_line made;
    struct rp_ledger_ref *mark = t->mark;
    struct rp_err why;
    if (e->torn.size) {
        rp_sha256_hex(torn, e->torn.data, e->torn.size);
        json_object_set_new(line, "torn", json_pack("{s:I, s:s}", "bytes", (json_int_t)e->torn.size, "sha256", torn));
    }
    rp_rfc3339(mark->at, rp_wall_ns());
    json_object_set_new(line, "at", json_string(mark->at));
    json_object_set_new(line, "event", json_string(rp_ledger_event_name(event)));
    json_object_set_new(line, "n", json_integer(e->n + 1));
    json_object_set_new(line, "previous", json_string(e->head));
    if (start)
        json_object_set_new(line, "run", json_integer(start->position));
    if (t->w->key && !e->is_signed)
        json_object_set_new(line, "key", rp_ledger_key_json(t->w));
    if (rp_ledger_line_finish(text, line, t->w->key, mark->head, &why) < 0)
        return fail(t, why.code, "%s", why.msg);
    rp_object_read(&made, &rp_type_ledger_line, line);
    note_key(mark, &made);
    rp_object_fini(&made, &rp_type_ledger_line);
    return 0;
}

static int append_line(const struct target *t, enum rp_ledger_event event, const struct rp_ledger_ref *start,
                       json_t *line)
{
    struct end e = {0};
    struct stat st;
    const char *recipe = json_string_value(json_object_get(line, "recipe"));
    RP_BUF text = {0}, whole = {0};
    if (make_directory(t) < 0)
        return -1;
    int is_new = stat(t->path, &st) < 0;
    RP_FD fd = open_file(t, t->path, O_RDWR, t->named);
    if (fd < 0 || lock_file(t, fd) < 0)
        return -1;
    int looks = event == RP_LEDGER_STARTED || start;
    int failed = read_whole(t, fd, &whole) < 0 || find_end(t, &whole, &e) < 0 ||
                 (looks && check_earlier_lines(t, whole.data, (size_t)e.size, start, recipe ? recipe : "") < 0) ||
                 keep_aside(t, fd, &e) < 0 || make_line(t, event, start, &e, line, &text) < 0;
    rp_buf_fini(&e.torn);
    if (failed || write_line(t, fd, &e, &text) < 0)
        return -1;
    if (is_new)
        rp_sync_directory_of(t->path);
    t->mark->position = e.n + 1;
    if (event == RP_LEDGER_STARTED && t->w->running >= 0 &&
        rp_ledger_running_mark(t->w->running, t->mark->position) < 0)
        t->mark->overlapping = -1;
    return 0;
}

int rp_ledger_append(struct rp_ledger_writer *w, enum rp_ledger_event e, const struct rp_ledger_ref *start,
                     json_t *fields, struct rp_ledger_ref *mark, struct rp_err *err)
{
    struct target t = {.path = w->path, .named = w->named, .w = w, .mark = mark, .err = err};
    RP_JSON *line = fields;
    RP_BUG_IF(!start != !rp_ledger_end(rp_ledger_event_name(e)));
    *mark = (struct rp_ledger_ref){0};
    if (e == RP_LEDGER_STARTED)
        w->running = -1;
    int failed = append_line(&t, e, start, line) < 0;
    if (failed && e == RP_LEDGER_STARTED)
        rp_closep(&w->running);
    return failed ? -1 : 0;
}
