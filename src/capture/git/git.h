/* Git repositories through libgit2, in a child process: what git.c, git_open.c, git_head.c, git_changes.c and
 * git_files.c share.
 *
 * What:    repositories are opened here and nowhere else, so that nothing of a repository is executed or leads
 *          elsewhere.
 * Flow:    directory -> git_repository -> values in the child's object -> the parent's document (git.c).
 * Owner:   the caller frees the git_repository; values belong to the object. The process ends soon: small things may
 *          leak.
 * Extend:  a value is a name in the table of git.c and a rp_put_...() in the function of its part.
 */
#pragma once

#include "base/hash.h"
#include "capture/probe.h"

#include <git2.h>

extern const char rp_git_source[];

/* Ready libgit2 for a repository that may be hostile; once per process. */
int rp_git_begin(void);
/* The repository of dir, or with `search` of a directory above it on the same file system. Denied: another user's
 * without safe.directory, or one whose .git leads to a repository that does not know this directory, or holds links.
 * Objects are its own alone. *detail for anything but ok and absent. */
enum rp_state rp_git_open(git_repository **repo, const char *dir, int search, const char **detail);
/* how many places objects/info/alternates names, which are not read; -1: not known */
int rp_git_alternates(git_repository *repo);
/* libgit2's last message without the names in it. */
const char *rp_git_failure(void);
/* The values of this part that `out` lacks are errors, for this reason; NULL: libgit2's last message. The first call
 * counts. */
void rp_git_fail(json_t *out, const char *why);

/* What is fit for a list: one clean line, cut to 1000 bytes. */
void rp_git_add_line(json_t *list, const char *line);
/* The URL of a remote without user, password and query; NULL: not of a form whose parts are known, or it names a
 * person, or a local path.
 */
char *rp_git_public_url(const char *url);

/* The parts; each fills the names that git.c lists for it. */
struct rp_git_job {
    const struct rp_probe *p;
    const char *dir;
    git_repository *repo;
    uint64_t deadline; /* rp_now_ns() after which the answer would come too late */
};
void rp_git_head(const struct rp_git_job *j, json_t *out);
void rp_git_history(const struct rp_git_job *j, json_t *out);
void rp_git_changes(const struct rp_git_job *j, json_t *out);
void rp_git_submodules(const struct rp_git_job *j, json_t *out);

/* The tree of HEAD; *tree NULL and 0 when there is no commit; -1 when it cannot be read. */
int rp_git_head_tree(git_tree **tree, git_repository *repo);
/* Everything that differs from HEAD, submodules not looked into; -1 with *why. */
int rp_git_compare(git_diff **diff, const struct rp_git_job *j, git_repository *repo, uint32_t flags, const char **why);

/* A file of the working directory: its bytes where it has at most 1 MiB, and the digest of all of it, "" where it
 * cannot be read. */
struct rp_git_file {
    struct rp_buf bytes;
    char sha256[RP_SHA256_HEX];
};
/* 0; -1 when it cannot be read, or not in time. Symbolic links are not followed, on no part of the path. */
int rp_git_read_new(struct rp_git_file *file, git_repository *repo, const char *path, uint64_t deadline);
/* Adds the bytes of the commit's side, where it has at most 1 MiB. 0 or -1. */
int rp_git_read_old(struct rp_buf *bytes, git_repository *repo, const git_diff_file *f);
