/* The git state of the working directory, through libgit2. Nothing of the repository, the user or the system is executed or believed:
 * no configuration outside the repository is read, a repository of another owner is refused, hooks, filters and monitors do not exist
 * in libgit2, and the index is not written. All of it happens in a child process with limits, so that a hostile or huge repository
 * costs a second at most and cannot take this process with it. */
#include "base/json.h"
#include "capture/child.h"
#include "capture/probe.h"

#include <git2.h>
#include <stdio.h>
#include <stdlib.h>

enum { PATIENCE_MS = 1000, MAX_ANSWER = 16384 };

static const char source[] = "libgit2";
static const char *const names[] = {"commit", "branch", "modified", "untracked"};

static void put_all(json_t *out, enum rp_state state, const char *detail)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        rp_put(out, names[i], state, NULL, source, NULL, detail);
}

static const char *last_error(void)
{
    const git_error *e = git_error_last();
    return e && e->message ? e->message : "unknown";
}

/* ---- in the child ---- */

static void no_foreign_configuration(void)
{
    static const int levels[] = {GIT_CONFIG_LEVEL_PROGRAMDATA, GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "");
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 1);
    git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)256 << 20);
}

static void put_head(json_t *out, git_repository *repo)
{
    git_reference *head = NULL;
    git_object *commit = NULL;
    char hex[GIT_OID_HEXSZ + 1];
    int rc = git_repository_head(&head, repo);
    if (rc == GIT_EUNBORNBRANCH || rc == GIT_ENOTFOUND) { /* no commit yet */
        rp_put_absent(out, "commit", source);
        rp_put_absent(out, "branch", source);
    } else if (rc < 0 || git_reference_peel(&commit, head, GIT_OBJECT_COMMIT) < 0) {
        rp_put(out, "commit", RP_STATE_ERROR, NULL, source, NULL, last_error());
        rp_put(out, "branch", RP_STATE_ERROR, NULL, source, NULL, last_error());
    } else {
        git_oid_tostr(hex, sizeof hex, git_object_id(commit));
        rp_put_str(out, "commit", hex, source);
        rp_put_str(out, "branch", git_repository_head_detached(repo) == 1 ? "(detached)" : git_reference_shorthand(head), source);
    }
    git_object_free(commit);
    git_reference_free(head);
}

static void put_changes(json_t *out, git_repository *repo)
{
    git_status_options o;
    git_status_list *list = NULL;
    int64_t modified = 0, untracked = 0;
    if (git_repository_is_bare(repo)) {
        rp_put_absent(out, "modified", source);
        rp_put_absent(out, "untracked", source);
        return;
    }
    git_status_options_init(&o, GIT_STATUS_OPTIONS_VERSION);
    o.show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR;
    o.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED | GIT_STATUS_OPT_EXCLUDE_SUBMODULES | GIT_STATUS_OPT_NO_REFRESH;
    if (git_status_list_new(&list, repo, &o) < 0) {
        rp_put(out, "modified", RP_STATE_ERROR, NULL, source, NULL, last_error());
        rp_put(out, "untracked", RP_STATE_ERROR, NULL, source, NULL, last_error());
        return;
    }
    size_t n = git_status_list_entrycount(list);
    for (size_t i = 0; i < n; i++)
        if (git_status_byindex(list, i)->status == GIT_STATUS_WT_NEW)
            untracked++;
        else
            modified++;
    git_status_list_free(list);
    rp_put_int(out, "modified", modified, source, "files"); /* in the index or the working directory; 0: clean */
    rp_put_int(out, "untracked", untracked, source, "files and directories");
}

static json_t *inspect(const void *dir, struct rp_buf *rest)
{
    (void)rest;
    json_t *out = json_object();
    git_repository *repo = NULL;
    if (git_libgit2_init() < 0) {
        put_all(out, RP_STATE_ERROR, last_error());
        return out;
    }
    no_foreign_configuration();
    int rc = git_repository_open_ext(&repo, dir, 0, NULL); /* upwards, not across file systems, without GIT_* variables */
    git_buf found = {0};
    /* libgit2 1.5 says "not found" for a foreign repository when no safe.directory is configured */
    int is_there = rc == GIT_ENOTFOUND && git_repository_discover(&found, dir, 0, NULL) == 0;
    git_buf_dispose(&found);
    if (rc == GIT_ENOTFOUND && !is_there)
        put_all(out, RP_STATE_ABSENT, NULL);
    else if (rc == GIT_EOWNER || is_there)
        put_all(out, RP_STATE_DENIED, "the repository belongs to another user");
    else if (rc < 0)
        put_all(out, RP_STATE_ERROR, last_error());
    else {
        put_head(out, repo);
        put_changes(out, repo);
    }
    git_repository_free(repo);
    git_libgit2_shutdown();
    return out;
}

/* ---- in this process ---- */

static json_t *ask(const struct rp_probe *p, const char *arg)
{
    const char *why;
    (void)arg;
    json_t *answer = rp_in_child(inspect, p->opts->workdir ? p->opts->workdir : ".", PATIENCE_MS, MAX_ANSWER, NULL, &why);
    if (json_is_object(answer))
        return answer;
    json_decref(answer);
    json_t *out = json_object();
    put_all(out, RP_STATE_ERROR, why);
    return out;
}

void rp_probe_git(struct rp_probe *p)
{
    static const struct rp_sender sender = {source, "libgit2's child or the record sent something that is no value"};
    RP_JSON *answer = rp_live(p, "git", NULL, ask);
    if (json_is_object(answer))
        rp_put_foreign(p, p->out, answer, &sender);
    else
        put_all(p->out, RP_STATE_ABSENT, NULL); /* a machine composed by hand has no working directory */
}
