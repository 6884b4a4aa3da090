/* Differences of the working tree from the commit: changed files with their digests, files that git does not know, and
 * submodules; no contents. Of files that may hold a password no digest is shown, since it would let the password be
 * guessed. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "capture/git/git.h"
#include "capture/privacy/secrets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CHANGED = 200, MAX_UNTRACKED = 100, MAX_SUBMODULES = 200 };
/* Untracked files that get a digest: up to this size, until this many bytes in all. They may be data sets. */
enum { SMALL_FILE = 1 << 20, SMALL_SUM = 16 << 20 };

static const char late[] = "looking took too long";

struct changes {
    const struct rp_git_job *j;
    const git_diff_delta **delta; /* by path, n of them */
    size_t n;
    int64_t modified, untracked, withheld, hashed; /* hashed: bytes of untracked files */
    json_t *changed, *unknown; /* "M SHA-256 path", "SHA-256 path", paths hidden unless --identify */
    struct rp_sha256 hash;     /* of the lines of all changed files, with their paths */
};

static int in_time(const git_diff *d, const char *old_path, const char *new_path, void *ctx)
{
    (void)d, (void)old_path, (void)new_path;
    /* a positive one makes libgit2 use what it did not make */
    return rp_now_ns() > ((const struct rp_git_job *)ctx)->deadline ? GIT_EUSER : 0;
}

int rp_git_compare(git_diff **diff, const struct rp_git_job *j, git_repository *repo, uint32_t flags, const char **why)
{
    git_diff_options o;
    git_tree *tree = NULL;
    git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);
    o.flags = GIT_DIFF_IGNORE_SUBMODULES | flags;
    o.progress_cb = in_time;
    o.payload = (void *)j;
    int rc = rp_git_head_tree(&tree, repo);
    if (rc == 0)
        rc = git_diff_tree_to_workdir_with_index(diff, repo, tree, &o);
    if (rc)
        *why = rp_now_ns() > j->deadline ? late : rp_git_failure();
    git_tree_free(tree);
    return rc ? -1 : 0;
}

/* ---- files ---- */

static const char *path_of(const git_diff_delta *d)
{
    return d->new_file.path ? d->new_file.path : d->old_file.path;
}

static int by_path(const void *a, const void *b)
{
    const git_diff_delta *x = *(const git_diff_delta *const *)a, *y = *(const git_diff_delta *const *)b;
    int c = strcmp(path_of(x), path_of(y));
    return c ? c : (x->status > y->status) - (x->status < y->status);
}

/* Is it absent because a sparse checkout leaves it out? libgit2 takes such files for deleted. One that is there was
 * changed by hand. */
static int is_left_out(git_index *index, const git_diff_delta *d)
{
    const git_index_entry *e =
        index && d->status == GIT_DELTA_DELETED ? git_index_get_bypath(index, d->old_file.path, 0) : NULL;
    return e && e->flags_extended & GIT_INDEX_ENTRY_SKIP_WORKTREE && git_oid_equal(&e->id, &d->old_file.id);
}

/* The differences by path into delta, [git_diff_num_deltas()]; returns how many there are. */
static size_t list_differences(const git_diff_delta **delta, git_diff *diff, git_repository *repo)
{
    git_index *index = NULL;
    size_t n = 0;
    if (git_repository_index(&index, repo) < 0)
        index = NULL;
    for (size_t i = 0; i < git_diff_num_deltas(diff); i++) {
        delta[n] = git_diff_get_delta(diff, i);
        n += !is_left_out(index, delta[n]);
    }
    git_index_free(index);
    qsort(delta, n, sizeof(void *), by_path);
    return n;
}

/* A pointer of Git LFS whose file is the one that it points at. */
static int is_its_pointer(const struct rp_buf *from, const char *sha256)
{
    static const char head[] = "version https://git-lfs.github.com/spec/v1\n";
    return from->size < 512 && strncmp(rp_buf_text(from), head, sizeof head - 1) == 0 && *sha256 &&
           strstr(rp_buf_text(from), sha256) != NULL;
}

static int may_hold_password(const char *path, const struct rp_buf *bytes)
{
    return rp_is_secret_file(path) || rp_has_password(rp_buf_text(bytes), bytes->size);
}

/* Names of files are hidden: of those that git does not know, and of its own, since a repository need not be public. */
static char *hidden_name(const struct rp_probe *p, const char *path)
{
    char hidden[RP_HIDDEN];
    if (p->opts->identify || rp_is_secret_name(path))
        return rp_public_name(p, "path", path);
    rp_hide(p, "path", path, hidden);
    return rp_strdup(hidden);
}

/* "SHA-256 path", "- path" without a digest, "withheld path". Takes the name. */
static char *file_line(int secret, const char *sha256, char *name)
{
    RP_FREE char *own = name;
    rp_sanitize(own);
    return rp_asprintf("%s %s", secret ? "withheld" : *sha256 ? sha256 : "-", own);
}

/* One changed file into the list and the digest. 0, or -1 when it cannot be read. */
static int add_changed(struct changes *c, const git_diff_delta *d)
{
    static const char letters[] = {
        [GIT_DELTA_ADDED] = 'A', [GIT_DELTA_DELETED] = 'D', [GIT_DELTA_MODIFIED] = 'M', [GIT_DELTA_CONFLICTED] = 'U'};
    const char *path = path_of(d);
    RP_BUF from = {0}, text = {0};
    struct rp_git_file to = {0};
    char letter = d->status < sizeof letters && letters[d->status] ? letters[d->status] : 'M';
    if (!git_oid_is_zero(&d->old_file.id) && d->old_file.mode && rp_git_read_old(&from, c->j->repo, &d->old_file) < 0)
        return -1;
    int rc = d->status == GIT_DELTA_DELETED ? 0 : rp_git_read_new(&to, c->j->repo, path, c->j->deadline);
    if (is_its_pointer(&from, to.sha256)) {
        c->modified--;
    } else {
        int secret = may_hold_password(path, &from) || may_hold_password(path, &to.bytes);
        /* with the path, so that whoever has the files gets the same digest */
        RP_FREE char *line = file_line(secret, to.sha256, rp_public_name(c->j->p, "path", path)),
                     *hidden = file_line(secret, to.sha256, hidden_name(c->j->p, path));
        rp_buf_printf(&text, "%c %s\n", letter, line);
        rp_sha256_update(&c->hash, text.data, text.size);
        RP_FREE char *shown = rp_asprintf("%c %s", letter, hidden);
        if (json_array_size(c->changed) < MAX_CHANGED)
            rp_git_add_line(c->changed, shown);
        c->withheld += secret;
    }
    rp_buf_fini(&to.bytes);
    return rc < 0 && rp_now_ns() > c->j->deadline ? -1 : 0;
}

static void put_list(json_t *out, const char *name, json_t *list)
{
    rp_put(out, name, RP_STATE_OK, list, rp_git_source, NULL, NULL);
}

static void put_changed(struct changes *c, json_t *out)
{
    char hex[RP_SHA256_HEX];
    rp_sha256_final_hex(&c->hash, hex);
    put_list(out, "changed_files", c->changed);
    rp_put_int(out, "changed_left_out", c->modified - (int64_t)json_array_size(c->changed), rp_git_source, "files");
    rp_put_int(out, "withheld", c->withheld, rp_git_source, "files");
    rp_put_str(out, "changes_sha256", hex, rp_git_source);
}

/* Adds a file, up to SMALL_FILE with its digest. */
static void add_untracked(struct changes *c, const char *path)
{
    struct stat st;
    struct rp_git_file file = {0};
    RP_FREE char *place = rp_asprintf("%s%s", git_repository_workdir(c->j->repo), path);
    if (!rp_is_secret_file(path) && lstat(place, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= SMALL_FILE &&
        c->hashed + st.st_size <= SMALL_SUM) {
        c->hashed += st.st_size;
        if (rp_git_read_new(&file, c->j->repo, path, c->j->deadline) < 0)
            *file.sha256 = 0;
    }
    RP_FREE char *line = file_line(may_hold_password(path, &file.bytes), file.sha256, hidden_name(c->j->p, path));
    rp_git_add_line(c->unknown, line);
    rp_buf_fini(&file.bytes);
}

static void put_files(struct changes *c, json_t *out)
{
    size_t i = 0;
    for (; i < c->n && rp_now_ns() <= c->j->deadline; i++)
        if (c->delta[i]->status != GIT_DELTA_UNTRACKED) {
            if (add_changed(c, c->delta[i]) < 0)
                break;
        } else if (json_array_size(c->unknown) < MAX_UNTRACKED)
            add_untracked(c, path_of(c->delta[i]));
    put_list(out, "untracked_files", c->unknown);
    rp_put_int(out, "untracked_left_out", c->untracked - (int64_t)json_array_size(c->unknown), rp_git_source,
               "files and directories");
    /* in the index or the working directory; 0: clean */
    rp_put_int(out, "modified", c->modified, rp_git_source, "files");
    rp_put_int(out, "untracked", c->untracked, rp_git_source, "files and directories");
    if (i == c->n) {
        put_changed(c, out);
        return;
    }
    rp_git_fail(out, rp_now_ns() > c->j->deadline ? late : NULL);
}

void rp_git_changes(const struct rp_git_job *j, json_t *out)
{
    struct changes c = {.j = j};
    git_diff *diff = NULL;
    const char *why = NULL;
    if (git_repository_is_bare(j->repo))
        return; /* absent */
    if (rp_git_compare(&diff, j, j->repo, GIT_DIFF_INCLUDE_UNTRACKED, &why) < 0) {
        rp_git_fail(out, why);
        return;
    }
    c.delta = rp_alloc((git_diff_num_deltas(diff) + 1) * sizeof(void *));
    c.n = list_differences(c.delta, diff, j->repo);
    for (size_t i = 0; i < c.n; i++)
        if (c.delta[i]->status == GIT_DELTA_UNTRACKED)
            c.untracked++;
        else
            c.modified++;
    rp_sha256_init(&c.hash);
    c.changed = json_array();
    c.unknown = json_array();
    put_files(&c, out);
}

/* ---- submodules ---- */

/* The commit that is checked out in it, and whether files differ from it. */
static const char *look_into(const struct rp_git_job *j, const char *path, char commit[GIT_OID_HEXSZ + 1])
{
    git_repository *repo = NULL;
    git_diff *diff = NULL;
    git_oid id;
    const char *detail;
    RP_FREE char *dir = rp_asprintf("%s%s", git_repository_workdir(j->repo), path), *real = realpath(dir, NULL);
    if (!real || strcmp(real, dir) != 0)
        return real ? "refused" : "absent";
    enum rp_state s = rp_git_open(&repo, dir, 0, &detail);
    if (s != RP_STATE_OK)
        return rp_state_name(s);
    if (git_reference_name_to_id(&id, repo, "HEAD") == 0)
        git_oid_tostr(commit, GIT_OID_HEXSZ + 1, &id);
    int rc = rp_git_compare(&diff, j, repo, 0, &detail);
    const git_diff_delta **delta = rp_alloc((rc == 0 ? git_diff_num_deltas(diff) + 1 : 1) * sizeof *delta);
    size_t n = rc == 0 ? list_differences(delta, diff, repo) : 0;
    free(delta);
    git_diff_free(diff);
    git_repository_free(repo);
    return rc < 0 ? "error" : n ? "modified" : "clean";
}

/* "RECORDED CHECKED-OUT STATE path"; 1: its commit or its files differ from the recorded ones. */
static int add_submodule(const struct rp_git_job *j, json_t *list, git_tree *tree, const char *path)
{
    char recorded[GIT_OID_HEXSZ + 1] = "-", found[GIT_OID_HEXSZ + 1] = "-";
    git_tree_entry *e = NULL;
    if (tree && git_tree_entry_bypath(&e, tree, path) == 0)
        git_oid_tostr(recorded, sizeof recorded, git_tree_entry_id(e));
    git_tree_entry_free(e);
    const char *state = look_into(j, path, found);
    RP_FREE char *name = rp_public_name(j->p, "path", path);
    RP_FREE char *line = rp_asprintf("%s %s %s %s", recorded, found, state, name);
    rp_git_add_line(list, line);
    return strcmp(state, "modified") == 0 || (strcmp(found, "-") != 0 && strcmp(found, recorded) != 0);
}

void rp_git_submodules(const struct rp_git_job *j, json_t *out)
{
    git_index *index = NULL;
    git_tree *tree = NULL;
    json_t *list = json_array();
    int changed = 0;
    if (git_repository_is_bare(j->repo))
        return; /* absent */
    if (git_repository_index(&index, j->repo) < 0 || rp_git_head_tree(&tree, j->repo) < 0) {
        rp_git_fail(out, NULL);
        return;
    }
    size_t n = git_index_entrycount(index);
    for (size_t i = 0; i < n; i++) {
        const git_index_entry *e = git_index_get_byindex(index, i);
        if (e->mode != GIT_FILEMODE_COMMIT || git_index_entry_stage(e) != 0)
            continue;
        if (rp_now_ns() > j->deadline || json_array_size(list) >= MAX_SUBMODULES) {
            rp_git_fail(out, rp_now_ns() > j->deadline ? late : "more than 200");
            return;
        }
        changed += add_submodule(j, list, tree, e->path);
    }
    if (json_array_size(list)) {
        put_list(out, "submodules", list);
        rp_put_int(out, "submodules_changed", changed, rp_git_source, NULL);
    }
}
