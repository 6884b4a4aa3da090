/* Which commit is checked out, under what name, and where it can be fetched from. */
#include "capture/git/git.h"
#include "capture/privacy/secrets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REMOTES = 16 };

/* ---- remotes ---- */

static int has_only(const char *s, size_t n, const char *also)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr(also, s[i]))
            return 0;
    return n > 0;
}

/* host or host:port; a port that is none may be the beginning of a password. Addresses are not shown, nor are those in
 * brackets. */
static int is_host(const char *s, size_t n)
{
    const char *port = memchr(s, ':', n);
    for (const char *d = port ? port + 1 : s + n; d < s + n; d++)
        if (!isdigit((unsigned char)*d))
            return 0;
    return has_only(s, port ? (size_t)(port - s) : n, ".-_");
}

char *rp_git_public_url(const char *url)
{
    static const char *const schemes[] = {"https://", "http://", "ssh://", "git://", "git+ssh://", "ssh+git://"};
    const char *scheme = "", *host = url, *path;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            scheme = schemes[i];
    if (*scheme) {
        host += strlen(scheme);
        path = host + strcspn(host, "/?#");
        const char *at = memrchr(host, '@', (size_t)(path - host));
        host = at ? at + 1 : host;
    } else { /* user@host:path */
        const char *at = strrchr(url, '@');
        host = at ? at + 1 : url;
        path = host + strcspn(host, ":/");
        if (*path != ':' || path - host < 2 || strncmp(path, "://", 3) == 0) /* a local path, perhaps of Windows */
            return NULL;
    }
    size_t n = strcspn(path, "?#");
    if (!is_host(host, (size_t)(path - host)) || (n && !has_only(path + !*scheme, n - !*scheme, "/._-+,%=")))
        return NULL;
    char *shown = rp_asprintf("%s%.*s%.*s", scheme, (int)(path - host), host, (int)n, path);
    if (strlen(shown) <= 1000 && !rp_is_identity(shown) && !rp_is_secret_name(shown))
        return shown;
    free(shown);
    return NULL;
}

struct remotes {
    const struct rp_probe *p;
    const char *wanted; /* the remote whose URL is `url` */
    json_t *list, *out;
};

/* remote.NAME.url; what an include brings in is not shown, for it may be any file. */
static int note_remote(const git_config_entry *e, void *ctx)
{
    struct remotes *r = ctx;
    size_t n = strlen(e->name);
    char hidden[RP_HIDDEN];
    if (e->include_depth || !e->value || !*e->value || n < 12 || json_array_size(r->list) >= MAX_REMOTES)
        return 0;
    RP_FREE char *name = rp_asprintf("%.*s", (int)n - 11, e->name + 7), *shown = rp_git_public_url(e->value);
    rp_hide(r->p, "url", shown ? shown : e->value, hidden);              /* without the login */
    int unsafe = strpbrk(e->value, "@?") || rp_is_secret_name(e->value); /* a hash would let a password be guessed */
    const char *clear = shown ? shown : e->value;
    const char *url = unsafe && !shown ? "(withheld)" : r->p->opts->identify ? clear : hidden;
    RP_FREE char *public = rp_public_name(r->p, "remote", name), *line = rp_asprintf("%s %s", public, url);
    rp_git_add_line(r->list, line);
    /* of several, git fetches from the first */
    if (r->wanted && strcmp(name, r->wanted) == 0 && !json_object_get(r->out, "url"))
        rp_put_str(r->out, "url", url, rp_git_source);
    return 0;
}

static void put_remotes(const struct rp_git_job *j, json_t *out, const char *wanted)
{
    struct remotes r = {.p = j->p, .wanted = wanted, .list = json_array(), .out = out};
    git_config *config = NULL;
    if (git_repository_config(&config, j->repo) < 0 ||
        git_config_foreach_match(config, "^remote\\..+\\.url$", note_remote, &r) < 0) {
        rp_git_fail(out, NULL);
        return;
    }
    if (!json_object_get(out, "url"))
        rp_put_absent(out, "url", rp_git_source);
    if (json_array_size(r.list))
        rp_put(out, "remotes", RP_STATE_OK, r.list, rp_git_source, NULL, NULL);
    else
        rp_put_absent(out, "remotes", rp_git_source);
}

/* ---- HEAD ---- */

/* The name of a branch or a tag. */
static void put_name(const struct rp_git_job *j, json_t *out, const char *field, const char *name)
{
    RP_FREE char *public = rp_public_name(j->p, field, name);
    rp_put_str(out, field, public, rp_git_source);
}

/* upstream, url, remotes */
static void put_origin(const struct rp_git_job *j, json_t *out, git_reference *head)
{
    git_reference *up = NULL;
    git_buf remote = {0};
    if (head && git_reference_is_branch(head) && git_branch_upstream(&up, head) == 0)
        put_name(j, out, "upstream", git_reference_shorthand(up));
    else
        rp_put_absent(out, "upstream", rp_git_source);
    int known = head && git_branch_upstream_remote(&remote, j->repo, git_reference_name(head)) == 0;
    put_remotes(j, out, known ? remote.ptr : "origin");
}

static void put_head(const struct rp_git_job *j, json_t *out)
{
    git_reference *head = NULL;
    git_oid commit;
    char hex[GIT_OID_HEXSZ + 1];
    int rc = git_repository_head(&head, j->repo);
    if (rc == GIT_EUNBORNBRANCH || rc == GIT_ENOTFOUND) { /* no commit yet */
        rp_put_absent(out, "commit", rp_git_source);
        rp_put_absent(out, "branch", rp_git_source);
    } else if (rc < 0 || git_reference_name_to_id(&commit, j->repo, "HEAD") < 0) {
        rp_git_fail(out, NULL);
    } else {
        git_oid_tostr(hex, sizeof hex, &commit); /* the object itself may be in another repository */
        rp_put_str(out, "commit", hex, rp_git_source);
        put_name(j, out, "branch",
                 git_repository_head_detached(j->repo) == 1 ? "(detached)" : git_reference_shorthand(head));
    }
    put_origin(j, out, head);
}

/* ---- the repository ---- */

static const char *operation_name(git_repository *repo)
{
    switch (git_repository_state(repo)) {
    case GIT_REPOSITORY_STATE_NONE:
        return "none";
    case GIT_REPOSITORY_STATE_MERGE:
        return "merge";
    case GIT_REPOSITORY_STATE_REVERT:
    case GIT_REPOSITORY_STATE_REVERT_SEQUENCE:
        return "revert";
    case GIT_REPOSITORY_STATE_CHERRYPICK:
    case GIT_REPOSITORY_STATE_CHERRYPICK_SEQUENCE:
        return "cherry-pick";
    case GIT_REPOSITORY_STATE_BISECT:
        return "bisect";
    case GIT_REPOSITORY_STATE_REBASE:
    case GIT_REPOSITORY_STATE_REBASE_INTERACTIVE:
    case GIT_REPOSITORY_STATE_REBASE_MERGE:
        return "rebase";
    default:
        return "apply";
    }
}

/* Object directories of other repositories that git reads from, and this program does not. */
static void put_alternates(const struct rp_git_job *j, json_t *out)
{
    int n = rp_git_alternates(j->repo);
    if (n < 0)
        rp_git_fail(out, "objects/info/alternates cannot be read");
    else
        rp_put_int(out, "alternates", n, rp_git_source, NULL);
}

void rp_git_head(const struct rp_git_job *j, json_t *out)
{
    put_head(j, out);
    rp_put_str(out, "object_format", "sha1", rp_git_source); /* the only one that this libgit2 opens */
    rp_put_str(out, "layout",
               git_repository_is_bare(j->repo)       ? "bare"
               : git_repository_is_worktree(j->repo) ? "worktree"
                                                     : "working tree",
               rp_git_source);
    rp_put_str(out, "shallow", git_repository_is_shallow(j->repo) == 1 ? "yes" : "no", rp_git_source);
    rp_put_str(out, "operation", operation_name(j->repo), rp_git_source);
    put_alternates(j, out);
}

/* ---- its history ---- */

static void put_describe(const struct rp_git_job *j, json_t *out, git_object *commit)
{
    git_describe_options o;
    git_describe_format_options f;
    git_describe_result *r = NULL;
    git_buf text = {0};
    git_describe_options_init(&o, GIT_DESCRIBE_OPTIONS_VERSION);
    git_describe_format_options_init(&f, GIT_DESCRIBE_FORMAT_OPTIONS_VERSION);
    o.describe_strategy = GIT_DESCRIBE_TAGS;
    o.show_commit_oid_as_fallback = 1;
    f.abbreviated_size = 12; /* independent of core.abbrev */
    if (git_describe_commit(&r, commit, &o) < 0 || git_describe_format(&text, r, &f) < 0)
        rp_git_fail(out, NULL);
    else
        put_name(j, out, "describe", text.ptr);
}

static void put_distance(const struct rp_git_job *j, json_t *out, git_reference *head, const git_object *commit)
{
    git_reference *up = NULL;
    git_object *there = NULL;
    size_t ahead = 0, behind = 0;
    if (!git_reference_is_branch(head) || git_branch_upstream(&up, head) < 0) {
        rp_put_absent(out, "ahead", rp_git_source);
        rp_put_absent(out, "behind", rp_git_source);
    } else if (git_reference_peel(&there, up, GIT_OBJECT_COMMIT) < 0 ||
               git_graph_ahead_behind(&ahead, &behind, j->repo, git_object_id(commit), git_object_id(there)) < 0) {
        rp_git_fail(out, NULL);
    } else {
        rp_put_int(out, "ahead", (int64_t)ahead, rp_git_source, "commits");
        rp_put_int(out, "behind", (int64_t)behind, rp_git_source, "commits");
    }
}

void rp_git_history(const struct rp_git_job *j, json_t *out)
{
    git_reference *head = NULL;
    git_object *commit = NULL;
    if (git_repository_head(&head, j->repo) < 0)
        return; /* absent: no commit yet, or the first part gives the reason */
    if (git_reference_peel(&commit, head, GIT_OBJECT_COMMIT) < 0) {
        rp_git_fail(out, NULL);
        return;
    }
    put_describe(j, out, commit);
    put_distance(j, out, head, commit);
}
