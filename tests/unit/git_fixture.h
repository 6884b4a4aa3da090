/* Git repositories made by scripts in a scratch directory, and what a capture tells of them. */
#pragma once

#include "base/json.h"
#include "bundle/schema.h"
#include "capture/capture.h"
#include "capture/git/git.h"
#include "tests/unit/scratch.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whenever it begins, the libgit2 of this machine searches all certificates by strstr(): what the address sanitizer
 * reads of that again would be half of the time of these tests. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "intercept_strstr=0";
}

static char home[256]; /* the directory of the last script */

/* Runs a script in a new directory, which is also the home. $ONE is a directory with a repository of one commit. */
static __attribute__((unused)) void git_script(const char *script)
{
    static char one[256];
    if (!*one) {
        snprintf(one, sizeof one, "%s", scratch_new());
        setenv("ONE", one, 1);
        git_script(
            "cd \"$ONE\"; git init -q -b trunk r; cd r; echo 1 >a; echo 1 >b; git add a b; git commit -q -m one");
    }
    snprintf(home, sizeof home, "%s", scratch_new());
    setenv("HOME", home, 1);
    RP_FREE char *command = rp_asprintf(
        "cd %s && export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
        "GIT_COMMITTER_EMAIL=a@b GIT_ALLOW_PROTOCOL=file; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; set -e; "
        "{ %s\n} >log 2>&1",
        home, script);
    CHECK(system(command) == 0, "the script failed: %s", script);
}

#define REPOSITORY "cp -a \"$ONE/r\" r; cd r; git update-index -q --refresh; "
#define NEEDS_GIT()                                                                                                    \
    if (system("git --version >/dev/null 2>&1") != 0)                                                                  \
    SKIP("no git here to make repositories with")

static __attribute__((unused)) json_t *capture(const char *below, const char **repos)
{
    RP_FREE char *dir = rp_asprintf("%s/%s", home, below);
    struct rp_capture_opts o = {.root = "/", .workdir = dir, .repos = repos};
    struct rp_err err;
    while (repos && repos[o.n_repos])
        o.n_repos++;
    CHECK(rp_capture_select(&o, "git", &err) == 0, "%s", err.msg);
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    const struct rp_schema *schema = rp_schema_load("env", &err);
    CHECK(rp_schema_check(schema, env, "environment", &err) == 0, "%s", err.msg);
    return env;
}

static __attribute__((unused)) const json_t *leaf(const json_t *env, const char *repo, const char *name)
{
    return json_object_get(json_object_get(json_object_get(json_object_get(env, "probes"), "git"), repo), name);
}

static __attribute__((unused)) const char *state(const json_t *env, const char *name)
{
    const char *s = json_string_value(json_object_get(leaf(env, "workdir", name), "state"));
    return s ? s : "(no value)";
}

static __attribute__((unused)) const char *text(const json_t *env, const char *name)
{
    const char *s = json_string_value(json_object_get(leaf(env, "workdir", name), "value"));
    return s ? s : state(env, name);
}

static __attribute__((unused)) long long number(const json_t *env, const char *name)
{
    const json_t *v = json_object_get(leaf(env, "workdir", name), "value");
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* The lines of a list, each with its end. */
static __attribute__((unused)) const char *lines(const json_t *env, const char *name)
{
    static struct rp_buf all;
    const json_t *v = json_object_get(leaf(env, "workdir", name), "value");
    all.size = 0;
    rp_buf_add(&all, "", 0);
    for (size_t i = 0; i < json_array_size(v); i++)
        rp_buf_printf(&all, "%s\n", json_string_value(json_array_get(v, i)));
    return all.data;
}

/* What a command in the scratch directory prints. */
static __attribute__((unused)) const char *said(const char *command)
{
    static char out[65536];
    RP_FREE char *line = rp_asprintf("cd %s && { %s\n} 2>/dev/null", home, command);
    FILE *f = popen(line, "r");
    size_t n = f ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = 0;
    CHECK(f && pclose(f) == 0, "%s failed", command);
    return out;
}
