/* rp_data_prepare(): the data of a recipe as a path that its format can open. */
#include "data/archive.h"
#include "data/dataset.h"
#include "data/embedded_data.h"
#include "data/files.h"
#include "data/store.h"
#include "data/synthetic/make.h"

#include "base/buf.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void rp_data_set_fini(struct rp_data_set *s)
{
    free(s->path);
    free(s->archive);
    free(s->sha256);
    free(s->digest);
    *s = (struct rp_data_set){0};
}

static int add_digest(struct rp_data_set *out, const struct rp_data_format *format, struct rp_err *err)
{
    struct rp_files f;
    char hex[65];
    if (rp_data_list(format, &f, out->path, err) < 0)
        return -1;
    rp_files_stamp(&f, out->stamp);
    int failed = rp_files_digest(&f, hex, err) < 0;
    rp_files_close(&f);
    out->digest = failed ? NULL : rp_strdup(hex);
    return failed ? -1 : 0;
}

/* The path of the archive next to the recipe (free it). NULL: *s is the embedded archive, or s->name is NULL and *err
 * set. */
static char *find_archive(const struct rp_recipe *r, struct rp_archive_source *s, struct rp_err *err)
{
    const char *from = r->source_name;
    RP_FREE char *path = NULL;
    *s = (struct rp_archive_source){0};
    if (from && *from && strncmp(from, "embedded:", 9) != 0) {
        path = rp_path_next_to(from, r->data_archive);
        if (access(path, F_OK) == 0)
            return rp_strdup(path);
    }
    if (rp_embedded_archive(r->data_archive, s) < 0)
        rp_fail(err, RP_IO,
                "archive '%s' (data.archive) is neither next to the recipe%s%s%s nor embedded in this program nor "
                "unpacked in the store ('repro data unpack')",
                r->data_archive, path ? " ('" : "", path ? path : "", path ? "')" : "");
    return NULL;
}

static int check_pin(const struct rp_recipe *r, const char *name, const char *hex, struct rp_err *err)
{
    const char *want = r->data_sha256;
    if (!want || !*want)
        return rp_fail(err, RP_USAGE, "data.sha256 is not set; archive '%s' has %s", name, hex);
    if (strcmp(want, hex) != 0)
        return rp_fail(err, RP_MISMATCH, "archive '%s' has SHA-256 %s, the recipe pins %s (data.sha256)", name, hex,
                       want);
    return 0;
}

/* Without the archive, as on a host that got its recipe over ssh: what the store has of it. */
static int find_unpacked(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    struct rp_err why;
    int named;
    RP_FREE char *where = rp_store_path(store, &named);
    const int found = rp_store_find(r->data_sha256 ? r->data_sha256 : "", where, &out->path, &why);
    if (found < 0)
        *err = why;
    if (found <= 0)
        return -1;
    out->pinned = 1;
    out->archive = rp_strdup(r->data_archive);
    out->sha256 = rp_strdup(r->data_sha256);
    return 0;
}

/* The embedded sample of BERT for the lengths of the recipe, into the store. */
static int remake_sample(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    const struct rp_generator *g = rp_generator_find("bert");
    struct rp_make_opts o = {.seq_length = (long)r->task_seq_length,
                             .max_predictions_per_seq = (long)r->task_max_predictions};
    struct rp_archive_source s = {.name = "the sample for other lengths", .fd = -1};
    RP_BUF tar = {0};
    char hex[65];
    if (rp_make_options(&o, g, err) < 0 || rp_make_archive_bytes(&tar, g, &o, "sample.tar", err) < 0)
        return rp_wrap(err, "the sample for task.seq_length %lld", (long long)r->task_seq_length);
    s.data = tar.data;
    s.size = tar.size;
    rp_sha256_hex(hex, rp_buf_text(&tar), tar.size);
    return rp_store_add(&s, hex, store, &out->path, err);
}

static int prepare_archive(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    struct rp_archive_source s;
    RP_FREE char *path = find_archive(r, &s, err);
    RP_FD fd = -1;
    char hex[65];
    int named;
    if (!path && !s.name)
        return find_unpacked(r, store, out, err);
    if (path && rp_store_open_archive(path, &fd, &s, hex, err) < 0)
        return -1;
    if (!path)
        rp_sha256_hex(hex, s.data, s.size);
    if (check_pin(r, s.name, hex, err) < 0)
        return -1;
    RP_FREE char *where = rp_store_path(store, &named);
    if (rp_embedded_is_remade(r)) {
        if (remake_sample(r, where, out, err) < 0)
            return -1;
    } else if (rp_store_add(&s, hex, where, &out->path, err) < 0) {
        /* no default store is writable: read an embedded archive from memory */
        if (named || path || err->code != RP_IO)
            return -1;
        out->path = rp_asprintf(RP_FILES_EMBEDDED "%s", r->data_archive);
    }
    out->pinned = 1;
    out->archive = rp_strdup(r->data_archive);
    out->sha256 = rp_strdup(hex);
    return 0;
}

int rp_data_prepare(const struct rp_recipe *r, const char *store, struct rp_data_set *out, struct rp_err *err)
{
    *out = (struct rp_data_set){0};
    int failed;
    if (r->data_path && *r->data_path) {
        out->path = rp_strdup(r->data_path);
        failed = 0;
    } else if (r->data_archive && *r->data_archive) {
        failed = prepare_archive(r, store, out, err) < 0;
    } else {
        failed = rp_fail(err, RP_USAGE,
                         "the recipe names no data: set data.archive and data.sha256, or --set data.path=DIR") < 0;
    }
    if (!failed)
        failed = add_digest(out, rp_data_format_of(r), err) < 0;
    if (failed)
        rp_data_set_fini(out);
    return failed ? -1 : 0;
}

int rp_data_check_same(const struct rp_recipe *r, const struct rp_data_set *s, struct rp_err *err)
{
    struct rp_files f;
    char stamp[65], hex[65];
    if (rp_data_list(rp_data_format_of(r), &f, s->path, err) < 0)
        return -1;
    rp_files_stamp(&f, stamp);
    int failed = 0;
    if (strcmp(stamp, s->stamp) != 0)
        failed = rp_files_digest(&f, hex, err) < 0;
    rp_files_close(&f);
    if (failed || strcmp(stamp, s->stamp) == 0 || strcmp(hex, s->digest) == 0)
        return failed ? -1 : 0;
    return rp_fail(err, RP_MISMATCH,
                   "the data changed during the run: their digest was %.16s..., and is %.16s... after it", s->digest,
                   hex);
}
