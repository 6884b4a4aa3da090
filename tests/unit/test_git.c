/* What is told of git repositories: friendly ones in every state, secrets in them, and hostile ones, which run nothing and lead nowhere. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "bundle/schema.h"
#include "capture/capture.h"
#include "capture/git.h"
#include "tests/unit/tap.h"

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char scratch[32];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void leave_scratch(void)
{
    nftw(scratch, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Runs a script in a fresh scratch directory that is also the home; 0 when it worked. */
static int in_scratch(const char *script)
{
    strcpy(scratch, "/tmp/rp-git-XXXXXX");
    if (!mkdtemp(scratch) || setenv("HOME", scratch, 1) < 0)
        return -1;
    RP_FREE char *command =
        rp_asprintf("cd %s && export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a "
                    "GIT_COMMITTER_EMAIL=a@b GIT_ALLOW_PROTOCOL=file; unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE; set -e; "
                    "{ %s\n} >log 2>&1",
                    scratch, script);
    return system(command);
}

#define REPOSITORY "git init -q -b trunk r; cd r; echo 1 >a; echo 1 >b; git add a b; git commit -q -m one; "
#define NEEDS_GIT()                                                                                                                        \
    if (system("git --version >/dev/null 2>&1") != 0)                                                                                      \
    SKIP("no git here to make repositories with")

static json_t *capture(const char *below, const char **repos, int with_diff)
{
    RP_FREE char *dir = rp_asprintf("%s/%s", scratch, below);
    struct rp_capture_opts o = {.root = "/", .workdir = dir, .repos = repos, .with_diff = with_diff};
    struct rp_err err;
    while (repos && repos[o.n_repos])
        o.n_repos++;
    CHECK(rp_capture_select(&o, "git", &err) == 0, "%s", err.msg);
    json_t *env = rp_capture(&o, &err);
    CHECK(env != NULL, "%s", err.msg);
    RP_JSON *schema = rp_schema_load("env", &err);
    CHECK(rp_schema_check(schema, env, "environment", &err) == 0, "%s", err.msg);
    return env;
}

static const json_t *leaf(const json_t *env, const char *repo, const char *name)
{
    return json_object_get(json_object_get(json_object_get(json_object_get(env, "probes"), "git"), repo), name);
}

static const char *state(const json_t *env, const char *name)
{
    const char *s = json_string_value(json_object_get(leaf(env, "workdir", name), "state"));
    return s ? s : "(no value)";
}

static const char *text(const json_t *env, const char *name)
{
    const char *s = json_string_value(json_object_get(leaf(env, "workdir", name), "value"));
    return s ? s : state(env, name);
}

static long long number(const json_t *env, const char *name)
{
    const json_t *v = json_object_get(leaf(env, "workdir", name), "value");
    return json_is_integer(v) ? json_integer_value(v) : -1;
}

/* The lines of a list, each with its end. */
static const char *lines(const json_t *env, const char *name)
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
static const char *said(const char *command)
{
    static char out[65536];
    RP_FREE char *line = rp_asprintf("cd %s && { %s\n} 2>/dev/null", scratch, command);
    FILE *f = popen(line, "r");
    size_t n = f ? fread(out, 1, sizeof out - 1, f) : 0;
    out[n] = 0;
    CHECK(f && pclose(f) == 0, "%s failed", command);
    return out;
}

static void check_repository(const char *script, const char *below, const char *branch, int modified, int untracked)
{
    CHECK(in_scratch(script) == 0, "the script failed: %s", script);
    json_t *env = capture(below, NULL, 0);
    CHECK(strlen(text(env, "commit")) == 40, "%s: commit is %s", script, text(env, "commit"));
    CHECK_STR(text(env, "branch"), branch);
    CHECK(number(env, "modified") == modified && number(env, "untracked") == untracked, "%s: %lld modified, %lld untracked", script,
          number(env, "modified"), number(env, "untracked"));
    CHECK(!strstr(text(env, "describe"), "-dirty") == !modified, "%s: %s", script, text(env, "describe"));
    json_decref(env);
    leave_scratch();
}

TEST(states)
{
    NEEDS_GIT();
    check_repository(REPOSITORY, "r", "trunk", 0, 0);
    check_repository(REPOSITORY "echo 2 >a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo 2 >a; rm b; echo 3 >c; mkdir d; echo 4 >d/e", "r", "trunk", 2, 2);
    check_repository(REPOSITORY "echo 2 >a; git add a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo c >.gitignore; git add .gitignore; git commit -q -m two; echo 1 >c", "r", "trunk", 0, 0);
    check_repository(REPOSITORY "git checkout -q --detach; mkdir sub", "r/sub", "(detached)", 0, 0);
    check_repository(REPOSITORY "git worktree add -q -b side ../w; cd ../w; echo 2 >b", "w", "side", 1, 0);
    check_repository(REPOSITORY "touch -d 2001-01-01 a; cp a c; mv c a", "r", "trunk", 0,
                     0); /* another inode and date, the same contents */
    check_repository(REPOSITORY "chmod +x a", "r", "trunk", 1, 0);

    static const char *const nothing[] = {"mkdir r", "git init -q r"}; /* no repository; no commit */
    for (int i = 0; i < 2; i++) {
        CHECK(in_scratch(nothing[i]) == 0, "%s", nothing[i]);
        json_t *env = capture("r", NULL, 0);
        CHECK_STR(state(env, "commit"), "absent");
        CHECK_STR(state(env, "describe"), "absent");
        CHECK_STR(state(env, "modified"), i ? "ok" : "absent");
        json_decref(env);
        leave_scratch();
    }
}

/* git itself is the oracle for the names, and for the difference, byte for byte. */
TEST(as_git_says)
{
    NEEDS_GIT();
    CHECK(in_scratch(REPOSITORY
                     "git tag -a v1.2 -m x; git commit -q --allow-empty -m two; seq 1 60 >a; "
                     "printf '1\\n2\\na\\n\\nb\\n3\\n4\\n' >slide; git add a slide; git commit -q -m three; "
                     "printf '1\\n2\\na\\n\\nb\\na\\n\\nb\\n3\\n4\\n' >slide; "
                     "git init -q --bare ../up; git remote add origin \"$PWD/../up\"; git push -q -u origin trunk; "
                     "git commit -q --allow-empty -m four; sed -i 's/^7$/seven/; s/^50$/fifty/; 60q' a; printf 'no end' >>a; rm b; "
                     "printf 'x\\0y' >bin; ln -s a link; printf 'new\\n' >'with space'; mkdir d; echo 1 >d/f; chmod +x d/f; git add .; "
                     "echo later >>d/f") == 0,
          "the script failed");
    json_t *env = capture("r", NULL, 1);
    char hex[RP_SHA256_HEX];
    RP_FREE char *describe = rp_asprintf("%s\n", text(env, "describe")), *diff = rp_strdup(text(env, "diff"));
    CHECK_STR(describe, said("cd r; git describe --tags --always --dirty --abbrev=12"));
    CHECK(strncmp(describe, "v1.2-3-g", 8) == 0, "%s", describe);
    rp_sha256_hex(hex, diff, strlen(diff));
    CHECK_STR(text(env, "diff_sha256"), hex);
    CHECK(number(env, "diff_size") == (long long)strlen(diff), "%lld bytes", number(env, "diff_size"));
    char *note = strstr(diff, " (SHA-256 ");
    CHECK(note != NULL, "no binary file in %s", diff);
    if (note)
        memmove(note, strchr(note, '\n'), strlen(strchr(note, '\n')) + 1);
    CHECK_STR(diff, said("cd r; git diff HEAD --full-index --no-renames"));
    CHECK_STR(lines(env, "changed_files"),
              said("cd r; for f in 'M a' 'D b' 'A bin' 'A d/f' 'A link' 'M slide' 'A with space'; do n=${f#??}; "
                   "case $n in b) s=- ;; link) s=$(printf a | sha256sum | cut -c -64) ;; *) s=$(sha256sum <\"$n\" | cut -c -64) ;; esac; "
                   "echo \"${f%% *} $s $n\"; done"));
    CHECK_STR(text(env, "upstream"), "origin/trunk");
    CHECK(number(env, "ahead") == 1 && number(env, "behind") == 0, "%lld, %lld", number(env, "ahead"), number(env, "behind"));
    CHECK(strncmp(text(env, "url"), "sha256:", 7) == 0, "a local path shows: %s", text(env, "url"));
    json_decref(env);
    leave_scratch();
}

/* git sorts and shows by the repository's and the user's settings: the digest is of the changes alone. */
TEST(configuration_does_not_change_the_difference)
{
    NEEDS_GIT();
    static const char own[] =
        "git config diff.context 9; git config diff.noprefix true; git config diff.algorithm patience; git config "
        "diff.mnemonicPrefix true; git config diff.renames copies; git config core.ignorecase true; git config core.abbrev 40; "
        "git config diff.x.xfuncname '^(.*)$'; git config diff.x.textconv false; echo '* diff=x' >.git/info/attributes; ";
    static const char users[] = "; printf '[core]\\n\\texcludesFile = %s/all\\n' \"$HOME\" >../.gitconfig; echo '*' >../all";
    RP_FREE char *digest = NULL;
    for (int i = 0; i < 2; i++) {
        RP_FREE char *script =
            rp_asprintf(REPOSITORY "%s seq 1 90 >Z; seq 9 >Q; git add Z Q; git commit -q -m two; sed -i '50d;20d' Z; echo x >>a; mv Q W; "
                                   "git add -A .; echo >unknown%s",
                        i ? own : "", i ? users : "");
        CHECK(in_scratch(script) == 0, "the script failed");
        json_t *env = capture("r", NULL, 0);
        CHECK(number(env, "modified") == 4, "%lld modified", number(env, "modified"));
        CHECK(number(env, "untracked") == 1, "%lld untracked", number(env, "untracked"));
        CHECK_STR(state(env, "diff"), "absent");
        if (i)
            CHECK_STR(text(env, "diff_sha256"), digest);
        else
            digest = rp_strdup(text(env, "diff_sha256"));
        json_decref(env);
        leave_scratch();
    }
}

TEST(repository_properties)
{
    NEEDS_GIT();
    static const struct {
        const char *script, *below, *name, *value;
    } cases[] = {
        {REPOSITORY, "r", "layout", "working tree"},
        {REPOSITORY, "r", "shallow", "no"},
        {REPOSITORY, "r", "operation", "none"},
        {REPOSITORY "git clone -q --bare . ../bare", "bare", "layout", "bare"},
        {REPOSITORY "git worktree add -q ../w", "w", "layout", "worktree"},
        {REPOSITORY "git commit -q --allow-empty -m two; git clone -q --depth 1 \"file://$PWD\" ../s", "s", "shallow", "yes"},
        {REPOSITORY "git checkout -q -b x; echo 2 >a; git commit -q -a -m x; git checkout -q trunk; echo 3 >a; git commit -q -a -m y; git "
                    "merge x || :",
         "r", "operation", "merge"},
        {REPOSITORY "git checkout -q -b x; echo 2 >a; git commit -q -a -m x; git checkout -q trunk; echo 3 >a; git commit -q -a -m y; git "
                    "rebase x || :",
         "r", "operation", "rebase"},
        {"git init -q --object-format=sha256 r", "r", "commit", "error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK(in_scratch(cases[i].script) == 0, "the script failed: %s", cases[i].script);
        json_t *env = capture(cases[i].below, NULL, 0);
        CHECK(strcmp(text(env, cases[i].name), cases[i].value) == 0, "%s: %s is %s", cases[i].script, cases[i].name,
              text(env, cases[i].name));
        json_decref(env);
        leave_scratch();
    }
    CHECK(in_scratch(REPOSITORY "git clone -q --shared . ../c") == 0, "the script failed");
    json_t *env = capture("c", NULL, 0);
    CHECK(number(env, "alternates") == 1 && strlen(text(env, "commit")) == 40, "%lld alternates", number(env, "alternates"));
    json_decref(env);
    leave_scratch();
}

TEST(several_repositories_and_submodules)
{
    NEEDS_GIT();
    CHECK(
        in_scratch(REPOSITORY
                   "cd ..; git init -q o; cd o; echo 1 >x; git add x; git commit -q -m o; git config protocol.file.allow always; cd ../r; "
                   "for s in same moved touched gone; do git -c protocol.file.allow=always submodule add -q \"$PWD/../o\" sub/$s; done; "
                   "git commit -q -m subs; "
                   "(cd sub/moved; git commit -q --allow-empty -m further); echo 2 >sub/touched/x; "
                   "git submodule deinit -q -f sub/gone; mkdir -p ../deep/o; cd ../deep/o; git init -q -b other") == 0,
        "the script failed");
    RP_FREE char *o = rp_asprintf("%s/o", scratch), *deep = rp_asprintf("%s/deep/o/", scratch), *none = rp_asprintf("%s/none", scratch);
    const char *repos[] = {o, deep, none, NULL};
    json_t *env = capture("r", repos, 0);
    CHECK_STR(lines(env, "submodules"), said("cd r; for s in gone:absent moved:clean same:clean touched:modified; do n=sub/${s%:*}; c=-; [ "
                                             "$n = sub/gone ] || c=$(git -C $n rev-parse HEAD); "
                                             "echo $(git rev-parse HEAD:$n) $c ${s#*:} $n; done"));
    CHECK(number(env, "modified") == 0, "%lld modified", number(env, "modified"));
    RP_FREE char *head = rp_strdup(said("git -C o rev-parse HEAD | tr -d '\\n'"));
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o", "commit"), "value")), head);
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o.2", "commit"), "state")), "absent");
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o.2", "modified"), "state")), "ok");
    CHECK_STR(json_string_value(json_object_get(leaf(env, "none", "commit"), "detail")), "there is no such directory");
    json_decref(env);
    leave_scratch();
}

TEST(urls_show_host_and_path_alone)
{
    static const char *const cases[][2] = {
        {"https://github.com/a/b.git", "https://github.com/a/b.git"},
        {"https://user:marker@github.com/a/b.git", "https://github.com/a/b.git"},
        {"https://marker@github.com:8443/a/b.git?token=marker#marker", "https://github.com:8443/a/b.git"},
        {"git@github.com:a/b.git", "github.com:a/b.git"},
        {"ssh://git:marker@host.example:22/a/b", "ssh://host.example:22/a/b"},
        {"https://user:mar@ker@github.com/a", "https://github.com/a"},
        {"https://user:mar/ker@github.com/a", NULL},
        {"https://user:marker/ker@github.com/a", NULL},
        {"user:marker@host:path", "host:path"},
        {"https://host/ghp_abcdefghijklmnopqrstuvwxyz0123456789/a", NULL},
        {"https://host/home/alice/a", NULL},
        {"https://10.1.2.3/a", NULL},
        {"https://[fe80::1]/a", NULL},
        {"file:///marker/a", NULL},
        {"/marker/a", NULL},
        {"../marker", NULL},
        {"C:/marker", NULL},
        {"C:\\marker", NULL},
        {"ext::sh -c marker% >&2", NULL},
        {"host:~marker/a", NULL},
        {"https://host/a b\nmarker", NULL},
        {"https://", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *shown = rp_git_public_url(cases[i][0]);
        CHECK(shown == cases[i][1] || (shown && cases[i][1] && strcmp(shown, cases[i][1]) == 0), "'%s' shows as '%s'", cases[i][0],
              shown ? shown : "(hidden)");
    }
}

TEST(secrets_never_show)
{
    NEEDS_GIT();
    static const char *const secret[] = {"password = \"marker12345\"",
                                         "export API_TOKEN=marker12345",
                                         "-----BEGIN OPENSSH PRIVATE KEY-----",
                                         "key: ghp_abcdefghijklmnopqrstuvwxyz",
                                         "key: ghr_abcdefghijklmnopqrstuvwxyz",
                                         "AKIAABCDEFGHIJKLMNOP",
                                         "url = https://me:marker@host/x",
                                         "\"aws_secret_access_key\": \"wJalrXUtnFEMI\"",
                                         "aB3dE5gH7jK9mN1pQ3sT5vX7zA2cD4eF6"};
    static const char *const plain[] = {"disk-usage-of-the-cached-and-sorted-tokens",
                                        "pypi-mirror-of-the-index-and-of-everything-in-it",
                                        "token = tokenizer.next(line)",
                                        "password = getpass()",
                                        "if (password) return;",
                                        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                                        "https://host/a@b",
                                        "PAD_TOKEN = '<pad>'",
                                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"};
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
        CHECK(rp_git_secret_text(secret[i], strlen(secret[i])), "%s", secret[i]);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        CHECK(!rp_git_secret_text(plain[i], strlen(plain[i])), "%s", plain[i]);

    RP_BUF shown = {0};
    CHECK(in_scratch(REPOSITORY
                     "mkdir k; echo marker >.env; echo marker >k/id_rsa; echo old >conf; echo fine >c; git add -f .; git commit -q -m two; "
                     "echo marker2 >.env; echo marker2 >k/id_rsa; echo 'db_password: marker-in-a-file' >conf; echo public >c; "
                     "git remote add origin https://user:marker@host/x; git remote add b /tmp/marker/x") == 0,
          "the script failed");
    json_t *env = capture("r", NULL, 1);
    rp_json_write(&shown, env);
    CHECK(!strstr(shown.data, "marker"), "%.80s", strstr(shown.data, "marker"));
    CHECK(strstr(text(env, "diff"), "+public\n") != NULL, "%s", text(env, "diff"));
    CHECK(number(env, "withheld") == 3 && number(env, "modified") == 4, "%lld withheld", number(env, "withheld"));
    CHECK(strstr(lines(env, "changed_files"), "M withheld .env\n") && strstr(lines(env, "changed_files"), "M withheld k/id_rsa\n"), "%s",
          lines(env, "changed_files"));
    CHECK_STR(text(env, "url"), "https://host/x");
    json_decref(env);
    leave_scratch();
}

TEST(bounds)
{
    NEEDS_GIT();
    CHECK(in_scratch(REPOSITORY "for i in $(seq 1000 1349); do echo $i >f$i; done; seq 1 90000 >large; git add .; git commit -q -m two; "
                                "for i in $(seq 1000 1249); do echo x$i >f$i; done; for i in $(seq 1 150); do echo >u$i; done; "
                                "seq 1 100000 >large; seq 1 250000 >b; ln -s /etc/hostname up; printf 'a\\tb\\033[31m\\377\\n' >>a") == 0,
          "the script failed");
    json_t *env = capture("r", NULL, 1);
    CHECK(number(env, "modified") == 253 && number(env, "untracked") == 151, "%lld modified, %lld untracked", number(env, "modified"),
          number(env, "untracked"));
    CHECK(json_array_size(json_object_get(leaf(env, "workdir", "changed_files"), "value")) == 200, "changed files");
    CHECK(json_array_size(json_object_get(leaf(env, "workdir", "untracked_files"), "value")) == 100, "untracked files");
    const char *diff = text(env, "diff");
    CHECK(strstr(diff, "+a\tb?[31m?\n") != NULL, "escape sequences: %.200s", diff);
    CHECK(strstr(diff, "Binary files a/b and b/b differ (SHA-256 ") != NULL, "a large file");
    json_decref(env);
    leave_scratch();

    CHECK(in_scratch(REPOSITORY
                     "seq 1 90000 >c; git add c; git commit -q -m two; for i in 1 2; do seq $i 8 900000 >c$i; git add c$i; done") == 0,
          "the script failed");
    env = capture("r", NULL, 1);
    CHECK_STR(state(env, "diff"), "error");
    CHECK(strlen(text(env, "diff_sha256")) == 64 && number(env, "diff_size") > 1 << 20, "%lld bytes", number(env, "diff_size"));
    json_decref(env);
    leave_scratch();

    CHECK(in_scratch(REPOSITORY
                     "c=$(git rev-parse HEAD); for i in $(seq 201); do echo \"160000 $c 0\tm$i\"; done | git update-index --index-info") ==
              0,
          "the script failed");
    env = capture("r", NULL, 0);
    CHECK_STR(state(env, "submodules"), "error");
    json_decref(env);
    leave_scratch();
}

/* Files of Git LFS that are what their pointers say are not changed. */
TEST(large_file_storage)
{
    NEEDS_GIT();
    CHECK(in_scratch(
              REPOSITORY
              "echo weights >w; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize 8\\n' $(sha256sum <w | cut -c "
              "-64) >p; "
              "cp p v; cp p w.txt; mv w.txt w2; git add p v; git mv -f p w 2>/dev/null || git mv p w; git add w v; git commit -q -m lfs; "
              "echo weights >w; echo other >v") == 0,
          "the script failed");
    json_t *env = capture("r", NULL, 0);
    CHECK(number(env, "modified") == 1 && strstr(lines(env, "changed_files"), " v\n"), "%lld: %s", number(env, "modified"),
          lines(env, "changed_files"));
    json_decref(env);
    leave_scratch();
}

/* ---- hostile repositories ---- */

/* Everything in a repository that makes git run a program; the program leaves a file. */
TEST(nothing_is_run)
{
    NEEDS_GIT();
    CHECK(
        in_scratch(REPOSITORY
                   "printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' \"$HOME\" >../evil; chmod +x ../evil; "
                   "for h in pre-commit post-checkout post-index-change fsmonitor-watchman reference-transaction; do cp ../evil "
                   ".git/hooks/$h; done; "
                   "for k in core.fsmonitor core.sshCommand core.pager core.editor core.askPass diff.external diff.f.command "
                   "diff.f.textconv filter.f.clean "
                   "filter.f.smudge filter.f.process credential.helper gpg.program; do git config $k \"$HOME/evil\"; done; "
                   "git config core.hooksPath \"$HOME\"; cp ../evil ../post-index-change; git config filter.f.required true; "
                   "printf '* filter=f diff=f\\n' >.gitattributes; printf '[alias]\\n\\tstatus = !%s/evil\\n' \"$HOME\" >../.gitconfig; "
                   "printf '[include]\\n\\tpath = %s/.gitconfig\\n' \"$HOME\" >>.git/config; git config remote.x.url \"ext::$HOME/evil\"; "
                   "git config branch.trunk.remote x; git config branch.trunk.merge refs/heads/x; "
                   "rm -f ../ran; echo changed >a; cp .git/index ../index") == 0,
        "the script failed");
    RP_FREE char *ran = rp_asprintf("%s/ran", scratch), *compare = rp_asprintf("cmp -s %s/index %s/r/.git/index", scratch, scratch);
    json_t *env = capture("r", NULL, 1);
    CHECK(access(ran, F_OK) < 0, "a program of the repository ran");
    CHECK(system(compare) == 0, "the index was written");
    CHECK_STR(text(env, "branch"), "trunk");
    CHECK(number(env, "modified") == 1, "%lld", number(env, "modified"));
    json_decref(env);
    leave_scratch();
}

/* Repositories that lead somewhere else: nothing of that place shows. */
TEST(nothing_leads_elsewhere)
{
    NEEDS_GIT();
    static const char other[] =
        "git init -q -b marker other; cd other; echo marker >marker; git add .; git commit -q -m marker; echo marker2 >marker; "
        "git remote add origin https://host/marker; cd ..; ";
    static const struct {
        const char *script, *commit, *submodule; /* the commit's state, a line about the submodule that is one of them, or NULL */
    } cases[] = {
        {"git config core.worktree \"$HOME/other\"", "denied", NULL},
        {"git config core.worktree ../../other", "denied", NULL},
        {"mkdir ../other/sub; git config core.worktree \"$HOME/other/sub\"", "denied", NULL},
        {"cd ..; git init -q -b marker; cp other/marker .; git add marker; cd r; git config core.worktree ../..", "denied", NULL},
        {"rm -r .git; ln -s ../other/.git .git", "denied", NULL},
        {"rm -r .git; echo 'gitdir: ../other/.git' >.git", "denied", NULL},
        {"(cd ../other; git worktree add -q -b marker3 ../w); rm -r .git; cp ../w/.git .git", "denied", NULL},
        {"printf '[include]\\n\\tpath = ../../other/.git/config\\n' >>.git/config", "ok", NULL},
        {"mkdir d; echo 1 >d/marker; git add d; git commit -q -m d; rm -r d; ln -s ../other d", "ok", NULL},
        {"rm a; ln -s ../other/marker a", "ok", NULL},
        {"git update-index --add --cacheinfo 160000,$(git -C ../other rev-parse HEAD),s; git commit -q -m s; ln -s ../other s", "ok",
         " - refused s\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF shown = {0};
        RP_FREE char *script = rp_asprintf("%s" REPOSITORY "%s", other, cases[i].script);
        CHECK(in_scratch(script) == 0, "the script failed: %s", cases[i].script);
        json_t *env = capture("r", NULL, 1);
        rp_json_write(&shown, env);
        RP_FREE char *head = rp_strdup(said("git -C other rev-parse HEAD | tr -d '\\n'"));
        CHECK(!strstr(shown.data, "marker2") && !strstr(shown.data, "marker3") && !strstr(shown.data, "\"marker\"") &&
                  !strstr(shown.data, "host/marker"),
              "%s: %s", cases[i].script, strstr(shown.data, "marker"));
        CHECK(cases[i].submodule || !strstr(shown.data, head), "%s: the other commit shows", cases[i].script);
        CHECK(!cases[i].submodule || strstr(lines(env, "submodules"), cases[i].submodule), "%s", lines(env, "submodules"));
        CHECK(strcmp(state(env, "commit"), cases[i].commit) == 0, "%s: commit is %s", cases[i].script, state(env, "commit"));
        json_decref(env);
        leave_scratch();
    }
}

/* What libgit2 passes over already, in case it changes in between. */
TEST(files_are_read_where_they_are)
{
    NEEDS_GIT();
    static const struct {
        const char *path;
        int found;
    } cases[] = {{"a", 1}, {"d/e", 1}, {"link", 1}, {"pipe", 0}, {"outside/log", 0}, {"../log", 0}, {"d/../a", 0}, {"d", 0}, {"none", 0}};
    CHECK(in_scratch(REPOSITORY "mkdir d; echo e >d/e; mkfifo pipe; ln -s .. outside; ln -s /etc/hostname link") == 0, "the script failed");
    RP_FREE char *dir = rp_asprintf("%s/r", scratch);
    git_repository *repo = NULL;
    const char *detail;
    CHECK(rp_git_begin() == 0 && rp_git_open(&repo, dir, 1, &detail) == RP_STATE_OK, "%s", detail);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && repo; i++) {
        struct rp_git_side s;
        int rc = rp_git_read_new(&s, repo, cases[i].path, UINT64_MAX);
        CHECK((rc == 0) == cases[i].found && s.exists == cases[i].found, "%s: %d", cases[i].path, rc);
        CHECK(strcmp(cases[i].path, "link") != 0 || strcmp(rp_buf_text(&s.bytes), "/etc/hostname") == 0, "%s", rp_buf_text(&s.bytes));
        rp_git_side_fini(&s);
    }
    struct rp_git_job late = {.repo = repo, .deadline = 1};
    git_diff *diff = NULL;
    CHECK(rp_git_compare(&diff, &late, repo, 0, &detail) == -1 && strcmp(detail, "looking took too long") == 0, "%s", detail);
    git_repository_free(repo);
    git_libgit2_shutdown();
    leave_scratch();
}

TEST(broken_repositories_are_errors_in_time)
{
    NEEDS_GIT();
    static const char *const scripts[] = {
        "echo rubbish >.git/HEAD",
        "rm .git/HEAD; mkfifo .git/HEAD", /* blocks whoever opens it */
        "mkfifo .gitignore",
        "mkfifo .git/objects/info/alternates",
        "find .git/objects -type f -exec chmod u+w {} + -exec sh -c 'echo x >$1' x {} \\;",
        "head -c 100000 /dev/urandom >.git/index",
        "printf '[core\\n\\trepositoryformatversion = 99\\n' >.git/config",
        "printf '[include]\\n\\tpath = config\\n' >>.git/config",
        "rm -r .git; echo 'gitdir: ../../../../../../../../dev/zero' >.git",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        RP_FREE char *script = rp_asprintf(REPOSITORY "%s", scripts[i]);
        CHECK(in_scratch(script) == 0, "the script failed: %s", scripts[i]);
        uint64_t start = rp_now_ns();
        json_t *env = capture("r", NULL, 0);
        CHECK(rp_now_ns() - start < 5000000000u, "%s: %.1f s", scripts[i], (double)(rp_now_ns() - start) * 1e-9);
        const char *commit = state(env, "commit"), *modified = state(env, "modified"), *alternates = state(env, "alternates");
        CHECK(strcmp(commit, "ok") != 0 || strcmp(modified, "ok") != 0 || strcmp(alternates, "ok") != 0, "%s: commit %s, modified %s",
              scripts[i], commit, modified);
        RP_BUF shown = {0};
        rp_json_write(&shown, env);
        CHECK(!strstr(shown.data, scratch), "%s: a path shows: %.200s", scripts[i], strstr(shown.data, scratch));
        json_decref(env);
        leave_scratch();
    }
    /* a repository that is no use is not asked again and again, and what cannot be told does not take with it what can */
    CHECK(in_scratch(REPOSITORY "rm .git/refs/heads/trunk; mkfifo .git/refs/heads/trunk") == 0, "the script failed");
    json_t *none = capture("r", NULL, 0);
    CHECK_STR(state(none, "commit"), "error");
    CHECK_STR(state(none, "submodules"), "error");
    json_decref(none);
    leave_scratch();
    CHECK(in_scratch(REPOSITORY "mkfifo .gitignore") == 0, "the script failed");
    json_t *env = capture("r", NULL, 0);
    CHECK_STR(state(env, "commit"), "ok");
    CHECK_STR(state(env, "describe"), "ok");
    CHECK_STR(state(env, "modified"), "error");
    json_decref(env);
    leave_scratch();
    /* no file, no secret: pipes and sockets among the files are passed over, and a submodule's path stays inside */
    CHECK(in_scratch(REPOSITORY "mkfifo p; rm a; mkfifo a; c=$(git rev-parse HEAD); git update-index --add --cacheinfo 160000,$c,xx/s; "
                                "sed -i 's,xx/s,../s,' .git/index; head -c -20 .git/index >i; { cat i; sha1sum <i | cut -c -40 | xxd -r "
                                "-p; } >.git/index; rm i") == 0,
          "the script failed");
    env = capture("r", NULL, 1);
    CHECK(number(env, "modified") <= 1 || strcmp(state(env, "modified"), "error") == 0, "%lld modified", number(env, "modified"));
    CHECK(!strstr(lines(env, "submodules"), "clean"), "%s", lines(env, "submodules"));
    json_decref(env);
    leave_scratch();
}

TEST(another_owner_is_refused_without_safe_directory)
{
    if (geteuid() != 0)
        SKIP("only root can give a repository away");
    NEEDS_GIT();
    static const char *const cases[][2] = {
        {"", "denied"},
        {"git config safe.directory '*'", "denied"}, /* a repository cannot declare itself safe */
        {"git config --file ../.gitconfig safe.directory '*'", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$PWD\"", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$HOME/*\"", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$HOME/other\"", "denied"},
        {"git config --file ../.gitconfig --add safe.directory '*'; git config --file ../.gitconfig --add safe.directory ''", "denied"},
        {"mkdir -p ../.config/git; git config --file ../.config/git/config safe.directory '*'", "ok"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *script = rp_asprintf(REPOSITORY "%s; chown -R 65534 .", *cases[i][0] ? cases[i][0] : ":");
        CHECK(in_scratch(script) == 0, "the script failed");
        json_t *env = capture("r", NULL, 0);
        CHECK(strcmp(state(env, "commit"), cases[i][1]) == 0 &&
                  strcmp(state(env, "submodules"), i > 1 && *cases[i][1] == 'o' ? "absent" : "denied") == 0,
              "%s: %s", cases[i][0], state(env, "commit"));
        const char *detail = json_string_value(json_object_get(leaf(env, "workdir", "commit"), "detail"));
        CHECK(*cases[i][1] == 'o' || (detail && strstr(detail, "safe.directory")), "no remedy: %s", detail);
        json_decref(env);
        leave_scratch();
    }
}

TEST(takes_less_than_a_tenth_of_a_second_without_sanitizers)
{
    uint64_t best = UINT64_MAX;
    struct rp_capture_opts o = {.root = "/"};
    struct rp_err err;
    CHECK(rp_capture_select(&o, "git", &err) == 0, "%s", err.msg);
    for (int i = 0; i < 5; i++) {
        uint64_t start = rp_now_ns();
        json_decref(rp_capture(&o, &err));
        uint64_t took = rp_now_ns() - start;
        best = took < best ? took : best;
    }
    CHECK(best < 300000000, "%.1f ms with them", (double)best * 1e-6);
}
