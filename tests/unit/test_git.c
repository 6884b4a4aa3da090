/* What is told of friendly git repositories in every state, and of secrets in them; test_git_hostile.c has the
 * others. */
/* exhaustive */
#include "base/hash.h"
#include "tests/unit/git_fixture.h"

static void check_repository(const char *script, const char *below, const char *branch, int modified, int untracked)
{
    git_script(script);
    RP_JSON *env = capture(below, NULL);
    CHECK(strlen(text(env, "commit")) == 40, "%s: commit is %s", script, text(env, "commit"));
    CHECK_STR(text(env, "branch"), branch);
    CHECK(number(env, "modified") == modified && number(env, "untracked") == untracked,
          "%s: %lld modified, %lld untracked", script, number(env, "modified"), number(env, "untracked"));
    CHECK(!strstr(text(env, "describe"), "-dirty") == !modified, "%s: %s", script, text(env, "describe"));
}

TEST(states)
{
    NEEDS_GIT();
    check_repository(REPOSITORY, "r", "trunk", 0, 0);
    check_repository(REPOSITORY "echo 2 >a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo 2 >a; rm b; echo 3 >c; mkdir d; echo 4 >d/e", "r", "trunk", 2, 2);
    check_repository(REPOSITORY "echo 2 >a; git add a", "r", "trunk", 1, 0);
    check_repository(REPOSITORY "echo c >.gitignore; git add .gitignore; git commit -q -m two; echo 1 >c", "r", "trunk",
                     0, 0);
    check_repository(REPOSITORY "git checkout -q --detach; mkdir sub", "r/sub", "(detached)", 0, 0);
    check_repository(REPOSITORY "git worktree add -q -b side ../w; cd ../w; echo 2 >b", "w", "side", 1, 0);
    check_repository(REPOSITORY "touch -d 2001-01-01 a; cp a c; mv c a", "r", "trunk", 0,
                     0); /* another inode and date, the same contents */
    check_repository(REPOSITORY "chmod +x a", "r", "trunk", 1, 0);

    static const char *const nothing[] = {"mkdir r", "git init -q r"}; /* no repository; no commit */
    for (int i = 0; i < 2; i++) {
        git_script(nothing[i]);
        RP_JSON *env = capture("r", NULL);
        CHECK_STR(state(env, "commit"), "absent");
        CHECK_STR(state(env, "describe"), "absent");
        CHECK_STR(state(env, "modified"), i ? "ok" : "absent");
    }
}

/* With names as they are. */
static json_t *capture_identified(void)
{
    RP_FREE char *dir = rp_asprintf("%s/r", home);
    struct rp_err err;
    struct rp_capture_opts o = {.root = "/", .workdir = dir, .identify = 1};
    return rp_capture_select(&o, "git", &err) < 0 ? NULL : rp_capture(&o, &err);
}

/* git itself is the oracle for the names. */
TEST(as_git_says)
{
    NEEDS_GIT();
    git_script(
        REPOSITORY
        "git tag -a v1.2 -m x; git commit -q --allow-empty -m two; seq 1 60 >a; printf '1\\n2\\na\\n\\nb\\n3\\n4\\n' "
        ">slide; git add a slide; git commit -q -m three; printf '1\\n2\\na\\n\\nb\\na\\n\\nb\\n3\\n4\\n' >slide; git "
        "init -q --bare ../up; git remote add origin \"$PWD/../up\"; git push -q -u origin trunk; git commit -q "
        "--allow-empty -m four; sed -i 's/^7$/seven/; s/^50$/fifty/; 60q' a; printf 'no end' >>a; rm b; printf 'x\\0y' "
        ">bin; ln -s a link; printf 'new\\n' >'with space'; mkdir d; echo 1 >d/f; chmod +x d/f; git add .; echo later "
        ">>d/f");
    RP_JSON *env = capture("r", NULL);
    char hex[RP_SHA256_HEX];
    RP_FREE char *describe = rp_asprintf("%s\n", text(env, "describe"));
    CHECK_STR(describe, said("cd r; git describe --tags --always --dirty --abbrev=12"));
    CHECK(strncmp(describe, "v1.2-3-g", 8) == 0, "%s", describe);
    RP_JSON *open = capture_identified();
    const char *changed = lines(open, "changed_files");
    rp_sha256_hex(hex, changed, strlen(changed));
    CHECK_STR(text(env, "changes_sha256"), hex); /* also where the paths are hidden */
    CHECK(!strstr(lines(env, "changed_files"), "with space") && !strstr(lines(env, "changed_files"), "slide"), "%s",
          lines(env, "changed_files"));
    CHECK_STR(lines(open, "changed_files"),
              said("cd r; for f in 'M a' 'D b' 'A bin' 'A d/f' 'A link' 'M slide' 'A with space'; do n=${f#??}; "
                   "case $n in b) s=- ;; link) s=$(printf a | sha256sum | cut -c -64) ;; *) s=$(sha256sum <\"$n\" | "
                   "cut -c -64) ;; esac; echo \"${f%% *} $s $n\"; done"));
    CHECK_STR(text(env, "upstream"), "origin/trunk");
    CHECK(number(env, "ahead") == 1 && number(env, "behind") == 0, "%lld, %lld", number(env, "ahead"),
          number(env, "behind"));
    CHECK(strncmp(text(env, "url"), "sha256:", 7) == 0, "a local path shows: %s", text(env, "url"));
}

/* git sorts and shows by the repository's and the user's settings: the digest is of the changes alone. */
TEST(configuration_does_not_change_the_digest)
{
    NEEDS_GIT();
    static const char own[] =
        "git config diff.context 9; git config diff.noprefix true; git config diff.algorithm patience; git config "
        "diff.mnemonicPrefix true; git config diff.renames copies; git config core.ignorecase true; git config "
        "core.abbrev 40; git config diff.x.xfuncname '^(.*)$'; git config diff.x.textconv false; echo '* diff=x' "
        ">.git/info/attributes; ";
    static const char users[] =
        "; printf '[core]\\n\\texcludesFile = %s/all\\n' \"$HOME\" >../.gitconfig; echo '*' >../all";
    RP_FREE char *digest = NULL;
    for (int i = 0; i < 2; i++) {
        RP_FREE char *script = rp_asprintf(
            REPOSITORY
            "%s seq 1 90 >Z; seq 9 >Q; git add Z Q; git commit -q -m two; sed -i '50d;20d' Z; echo x >>a; mv Q W; "
            "git add -A .; echo >unknown%s",
            i ? own : "", i ? users : "");
        git_script(script);
        RP_JSON *env = capture("r", NULL);
        CHECK(number(env, "modified") == 4, "%lld modified", number(env, "modified"));
        CHECK(number(env, "untracked") == 1, "%lld untracked", number(env, "untracked"));
        if (i)
            CHECK_STR(text(env, "changes_sha256"), digest);
        else
            digest = rp_strdup(text(env, "changes_sha256"));
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
        {REPOSITORY "git clone -q --bare . ../bare; mkdir ../bare/x", "bare/x", "layout", "bare"},
        {REPOSITORY "git config core.bare true", "r", "layout", "bare"},
        {REPOSITORY "git worktree add -q ../w", "w", "layout", "worktree"},
        {REPOSITORY "git clone -q --bare . ../bare; cd ../bare; git worktree add -q ../w", "w", "layout", "worktree"},
        {REPOSITORY "git worktree add -q ../w; ln -s w ../v", "v", "layout", "worktree"},
        {REPOSITORY "git init -q --separate-git-dir ../s; git config core.worktree \"$PWD\"", "r", "layout",
         "working tree"},
        {REPOSITORY "git commit -q --allow-empty -m two; git clone -q --depth 1 \"file://$PWD\" ../s", "s", "shallow",
         "yes"},
        {REPOSITORY "git checkout -q -b x; echo 2 >a; git commit -q -a -m x; git checkout -q trunk; echo 3 >a; git "
                    "commit -q -a -m y; git merge x || :",
         "r", "operation", "merge"},
        {REPOSITORY "git checkout -q -b x; echo 2 >a; git commit -q -a -m x; git checkout -q trunk; echo 3 >a; git "
                    "commit -q -a -m y; git rebase x || :",
         "r", "operation", "rebase"},
        {"git init -q --object-format=sha256 r", "r", "commit", "error"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        git_script(cases[i].script);
        RP_JSON *env = capture(cases[i].below, NULL);
        CHECK(strcmp(text(env, cases[i].name), cases[i].value) == 0, "%s: %s is %s", cases[i].script, cases[i].name,
              text(env, cases[i].name));
    }
    git_script(REPOSITORY "git clone -q --shared . ../c");
    json_t *env = capture("c", NULL);
    const char *detail = json_string_value(json_object_get(leaf(env, "workdir", "modified"), "detail"));
    CHECK(number(env, "alternates") == 1 && strlen(text(env, "commit")) == 40, "%lld alternates",
          number(env, "alternates"));
    CHECK(strcmp(state(env, "modified"), "error") == 0 && detail && strstr(detail, "git repack -a -d"), "no remedy: %s",
          detail);
    json_decref(env);
    git_script(REPOSITORY "git clone -q --shared . ../c; cd ../c; git repack -q -a -d; echo 2 >a");
    env = capture("c", NULL);
    CHECK(number(env, "alternates") == 1 && number(env, "modified") == 1, "%lld modified, %s", number(env, "modified"),
          state(env, "modified"));
    json_decref(env);
}

TEST(several_repositories_and_submodules)
{
    NEEDS_GIT();
    git_script(REPOSITORY
               "cd ..; git init -q o; cd o; echo 1 >x; git add x; git commit -q -m o; git config protocol.file.allow "
               "always; cd ../r; for s in same moved touched gone; do git -c protocol.file.allow=always submodule add "
               "-q \"$PWD/../o\" sub/$s; done; git commit -q -m subs; (cd sub/moved; git commit -q --allow-empty -m "
               "further); echo 2 >sub/touched/x; git submodule deinit -q -f sub/gone; mkdir -p ../deep/o; cd "
               "../deep/o; git init -q -b other");
    RP_FREE char *o = rp_asprintf("%s/o", home), *deep = rp_asprintf("%s/deep/o/", home),
                 *none = rp_asprintf("%s/none", home);
    const char *repos[] = {o, deep, none, NULL};
    RP_JSON *env = capture("r", repos);
    CHECK_STR(lines(env, "submodules"),
              said("cd r; for s in gone:absent moved:clean same:clean touched:modified; do n=sub/${s%:*}; c=-; [ "
                   "$n = sub/gone ] || c=$(git -C $n rev-parse HEAD); echo $(git rev-parse HEAD:$n) $c ${s#*:} $n; "
                   "done"));
    CHECK(number(env, "modified") == 0, "%lld modified", number(env, "modified"));
    CHECK(number(env, "submodules_changed") == 2, "%lld submodules changed", number(env, "submodules_changed"));
    CHECK(strstr(text(env, "describe"), "-dirty") != NULL, "%s", text(env, "describe"));
    RP_FREE char *head = rp_strdup(said("git -C o rev-parse HEAD | tr -d '\\n'"));
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o", "commit"), "value")), head);
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o.2", "commit"), "state")), "absent");
    CHECK_STR(json_string_value(json_object_get(leaf(env, "o.2", "modified"), "state")), "ok");
    SAID(json_string_value(json_object_get(leaf(env, "none", "commit"), "detail")));
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
        {"https://host/0123456789abcdef0123456789abcdef/a.git", NULL},
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
        CHECK(shown == cases[i][1] || (shown && cases[i][1] && strcmp(shown, cases[i][1]) == 0), "'%s' shows as '%s'",
              cases[i][0], shown ? shown : "(hidden)");
    }
}

TEST(secrets_never_show)
{
    NEEDS_GIT();
    RP_BUF shown = {0};
    git_script(
        REPOSITORY
        "mkdir k; echo marker >.env; echo marker >k/id_rsa; echo old >conf; echo fine >c; git add -f .; git commit -q "
        "-m two; echo marker2 >.env; echo marker2 >k/id_rsa; echo 'db_password: marker-in-a-file' >conf; echo public "
        ">c; git remote add origin https://user:marker@host/x; git remote add b /tmp/marker/x; git remote set-url "
        "--add origin https://host/second");
    RP_JSON *env = capture("r", NULL);
    rp_json_write(&shown, env);
    CHECK(!strstr(shown.data, "marker"), "%.80s", strstr(shown.data, "marker"));
    RP_JSON *clear = capture_identified();
    CHECK(strstr(lines(clear, "changed_files"),
                 "M cde1925e8f892f5ddaadebfecbdd060398f5d76d3d19224f60d08343d3bbde20 c\n") != NULL,
          "%s", lines(clear, "changed_files"));
    CHECK(number(env, "withheld") == 3 && number(env, "modified") == 4, "%lld withheld", number(env, "withheld"));
    CHECK(strstr(lines(clear, "changed_files"), "M withheld .env\n") &&
              strstr(lines(clear, "changed_files"), "M withheld k/id_rsa\n"),
          "%s", lines(clear, "changed_files"));
    CHECK(strncmp(text(env, "url"), "sha256:", 7) == 0 && !strstr(shown.data, "//host"), "a host shows: %s",
          text(env, "url"));
    CHECK_STR(text(clear, "url"), "https://host/x"); /* and still no login */
}

/* Tokens and persons in what somebody called a branch, a tag, a remote, a file, a submodule or a directory. */
TEST(names_that_say_too_much_never_show)
{
    NEEDS_GIT();
    static const char t[] = "T=ghp_AbCdEf0123456789AbCdEf0123456789; M=marker@host.example; ";
    RP_FREE char *script = rp_asprintf(
        "%s" REPOSITORY "mkdir x-$T; echo 1 >x-$T/a; echo 1 >$M; git add .; git commit -q -m two; git tag v-$T; "
        "git checkout -q -b b-$T; git init -q --bare ../up; git remote add r-$T ../up; git push -q -u r-$T HEAD; git "
        "init -q s-$T; git -C s-$T commit -q --allow-empty -m s; git add s-$T 2>/dev/null; git commit -q -m s; echo 2 "
        ">x-$T/a; echo 2 >$M; echo 2 >u-$T; git init -q ../$T; git init -q ../$M",
        t);
    git_script(script);
    RP_BUF shown = {0};
    RP_FREE char *token = rp_asprintf("%s/ghp_AbCdEf0123456789AbCdEf0123456789", home),
                 *mail = rp_asprintf("%s/marker@host.example", home);
    const char *repos[] = {token, mail, NULL};
    RP_JSON *env = capture("r", repos);
    rp_json_write(&shown, env);
    CHECK(!strstr(shown.data, "ghp_") && !strstr(shown.data, "marker"), "%.99s, %.99s", strstr(shown.data, "ghp_"),
          strstr(shown.data, "marker"));
    CHECK_STR(text(env, "branch"), "(withheld)");
    CHECK_STR(text(env, "upstream"), "(withheld)");
    CHECK_STR(text(env, "describe"), "(withheld)-dirty");
    CHECK(number(env, "modified") == 2 && strstr(lines(env, "changed_files"), " (withheld)\n") &&
              strstr(lines(env, "changed_files"), " sha256:"),
          "%s", lines(env, "changed_files"));
    CHECK(strstr(lines(env, "submodules"), " clean (withheld)\n") != NULL, "%s", lines(env, "submodules"));
    CHECK(strncmp(lines(env, "remotes"), "(withheld) ", 11) == 0, "%s", lines(env, "remotes"));
    CHECK(leaf(env, "withheld", "commit") && leaf(env, "hidden", "commit"), "no group of the others");
}

TEST(untracked_files_have_digests)
{
    NEEDS_GIT();
    git_script(REPOSITORY "git tag t; echo 1 >new; echo marker >.env; echo 'db_password: marker-in-a-file' >conf; "
                                "truncate -s 2M large; mkdir d; echo 1 >d/e");
    RP_JSON *env = capture("r", NULL);
    /* .env, conf, d/, large, new: git never published their names */
    static const char *const begins[] = {"withheld sha256:", "withheld sha256:", "- sha256:", "- sha256:",
                                         "4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865 sha256:"};
    const json_t *list = json_object_get(leaf(env, "workdir", "untracked_files"), "value");
    CHECK(json_array_size(list) == 5, "%zu lines", json_array_size(list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *line = json_string_value(json_array_get(list, i)), *at = strstr(line, "sha256:");
        CHECK(strncmp(line, begins[i], strlen(begins[i])) == 0 && at && strlen(at) == 71, "%s", line);
    }
    RP_JSON *open = capture_identified();
    CHECK_STR(lines(open, "untracked_files"),
              "withheld .env\nwithheld conf\n- d/\n- "
              "large\n4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865 new\n");
    CHECK(number(env, "untracked_left_out") == 0, "%lld left out", number(env, "untracked_left_out"));
    CHECK_STR(text(env, "describe"), "t");
}

TEST(bounds)
{
    NEEDS_GIT();
    git_script(REPOSITORY
               "for i in $(seq 1000 1349); do echo $i >f$i; done; seq 1 90000 >large; git add .; git commit -q -m two; "
               "for i in $(seq 1000 1249); do echo x$i >f$i; done; for i in $(seq 1 150); do echo >u$i; done; "
               "seq 1 100000 >large; seq 1 250000 >b; ln -s /etc/hostname up; printf 'a\\tb\\033[31m\\377\\n' >>a");
    json_t *env = capture("r", NULL);
    CHECK(number(env, "modified") == 253 && number(env, "untracked") == 151, "%lld modified, %lld untracked",
          number(env, "modified"), number(env, "untracked"));
    CHECK(json_array_size(json_object_get(leaf(env, "workdir", "changed_files"), "value")) == 200, "changed files");
    CHECK(json_array_size(json_object_get(leaf(env, "workdir", "untracked_files"), "value")) == 100, "untracked files");
    CHECK(number(env, "changed_left_out") == 53 && number(env, "untracked_left_out") == 51, "left out: %lld, %lld",
          number(env, "changed_left_out"), number(env, "untracked_left_out"));
    RP_FREE char *digest = rp_strdup(text(env, "changes_sha256"));
    json_decref(env);
    CHECK(system("cd \"$HOME/r\" && echo y >f1249") == 0, "no change"); /* beyond the list */
    env = capture("r", NULL);
    CHECK(strlen(digest) == 64 && strcmp(text(env, "changes_sha256"), digest) != 0, "%s", digest);
    json_decref(env);

    git_script(REPOSITORY "c=$(git rev-parse HEAD); for i in $(seq 201); do echo \"160000 $c 0\tm$i\"; done | git "
                          "update-index --index-info");
    env = capture("r", NULL);
    CHECK_STR(state(env, "submodules"), "error");
    json_decref(env);
}

/* Files of Git LFS that are what their pointers say are not changed. */
TEST(large_file_storage)
{
    NEEDS_GIT();
    git_script(REPOSITORY "echo weights >w; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize "
                          "8\\n' $(sha256sum <w | cut -c -64) >p; cp p v; cp p w.txt; mv w.txt w2; git add p v; git mv "
                          "-f p w 2>/dev/null || git mv p w; git add w v; git commit -q -m lfs; echo weights >w; echo "
                          "other >v");
    RP_JSON *env = capture_identified();
    CHECK(number(env, "modified") == 1 && strstr(lines(env, "changed_files"), " v\n"), "%lld: %s",
          number(env, "modified"), lines(env, "changed_files"));
}
