/* Repositories of strangers: nothing of them runs, leads elsewhere, blocks or breaks what is told, and an owner has to
 * be trusted. */
/* exhaustive */
#include "tests/unit/git_fixture.h"

/* Everything in a repository that makes git run a program; the program leaves a file. */
TEST(nothing_is_run)
{
    NEEDS_GIT();
    git_script(
        REPOSITORY
        "printf '#!/bin/sh\\ntouch %s/ran\\ncat\\n' \"$HOME\" >../evil; chmod +x ../evil; for h in pre-commit "
        "post-checkout post-index-change fsmonitor-watchman reference-transaction; do cp ../evil .git/hooks/$h; done; "
        "for k in core.fsmonitor core.sshCommand core.pager core.editor core.askPass diff.external diff.f.command "
        "diff.f.textconv filter.f.clean filter.f.smudge filter.f.process credential.helper gpg.program; do git config "
        "$k \"$HOME/evil\"; done; git config core.hooksPath \"$HOME\"; cp ../evil ../post-index-change; git config "
        "filter.f.required true; printf '* filter=f diff=f\\n' >.gitattributes; printf '[alias]\\n\\tstatus = "
        "!%s/evil\\n' \"$HOME\" >../.gitconfig; printf '[include]\\n\\tpath = %s/.gitconfig\\n' \"$HOME\" "
        ">>.git/config; git config remote.x.url \"ext::$HOME/evil\"; git config branch.trunk.remote x; git config "
        "branch.trunk.merge refs/heads/x; rm -f ../ran; echo changed >a; cp .git/index ../index");
    RP_FREE char *ran = rp_asprintf("%s/ran", home),
                 *compare = rp_asprintf("cmp -s %s/index %s/r/.git/index", home, home);
    RP_JSON *env = capture("r", NULL);
    CHECK(access(ran, F_OK) < 0, "a program of the repository ran");
    CHECK(system(compare) == 0, "the index was written");
    CHECK_STR(text(env, "branch"), "trunk");
    CHECK(number(env, "modified") == 1, "%lld", number(env, "modified"));
}

/* Repositories that lead somewhere else: nothing of that place shows. */
TEST(nothing_leads_elsewhere)
{
    NEEDS_GIT();
    static const char other[] = "git init -q -b marker other; cd other; echo marker >marker; git add .; git commit -q "
                                "-m marker; echo marker2 >marker; git remote add origin https://host/marker; cd ..; ";
    static const struct {
        /* the commit's state, a line about the submodule that is one of them, or NULL */
        const char *script, *commit, *submodule;
    } cases[] = {
        {"git config core.worktree \"$HOME/other\"", "denied", NULL},
        {"git config core.worktree ../../other", "denied", NULL},
        {"mkdir ../other/sub; git config core.worktree \"$HOME/other/sub\"", "denied", NULL},
        {"cd ..; git init -q -b marker; cp other/marker .; git add marker; cd r; git config core.worktree ../..",
         "denied", NULL},
        {"rm -r .git; ln -s ../other/.git .git", "denied", NULL},
        {"rm -r .git; echo 'gitdir: ../other/.git' >.git", "denied", NULL},
        {"(cd ../other; git worktree add -q -b marker3 ../w); rm -r .git; cp ../w/.git .git", "denied", NULL},
        {"printf '[include]\\n\\tpath = ../../other/.git/config\\n' >>.git/config", "ok", NULL},
        {"mkdir d; echo 1 >d/marker; git add d; git commit -q -m d; rm -r d; ln -s ../other d", "ok", NULL},
        {"rm a; ln -s ../other/marker a", "ok", NULL},
        {"git update-index --add --cacheinfo 160000,$(git -C ../other rev-parse HEAD),s; git commit -q -m s; ln -s "
         "../other s",
         "ok", " - refused s\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF shown = {0};
        RP_FREE char *script = rp_asprintf("%s" REPOSITORY "%s", other, cases[i].script);
        git_script(script);
        RP_JSON *env = capture("r", NULL);
        rp_json_write(&shown, env);
        RP_FREE char *head = rp_strdup(said("git -C other rev-parse HEAD | tr -d '\\n'"));
        CHECK(!strstr(shown.data, "marker2") && !strstr(shown.data, "marker3") && !strstr(shown.data, "\"marker\"") &&
                  !strstr(shown.data, "host/marker"),
              "%s: %s", cases[i].script, strstr(shown.data, "marker"));
        CHECK(cases[i].submodule || !strstr(shown.data, head), "%s: the other commit shows", cases[i].script);
        CHECK(!cases[i].submodule || strstr(lines(env, "submodules"), cases[i].submodule), "%s",
              lines(env, "submodules"));
        CHECK(strcmp(state(env, "commit"), cases[i].commit) == 0, "%s: commit is %s", cases[i].script,
              state(env, "commit"));
    }
}

/* A private repository beside it whose place and commit are known to whoever made this one: neither its files nor its
 * names show, and whole worktrees, submodules and bare repositories do (test_git.c). */
TEST(nothing_of_another_repository_shows)
{
    NEEDS_GIT();
    static const char private[] =
        "git init -q -b marker p; cd p; git config user.name marker; echo marker >marker; git add .; git commit -q -m "
        "marker; git repack -q -a -d; git worktree add -q -b marker2 ../w; git remote add origin https://host/marker; "
        "P=$PWD/.git; C=$(git rev-parse HEAD); cd ..; ";
    static const struct {
        const char *script, *below, *name, *detail; /* the value that has this in its detail, if any */
    } cases[] = {
        {"echo $P >.git/commondir", "r", "commit", "not know"},
        {"rm -r .git/objects .git/refs .git/config; mkdir .git/objects .git/refs; echo $P >.git/commondir", "r",
         "commit", "not know"},
        {"rm -r .git; mkdir m; echo 'gitdir: m' >.git; echo $P >m/commondir; echo $C >m/HEAD; echo $PWD/.git >m/gitdir",
         "r", "commit", "not know"},
        {"rm -r .git; mkdir -p m/worktrees/n; echo gitdir: $PWD/m/worktrees/n >.git; cd m/worktrees/n; echo $P "
         ">commondir; echo $C >HEAD; echo $PWD/../../../.git >gitdir",
         "r", "commit", "not know"},
        {"rm -r .git; mkdir m; ln -s $P/worktrees m/worktrees; echo gitdir: $PWD/m/worktrees/w >.git", "r", "commit",
         "not know"},
        {"rm -r .git; git clone -q --bare $P ../bare; ln -s ../bare .git", "r", "commit", "not know"},
        {"rm -r .git; git clone -q --bare $P ../bare; echo gitdir: $PWD/../bare >.git", "r", "commit", "not know"},
        {"rm -r .git/objects; ln -s $P/objects .git/objects; echo $C >.git/HEAD", "r", "commit", "are links"},
        {"rm -r .git/objects/pack; ln -s $P/objects/pack .git/objects/pack; echo $C >.git/HEAD", "r", "commit",
         "are links"},
        {"for f in $P/objects/pack/*; do ln -s $f .git/objects/pack/; done; echo $C >.git/HEAD", "r", "commit",
         "are links"},
        {"rm -r .git/refs; ln -s $P/refs .git/refs", "r", "commit", "are links"},
        {"rm .git/refs/heads/trunk; ln -s $P/refs/heads/marker .git/refs/heads/trunk", "r", "commit", "are links"},
        {"rm .git/HEAD; ln -s $P/HEAD .git/HEAD", "r", "commit", "are links"},
        {"rm .git/config; ln -s $P/config .git/config", "r", "commit", "are links"},
        {"rm .git/index; ln -s $P/index .git/index", "r", "commit", "are links"},
        {"ln -s $P/packed-refs .git/packed-refs", "r", "commit", "are links"},
        {"git config extensions.worktreeConfig true; ln -s $P/config .git/config.worktree", "r", "commit", "are links"},
        {"git worktree add -q ../v; rm -r .git/objects; ln -s $P/objects .git/objects; echo $C >.git/worktrees/v/HEAD",
         "v", "commit", "are links"},
        {"echo $P/objects >.git/objects/info/alternates; echo $C >.git/HEAD", "r", "modified", "another repository"},
        {"mkdir o; ln -s $P/objects o/x; echo ../../o/x >.git/objects/info/alternates; echo $C >.git/HEAD", "r",
         "modified", "another repository"},
        {"git init -q s; cd s; git commit -q --allow-empty -m s; cd ..; git add s 2>/dev/null; git commit -q -m s; "
         "echo $P >s/.git/commondir; echo $C >s/.git/HEAD",
         "r", "submodules", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF shown = {0};
        RP_FREE char *script = rp_asprintf("%s" REPOSITORY "%s", private, cases[i].script);
        git_script(script);
        RP_JSON *env = capture(cases[i].below, NULL);
        const char *detail = json_string_value(json_object_get(leaf(env, "workdir", cases[i].name), "detail"));
        rp_json_write(&shown, env);
        CHECK(!strstr(shown.data, "marker"), "%s: %.200s", cases[i].script, strstr(shown.data, "marker"));
        CHECK(!cases[i].detail || (detail && strstr(detail, cases[i].detail)), "%s: %s is %s", cases[i].script,
              cases[i].name, detail);
        CHECK(cases[i].detail || strstr(lines(env, "submodules"), " - denied s\n"), "%s", lines(env, "submodules"));
    }
}

/* What libgit2 passes over already, in case it changes in between. */
TEST(files_are_read_where_they_are)
{
    NEEDS_GIT();
    static const struct {
        const char *path;
        int found;
    } cases[] = {{"a", 1},      {"d/e", 1},    {"link", 1}, {"pipe", 0}, {"outside/log", 0},
                 {"../log", 0}, {"d/../a", 0}, {"d", 0},    {"none", 0}};
    git_script(REPOSITORY "mkdir d; echo e >d/e; mkfifo pipe; ln -s .. outside; ln -s /etc/hostname link");
    RP_FREE char *dir = rp_asprintf("%s/r", home);
    git_repository *repo = NULL;
    const char *detail;
    CHECK(rp_git_begin() == 0 && rp_git_open(&repo, dir, 1, &detail) == RP_STATE_OK, "%s", detail);
    for (size_t i = 0; i < sizeof cases / sizeof *cases && repo; i++) {
        struct rp_git_file s;
        int rc = rp_git_read_new(&s, repo, cases[i].path, UINT64_MAX);
        CHECK((rc == 0) == cases[i].found && (*s.sha256 != 0) == cases[i].found, "%s: %d", cases[i].path, rc);
        CHECK(strcmp(cases[i].path, "link") != 0 || strcmp(rp_buf_text(&s.bytes), "/etc/hostname") == 0, "%s",
              rp_buf_text(&s.bytes));
        rp_buf_fini(&s.bytes);
    }
    struct rp_git_job late = {.repo = repo, .deadline = 1};
    git_diff *diff = NULL;
    CHECK(rp_git_compare(&diff, &late, repo, 0, &detail) == -1 && strstr(detail, "too long"), "%s", detail);
    git_repository_free(repo);
    git_libgit2_shutdown();
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
        git_script(script);
        RP_JSON *env = capture("r", NULL);
        const char *commit = state(env, "commit"), *modified = state(env, "modified"),
                   *alternates = state(env, "alternates");
        CHECK(strcmp(commit, "ok") != 0 || strcmp(modified, "ok") != 0 || strcmp(alternates, "ok") != 0,
              "%s: commit %s, modified %s", scripts[i], commit, modified);
        RP_BUF shown = {0};
        rp_json_write(&shown, env);
        CHECK(!strstr(shown.data, home), "%s: a path shows: %.200s", scripts[i], strstr(shown.data, home));
    }
    /* a repository that is no use is not asked again and again, and what cannot be told does not take with it what
     * can */
    git_script(REPOSITORY "rm .git/refs/heads/trunk; mkfifo .git/refs/heads/trunk");
    RP_JSON *none = capture("r", NULL);
    CHECK_STR(state(none, "commit"), "error");
    CHECK_STR(state(none, "submodules"), "error");
    git_script(REPOSITORY "mkfifo .gitignore");
    json_t *env = capture("r", NULL);
    CHECK_STR(state(env, "commit"), "ok");
    CHECK_STR(state(env, "describe"), "ok");
    CHECK_STR(state(env, "modified"), "error");
    json_decref(env);
    /* no file, no secret: pipes and sockets among the files are passed over, and a submodule's path stays inside */
    git_script(REPOSITORY
               "mkfifo p; rm a; mkfifo a; c=$(git rev-parse HEAD); git update-index --add --cacheinfo 160000,$c,xx/s; "
               "sed -i 's,xx/s,../s,' .git/index; head -c -20 .git/index >i; { cat i; sha1sum <i | cut -c -40 | xxd -r "
               "-p; } >.git/index; rm i");
    env = capture("r", NULL);
    CHECK(number(env, "modified") <= 1 || strcmp(state(env, "modified"), "error") == 0, "%lld modified",
          number(env, "modified"));
    CHECK(!strstr(lines(env, "submodules"), "clean"), "%s", lines(env, "submodules"));
    json_decref(env);
}

TEST(another_owner_is_refused_without_safe_directory)
{
    if (geteuid() != 0)
        SKIP("only root can give a repository away");
    NEEDS_GIT();
    static const char *const cases[][2] = {
        /* without a value, as after the other '' */
        {"", "denied"},
        {"git config safe.directory '*'", "denied"}, /* a repository cannot declare itself safe */
        {"git config --file ../.gitconfig safe.directory '*'", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$PWD\"", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$HOME/*\"", "ok"},
        {"git config --file ../.gitconfig safe.directory \"$HOME/other\"", "denied"},
        {"git config --file ../.gitconfig --add safe.directory '*'; git config --file ../.gitconfig --add "
         "safe.directory ''",
         "denied"},
        {"mkdir -p ../.config/git; git config --file ../.config/git/config safe.directory '*'", "ok"},
        {"git config --file ../.gitconfig safe.directory '~/r'", "ok"},
        {"git config --file ../.gitconfig safe.directory '~/o/*'", "denied"},
        {"git config --file ../.gitconfig safe.directory '/*'", "ok"},
        {"printf '[safe]\\n\\tdirectory = *\\n\\tdirectory\\n' >../.gitconfig", "denied"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *script = rp_asprintf(REPOSITORY "%s; chown -R 65534 .", *cases[i][0] ? cases[i][0] : ":");
        git_script(script);
        RP_JSON *env = capture("r", NULL);
        CHECK(strcmp(state(env, "commit"), cases[i][1]) == 0 &&
                  strcmp(state(env, "submodules"), i > 1 && *cases[i][1] == 'o' ? "absent" : "denied") == 0,
              "%s: %s", cases[i][0], state(env, "commit"));
        const char *detail = json_string_value(json_object_get(leaf(env, "workdir", "commit"), "detail"));
        CHECK(*cases[i][1] == 'o' || (detail && strstr(detail, "safe.directory")), "no remedy: %s", detail);
    }
}
