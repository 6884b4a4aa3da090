/* The state of the git repositories that a run depends on: of the working directory, and of every --repo.
 *
 * Nothing of a repository, the user or the system is executed: hooks, filters and monitors do not exist in libgit2, no
 * configuration but the repository's own is read (safe.directory excepted, git_open.c), and the index is not written.
 * All of it happens in child processes with limits, one for each part, so that a hostile or huge repository costs some
 * seconds at most, takes nothing else with it, and keeps the values found so far. The document has a group for each:
 * "workdir", and the others by the name of their directory. */
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/child.h"
#include "capture/git/git.h"
#include "capture/privacy/secrets.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATIENCE_MS = 2000, SPARE_MS = 300, MAX_ANSWER = 4 << 20, NAME_BYTES = 48 };

static const char here[] = "workdir";
/* Characters of a name in the document; a dot only before a number. */
static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

static const struct part {
    void (*run)(const struct rp_git_job *j, json_t *out);
    const char *names[12]; /* ended by NULL */
} parts[] = {
    {rp_git_head,
     {"commit", "branch", "upstream", "url", "remotes", "object_format", "layout", "shallow", "operation",
      "alternates"}},
    {rp_git_history, {"describe", "ahead", "behind"}},
    {rp_git_changes,
     {"modified", "untracked", "changed_files", "changed_left_out", "untracked_files", "untracked_left_out", "withheld",
      "changes_sha256"}},
    {rp_git_submodules, {"submodules", "submodules_changed"}},
};
enum { PARTS = sizeof parts / sizeof *parts };

/* Those names of part that have no value yet. */
static void put_rest(json_t *out, const struct part *part, enum rp_state state, const char *detail)
{
    for (const char *const *name = part->names; *name; name++)
        if (!json_object_get(out, *name))
            rp_put(out, *name, state, NULL, rp_git_source, NULL, detail);
}

static void put_all(json_t *out, enum rp_state state, const char *detail)
{
    for (int i = 0; i < PARTS; i++)
        put_rest(out, &parts[i], state, detail);
}

/* ---- in a child ---- */

struct git_question {
    const struct rp_probe *p;
    const char *dir;
    const struct part *part;
};

/* The values of a part, with "failed" where some of them are missing, or {"state", "detail"?} when the repository
 * cannot be opened. */
static json_t *read_part(const void *arg, struct rp_buf *rest)
{
    (void)rest;
    const struct git_question *q = arg;
    const char *detail = NULL;
    struct rp_git_job j = {
        .p = q->p, .dir = q->dir, .deadline = rp_now_ns() + (PATIENCE_MS - SPARE_MS) * UINT64_C(1000000)};
    json_t *out = json_object();
    if (rp_git_begin() < 0)
        return json_pack("{s:s, s:s}", "state", rp_state_name(RP_STATE_ERROR), "detail", rp_git_failure());
    enum rp_state s = rp_git_open(&j.repo, q->dir, 1, &detail);
    if (s != RP_STATE_OK)
        return json_pack("{s:s, s:s*}", "state", rp_state_name(s), "detail", detail);
    q->part->run(&j, out);
    return out;
}

/* ---- in this process ---- */

/* Answers of one part; 0 when asking on makes no sense. */
static int query_part(const struct rp_probe *p, const char *dir, const struct part *part, json_t *out)
{
    struct git_question q = {p, dir, part};
    const char *why = "it could not be inspected";
    RP_JSON *answer = rp_in_child(read_part, &q, PATIENCE_MS, MAX_ANSWER, NULL, &why);
    const char *state = json_string_value(json_object_get(answer, "state"));
    if (!json_is_object(answer) || state) {
        enum rp_state s = state ? rp_state_named(state) : RP_STATE_ERROR;
        const char *detail = state ? json_string_value(json_object_get(answer, "detail")) : why;
        put_rest(out, part, s, detail);
        if (part == parts) /* what stops the first would stop the others */
            put_all(out, s, detail);
        return part != parts;
    }
    json_object_update(out, answer);
    json_object_del(out, "failed");
    const char *failed = json_string_value(json_object_get(answer, "failed"));
    if (failed)
        put_rest(out, part, RP_STATE_ERROR, failed);
    return 1;
}

/* "-dirty" belongs to the description of a commit, but only the comparison shows it. */
static void mark_dirty(json_t *out)
{
    static const char *const counts[] = {"modified", "submodules_changed"};
    json_t *d = json_object_get(out, "describe");
    const char *text = rp_known_text(out, "describe");
    int dirty = 0;
    for (size_t i = 0; i < 2; i++)
        dirty |= rp_known_over(out, counts[i], 0);
    if (text && dirty)
        json_object_set_new(d, "value", json_sprintf("%s-dirty", text));
}

/* The last part of the i-th --repo's path, of letters, digits, '_' and '-';
 * a placeholder for secrets and identities. */
static char *base_of(const struct rp_capture_opts *o, int i)
{
    RP_FREE char *real = realpath(o->repos[i], NULL);
    const char *last = rp_base_name(real ? real : o->repos[i]);
    int secret = rp_is_secret_name(last), person = !o->identify && rp_is_identity(last);
    char *base = rp_asprintf("%.*s", NAME_BYTES, secret ? "withheld" : person ? "hidden" : last);
    for (char *c = base; *c; c++)
        if (!strchr(letters, *c) || *c == '.')
            *c = '_';
    return base;
}

/* Its name in the document: with ".2" and so on where an earlier one has it. */
static char *name_of(const struct rp_capture_opts *o, int i)
{
    RP_FREE char *base = base_of(o, i);
    int same = strcmp(base, here) == 0;
    for (int k = 0; k < i; k++) {
        RP_FREE char *other = base_of(o, k);
        same += strcmp(other, base) == 0;
    }
    return same ? rp_asprintf("%s.%d", base, same + 1) : rp_strdup(*base ? base : "_");
}

static json_t *query_repository(const struct rp_probe *p, const char *arg)
{
    const char *dir = p->opts->workdir ? p->opts->workdir : ".";
    struct stat st;
    json_t *out = json_object();
    for (int i = 0; i < p->opts->n_repos; i++) {
        RP_FREE char *name = name_of(p->opts, i);
        if (strcmp(name, arg) == 0)
            dir = p->opts->repos[i];
    }
    if (stat(dir, &st) < 0) {
        put_all(out, RP_STATE_ERROR, "no such directory");
        return out;
    }
    for (int i = 0; i < PARTS && query_part(p, dir, &parts[i], out); i++)
        ;
    mark_dirty(out);
    return out;
}

/* The answers come from a process that read what strangers wrote, or from a record: only values of the documented form
 * pass. */
static void put_repository(struct rp_probe *p, const char *name)
{
    static const struct rp_sender sender = {rp_git_source, "not of the form of a value"};
    RP_JSON *answer = rp_probe_query(p, "git", name, query_repository);
    json_t *out = json_object();
    json_object_set_new(p->out, name, out);
    RP_JSON *known = json_object();
    for (int i = 0; i < PARTS; i++)
        for (const char *const *n = parts[i].names; *n; n++)
            if (*rp_leaf(json_object_get(answer, *n)).state)
                json_object_set(known, *n, json_object_get(answer, *n));
    rp_put_foreign(p, out, known, &sender);
    put_all(out, RP_STATE_ABSENT, NULL); /* a machine composed by hand has no working directory */
}

void rp_probe_git(struct rp_probe *p)
{
    const char *key;
    json_t *answer;
    put_repository(p, here);
    for (int i = 0; i < p->opts->n_repos && p->live; i++) {
        RP_FREE char *name = name_of(p->opts, i);
        put_repository(p, name);
    }
    json_object_foreach(json_object_get(p->recorded, "answers"), key, answer)
        if (strncmp(key, "git ", 4) == 0 && key[4] && strspn(key + 4, letters) == strlen(key + 4) &&
            strlen(key) < NAME_BYTES + 12 && !json_object_get(p->out, key + 4))
            put_repository(p, key + 4);
}
