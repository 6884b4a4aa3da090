#include "capture/record.h"

#include "base/json.h"
#include "capture/privacy/interface_names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file as it was read first. A machine changes while probes run: a probe that reads a file again gets these bytes, so
 * that the document is the one that the record gives. */
struct first_read {
    const void *redaction;
    enum rp_state state;
    const char *detail; /* borrowed, as in struct rp_text */
    struct rp_buf bytes;
};

struct rp_recorder {
    char *name;            /* of the directory, for messages */
    int dir, root;         /* where to, where from (borrowed) */
    json_t *live;          /* live.json */
    json_t *seen;          /* path -> its number in `first` */
    struct first_read *first;
    int firsts;
    json_t *names;         /* [path]: there, but perhaps not read */
    json_t *renamed;       /* directory -> its name in the record */
    struct rp_err failure; /* the first; code RP_OK: none */
};

/* ---- writing ---- */

static void note_failure(struct rp_recorder *r, const char *path)
{
    if (r->failure.code == RP_OK)
        rp_fail(&r->failure, RP_IO, "cannot write '%s%s': %s", r->name, path, strerror(errno));
}

/* Every directory above path, which has no links on the way. */
static int make_parents(int dir, const char *path)
{
    char at[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(at, sizeof at, "%.*s", (int)(slash - path - 1), path + 1);
        if (mkdirat(dir, at, 0755) < 0 && errno != EEXIST)
            return -1;
    }
    return 0;
}

static int write_file(int dir, const char *path, const void *data, size_t size)
{
    RP_FD fd = make_parents(dir, path) < 0
                   ? -1
                   : openat(dir, path + 1, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno == EEXIST ? 0 : -1; /* what was seen first stays */
    return rp_write_all(fd, data, size);
}

/* The form of a path, or of a link in /sys, that the record has: names of interfaces are hidden. */
static char *recorded_path(const struct rp_recorder *r, const char *path)
{
    return rp_path_hide_interfaces(json_string_value(json_object_get(r->live, "salt")), path);
}

static void note_link(void *ctx, const char *path, const char *target)
{
    struct rp_recorder *r = ctx;
    RP_FREE char *at = recorded_path(r, path),
                 *to = strncmp(path, "/sys/", 5) == 0 ? recorded_path(r, target) : rp_strdup(target);
    if (make_parents(r->dir, at) < 0 || (symlinkat(to, r->dir, at + 1) < 0 && errno != EEXIST))
        note_failure(r, at);
}

/* path, with the longest directory of it that has another name in the record called by that. */
static char *renamed_path(const struct rp_recorder *r, const char *path)
{
    RP_FREE char *dir = rp_strdup(path);
    for (char *slash = dir + strlen(dir); slash > dir; slash = strrchr(dir, '/')) {
        *slash = 0;
        const char *to = json_string_value(json_object_get(r->renamed, dir));
        if (to)
            return rp_asprintf("%s%s", to, path + (slash - dir));
    }
    return rp_strdup(path);
}

/* path without links, which are put into the record; names of interfaces as the machine has them. */
static int resolve_for_record(struct rp_recorder *r, const char *path, int follow_last, char out[PATH_MAX])
{
    RP_FREE char *name = renamed_path(r, path);
    return rp_resolve(r->root, name, follow_last, out, note_link, r);
}

/* Where path belongs in the record. */
static int place_in_record(struct rp_recorder *r, const char *path, int follow_last, char out[PATH_MAX])
{
    if (resolve_for_record(r, path, follow_last, out) < 0)
        return -1;
    RP_FREE char *hidden = recorded_path(r, out);
    if ((size_t)snprintf(out, PATH_MAX, "%s", hidden) < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

static void note_state(struct rp_recorder *r, const char *path, enum rp_state state, const char *detail)
{
    struct stat st;
    if (state == RP_STATE_ABSENT && fstatat(r->root, path + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* the record has nothing there either */
    json_t *why = json_pack("{s:s}", "state", rp_state_name(state));
    if (state == RP_STATE_ERROR)
        json_object_set_new(why, "detail", json_string(detail));
    RP_FREE char *name = renamed_path(r, path), *hidden = recorded_path(r, name);
    json_object_set_new(json_object_get(r->live, "states"), hidden, why);
}

static void keep_first(struct rp_recorder *r, const struct rp_text *t, const void *redaction)
{
    r->first = rp_realloc(r->first, ((size_t)r->firsts + 1) * sizeof *r->first);
    struct first_read *f = &r->first[r->firsts];
    *f = (struct first_read){.redaction = redaction, .state = t->state, .detail = t->detail};
    if (t->state == RP_STATE_OK)
        rp_buf_add(&f->bytes, t->bytes.data, t->bytes.size);
    json_object_set_new(r->seen, t->path, json_integer(r->firsts++));
}

static void give_first(const struct first_read *f, struct rp_text *t)
{
    rp_buf_fini(&t->bytes);
    t->state = f->state;
    t->detail = f->detail;
    if (f->state == RP_STATE_OK)
        rp_buf_add(&t->bytes, f->bytes.data, f->bytes.size);
}

void rp_record_text(struct rp_recorder *r, struct rp_text *t, const void *redaction)
{
    char at[PATH_MAX];
    const json_t *before = json_object_get(r->seen, t->path);
    if (before) {
        const struct first_read *f = &r->first[json_integer_value(before)];
        RP_BUG_IF(f->redaction != redaction);
        give_first(f, t);
    }
    if (before || r->failure.code != RP_OK)
        return;
    keep_first(r, t, redaction);
    if (t->state != RP_STATE_OK)
        note_state(r, t->path, t->state, t->detail);
    else if (place_in_record(r, t->path, !redaction, at) <
                 0 || /* another name of the file may show another part of it */
             write_file(r->dir, at, t->bytes.data, t->bytes.size) < 0)
        note_failure(r, t->path);
}

void rp_record_link(struct rp_recorder *r, const struct rp_text *t)
{
    char at[PATH_MAX];
    if (t->state == RP_STATE_ERROR && strcmp(t->detail, "no symbolic link") == 0)
        rp_record_name(r, t->path); /* reading it gives the same error again, and it may be a file that is read */
    else if (t->state != RP_STATE_OK)
        note_state(r, t->path, t->state, t->detail);
    else if (place_in_record(r, t->path, 0, at) < 0)
        note_failure(r, t->path);
    else
        note_link(r, at, t->bytes.data);
}

void rp_record_name(struct rp_recorder *r, const char *path)
{
    json_array_append_new(r->names, json_string(path));
}

void rp_record_dirlist(struct rp_recorder *r, const char *path, const struct rp_dirlist *d)
{
    char at[PATH_MAX], real[PATH_MAX];
    if (d->state != RP_STATE_OK) {
        note_state(r, path, d->state, d->detail);
        return;
    }
    if (resolve_for_record(r, path, 1, real) < 0 || place_in_record(r, path, 1, at) < 0 ||
        make_parents(r->dir, at) < 0 || (at[1] && mkdirat(r->dir, at + 1, 0755) < 0 && errno != EEXIST))
        note_failure(r, path);
    for (int i = 0; i < d->n; i++) {
        RP_FREE char *name = rp_asprintf("%s/%s", real[1] ? real : "", d->name[i]);
        rp_record_name(r, name);
    }
}

void rp_record_answer(struct rp_recorder *r, const char *key, json_t *answer)
{
    json_t *answers = json_object_get(r->live, "answers");
    if (!json_object_get(answers, key))
        json_object_set_new(answers, key, json_deep_copy(answer));
}

void rp_record_file(const struct rp_probe *p, const char *path, const void *data, size_t size)
{
    RP_BUG_IF(strncmp(path, "/.repro/", 8) != 0);
    if (p->record && p->record->failure.code == RP_OK && write_file(p->record->dir, path, data, size) < 0)
        note_failure(p->record, path);
}

void rp_record_rename(const struct rp_probe *p, const char *from, const char *to)
{
    if (p->record)
        json_object_set_new(p->record->renamed, from, json_string(to));
}

/* A link, a directory or an empty file for what was listed and not read. */
static int write_name(struct rp_recorder *r, const char *path)
{
    char at[PATH_MAX], real[PATH_MAX], target[PATH_MAX];
    struct stat st;
    if (place_in_record(r, path, 0, at) < 0 || rp_resolve(r->root, path, 0, real, NULL, NULL) < 0)
        return -1;
    if (!at[1] || fstatat(r->dir, at + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
        fstatat(r->root, real + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    ssize_t n = S_ISLNK(st.st_mode) ? readlinkat(r->root, real + 1, target, sizeof target - 1) : -1;
    if (n >= 0) {
        target[n] = 0;
        note_link(r, at, target);
        return 0;
    }
    if (S_ISDIR(st.st_mode))
        return make_parents(r->dir, at) < 0 ? -1 : mkdirat(r->dir, at + 1, 0755);
    return write_file(r->dir, at, "", 0);
}

/* ---- the whole ---- */

struct rp_recorder *rp_record_new(const char *dir, int root, const char *salt, const char *when, struct rp_err *err)
{
    if (mkdir(dir, 0755) < 0 && errno != EEXIST)
        return rp_fail_null(err, RP_IO, "cannot create '%s' for the record: %s", dir, strerror(errno));
    RP_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int again = fd < 0 ? -1 : dup(fd);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (!list) {
        rp_closep(&again);
        return rp_fail_null(err, RP_IO, "cannot open '%s' for the record: %s", dir, strerror(errno));
    }
    int entries = 0;
    while (readdir(list))
        entries++;
    closedir(list);
    if (entries > 2)
        return rp_fail_null(err, RP_IO, "'%s' is not empty: a record is written into a new or empty directory", dir);
    if (mkdirat(fd, ".repro", 0755) < 0)
        return rp_fail_null(err, RP_IO, "cannot create '%s/.repro': %s", dir, strerror(errno));
    struct rp_recorder *r = rp_alloc(sizeof *r);
    *r = (struct rp_recorder){.name = rp_strdup(dir), .dir = rp_fd_take(&fd), .root = root};
    r->seen = json_object();
    r->names = json_array();
    r->renamed = json_object();
    r->live = json_pack("{s:s, s:s, s:s, s:{}, s:{}}", "schema", RP_RECORD_SCHEMA, "salt", salt, "captured_at", when,
                        "states", "answers");
    return r;
}

int rp_record_finish(struct rp_recorder *r, struct rp_err *err)
{
    RP_BUF text = {0};
    size_t i;
    json_t *path;
    json_array_foreach(r->names, i, path)
        if (r->failure.code == RP_OK && write_name(r, json_string_value(path)) < 0)
            note_failure(r, json_string_value(path));
    rp_json_write(&text, r->live);
    if (r->failure.code == RP_OK && (write_file(r->dir, "/.repro/live.json.part", text.data, text.size) < 0 ||
                                     renameat(r->dir, ".repro/live.json.part", r->dir, ".repro/live.json") < 0))
        note_failure(r, "/.repro/live.json");
    *err = r->failure;
    return r->failure.code == RP_OK ? 0 : -1;
}

void rp_record_free(struct rp_recorder *r)
{
    if (!r)
        return;
    free(r->name);
    rp_closep(&r->dir);
    json_decref(r->live);
    json_decref(r->seen);
    for (int i = 0; i < r->firsts; i++)
        rp_buf_fini(&r->first[i].bytes);
    free(r->first);
    json_decref(r->names);
    json_decref(r->renamed);
    free(r);
}
