/* Opening untrusted repositories. libgit2 has no hooks, monitors, external filters or diff programs; the remaining risk
 * is where a repository leads: .git, commondir and every file below may name or be a link to another repository of this
 * user, core.worktree any directory, objects/info/alternates anybody's objects, and its owner may be somebody else;
 * include.path, submodules and diff drivers lead elsewhere too. So only this file opens repositories. */
#include "base/text.h"
#include "capture/git/git.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <git2/odb_backend.h>
#include <git2/sys/repository.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALTERNATES_BYTES = 65536, DEEPEST = 8 };

const char rp_git_source[] = "libgit2";

int rp_git_begin(void)
{
    static const int levels[] = {GIT_CONFIG_LEVEL_PROGRAMDATA, GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG,
                                 GIT_CONFIG_LEVEL_GLOBAL};
    /* change nothing in what is read here */
    static const char *extensions[] = {"partialclone", "worktreeconfig", "preciousobjects"};
    if (git_libgit2_init() < 0)
        return -1;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "");
    /* it finds safe.directory only where the levels above are, and no '*' */
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
    git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, extensions, sizeof extensions / sizeof *extensions);
    git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)256 << 20);
    return 0;
}

static int borrows; /* the repository opened last names objects of others */

const char *rp_git_failure(void)
{
    static char text[256];
    const git_error *e = git_error_last();
    if (borrows && e && e->klass == GIT_ERROR_ODB)
        return "its objects are in another repository, which is not read: git repack -a -d makes it whole";
    size_t n = 0;
    for (const char *s = e && e->message ? e->message : "libgit2 does not say why"; *s && n < sizeof text - 8;) {
        size_t word = strcspn(s, " "),
               quoted = *s == '\'' && strchr(s + 1, '\'') ? (size_t)(strchr(s + 1, '\'') - s) + 1 : 0;
        if (quoted || memchr(s, '/', word)) {
            memcpy(text + n, "...", 3);
            n += 3;
            s += quoted ? quoted : word;
        } else if (*s != '\'')
            text[n++] = *s++;
        else
            s++;
    }
    text[n] = 0;
    rp_sanitize(text);
    return text;
}

void rp_git_fail(json_t *out, const char *why)
{
    if (!json_object_get(out, "failed"))
        json_object_set_new(out, "failed", json_string(why ? why : rp_git_failure()));
}

void rp_git_add_line(json_t *list, const char *line)
{
    RP_FREE char *text = rp_asprintf("%.1000s", line);
    rp_sanitize(text);
    json_array_append_new(list, json_string(text));
}

/* ---- whose it is ---- */

static int is_ours(const char *path)
{
    struct stat st;
    const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    return !path || stat(path, &st) < 0 || st.st_uid == geteuid() ||
           (sudo && *sudo && strtoul(sudo, NULL, 10) == st.st_uid);
}

struct safe {
    const char *dir; /* without a slash at its end */
    int yes;
};

/* One safe.directory, by git's rules: "" or no value forgets those before, "*" is any, "~/" begins at home, "DIR" with
 * a slash and a star at its end is all below DIR. */
static int note_safe(const git_config_entry *e, void *ctx)
{
    struct safe *s = ctx;
    const char *home = getenv("HOME"), *written = e->value ? e->value : "";
    int at_home = strncmp(written, "~/", 2) == 0 && home;
    RP_FREE char *value = rp_asprintf("%s%s", at_home ? home : "", written + at_home);
    size_t n = strlen(value);
    while (n > 1 && value[n - 1] == '/')
        n--;
    if (n == 0)
        s->yes = 0;
    else if (strcmp(value, "*") == 0 || (strlen(s->dir) == n && memcmp(s->dir, value, n) == 0) ||
             (n > 1 && memcmp(value + n - 2, "/*", 2) == 0 && strncmp(s->dir, value, n - 1) == 0))
        s->yes = 1;
    return 0;
}

/* safe.directory counts in the configuration of the system and of this user, never in the repository's own. */
static int is_declared_safe(const char *dir)
{
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");
    RP_FREE char *name = rp_strdup(dir), *own = rp_asprintf("%s/.gitconfig", home ? home : "");
    RP_FREE char *shared =
        xdg && *xdg ? rp_asprintf("%s/git/config", xdg) : rp_asprintf("%s/.config/git/config", home ? home : "");
    const char *const files[] = {"/etc/gitconfig", shared, own};
    struct safe s = {.dir = name};
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        git_config *c = NULL;
        if (is_ours(files[i]) || i == 0)
            if (git_config_open_ondisk(&c, files[i]) == 0)
                git_config_get_multivar_foreach(c, "safe.directory", NULL, note_safe, &s);
        git_config_free(c);
    }
    return s.yes;
}

/* ---- where it leads ---- */

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Is the real path `dir` at or below the real path `top` of n bytes? */
static int is_below(const char *dir, const char *top, size_t n)
{
    return strncmp(dir, top, n) == 0 && (dir[n] == '/' || dir[n] == 0);
}

/* One line of a file, for the caller to free, or NULL. */
static char *first_line(const char *path)
{
    RP_FD fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    char line[4096];
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (n <= 0)
        return NULL;
    line[n] = 0;
    line[strcspn(line, "\r\n")] = 0;
    return rp_strdup(line);
}

/* A repository whose objects and branches are elsewhere must be a worktree that is known there:
 * COMMON/worktrees/NAME/gitdir says which file led here. An attacker who writes a commondir cannot write that. */
static int is_known_worktree(const char *git, const char *common, const char *link)
{
    const char *name = strrchr(git, '/');
    RP_FREE char *worktrees = rp_asprintf("%s/worktrees", common), *note = rp_asprintf("%s/gitdir", git),
                 *back = first_line(note);
    return (size_t)(name - git) == strlen(worktrees) && is_below(git, worktrees, strlen(worktrees)) && back &&
           same_file(back, link);
}

/* A working tree and its .git must know each other, and dir must be in it: else a repository that was unpacked from
 * somewhere could have any file of this user read (core.worktree), or any repository of this user (a link instead of
 * .git, a commondir). */
static int is_outside_repository(git_repository *repo, const char *dir)
{
    const char *work = git_repository_workdir(repo);
    git_buf back = {0};
    git_config *config = NULL;
    const char *value;
    struct stat st;
    RP_FREE char *real = realpath(dir, NULL), *link = rp_asprintf("%s.git", work ? work : "");
    RP_FREE char *git = realpath(git_repository_path(repo), NULL),
                 *common = realpath(git_repository_commondir(repo), NULL);
    if (!real || !git || !common)
        return 1;
    int own = strcmp(git, common) == 0;
    if (!work) { /* bare: dir is in it, or it is the .git of a directory above, and no link */
        const char *base = strrchr(git, '/');
        return !own || !(is_below(real, git, strlen(git)) ||
                         (strcmp(base, "/.git") == 0 && is_below(real, git, (size_t)(base - git))));
    }
    if (lstat(link, &st) < 0 || !(own || is_known_worktree(git, common, link)))
        return 1;
    int known = S_ISDIR(st.st_mode) || !own ||
                (git_repository_config_snapshot(&config, repo) == 0 &&
                 git_config_get_string(&value, config, "core.worktree") == 0);
    int both = is_below(real, work, strlen(work) - 1) && known && git_repository_discover(&back, work, 0, NULL) == 0 &&
               same_file(back.ptr, git);
    git_buf_dispose(&back);
    git_config_free(config);
    return !both;
}

static int is_link(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
}

/* Is anything below dir/name a link? Takes as long as libgit2 itself would take to list it. */
static int has_links(int dir, const char *name, int depth)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), found = 0;
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (!list) {
        rp_closep(&fd);
        return is_link(dir, name);
    }
    for (struct dirent *e; !found && (e = readdir(list));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            found = e->d_type == DT_LNK || (e->d_type == DT_UNKNOWN && is_link(fd, e->d_name)) ||
                    (e->d_type != DT_REG && (depth == DEEPEST || has_links(fd, e->d_name, depth + 1)));
    closedir(list);
    return found;
}

/* What git made holds no links: one for objects, branches, the index or the configuration would show another repository
 * as this one. */
static int is_borrowed(const char *git)
{
    static const char *const files[] = {"HEAD",  "commondir", "config", "config.worktree", "gitdir",
                                        "index", "logs",      "packed-refs", "shallow"};
    RP_FD dir = open(git, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (is_link(dir, files[i]))
            return 1;
    return has_links(dir, "objects", 0) || has_links(dir, "refs", 0);
}

/* libgit2 would read the objects of every directory that objects/info/alternates names, whosever they are. */
static int take_own_objects(git_repository *repo)
{
    RP_FREE char *dir = rp_asprintf("%sobjects", git_repository_commondir(repo));
    git_odb *odb = NULL;
    git_odb_backend *loose = NULL, *packed = NULL;
    int rc = git_odb_new(&odb);
    if (rc == 0 && (rc = git_odb_backend_loose(&loose, dir, -1, 0, 0, 0)) == 0)
        rc = git_odb_add_backend(odb, loose, 1);
    if (rc == 0 && (rc = git_odb_backend_pack(&packed, dir)) == 0)
        rc = git_odb_add_backend(odb, packed, 2);
    if (rc == 0)
        rc = git_repository_set_odb(repo, odb);
    git_odb_free(odb);
    return rc;
}

int rp_git_alternates(git_repository *repo)
{
    RP_FREE char *path = rp_asprintf("%sobjects/info/alternates", git_repository_commondir(repo));
    RP_BUF text = {0};
    struct rp_err err;
    int n = 0;
    errno = 0; /* a pipe there is not a failed call */
    if (rp_read_file(&text, path, ALTERNATES_BYTES, &err) < 0)
        return err.sys == ENOENT ? 0 : -1;
    for (const char *l = text.data; l && *l; l += strcspn(l, "\n"), l += *l == '\n')
        n += *l != '#' && *l != '\n';
    return n;
}

enum rp_state rp_git_open(git_repository **repo, const char *dir, int search, const char **detail)
{
    /* without GIT_* variables */
    int rc = git_repository_open_ext(repo, dir, search ? 0 : GIT_REPOSITORY_OPEN_NO_SEARCH, NULL);
    *detail = NULL;
    if (rc < 0) {
        *detail = rc == GIT_ENOTFOUND ? NULL : rp_git_failure();
        return rc == GIT_ENOTFOUND ? RP_STATE_ABSENT : RP_STATE_ERROR;
    }
    const char *work = git_repository_workdir(*repo), *git = git_repository_path(*repo);
    RP_FREE char *link = work ? rp_asprintf("%s.git", work) : NULL;
    if (!(is_ours(work) && is_ours(git) && is_ours(git_repository_commondir(*repo)) && is_ours(link)) &&
        !is_declared_safe(work ? work : git))
        *detail = "it belongs to another user: if you trust it, git config --global --add safe.directory DIRECTORY";
    else if (is_outside_repository(*repo, dir))
        *detail = "its .git or core.worktree leads to a place that does not know this directory: give the repository's "
                  "own directory";
    else if (is_borrowed(git) || is_borrowed(git_repository_commondir(*repo)))
        *detail = "parts of its .git are links, perhaps into another repository: git clone makes one of its own";
    enum rp_state state = *detail ? RP_STATE_DENIED : RP_STATE_OK;
    if (!*detail && take_own_objects(*repo) < 0) {
        *detail = rp_git_failure();
        state = RP_STATE_ERROR;
    }
    borrows = !*detail && rp_git_alternates(*repo) != 0;
    if (!*detail)
        return RP_STATE_OK;
    git_repository_free(*repo);
    *repo = NULL;
    return state;
}

int rp_git_head_tree(git_tree **tree, git_repository *repo)
{
    git_object *o = NULL;
    int rc = git_revparse_single(&o, repo, "HEAD^{tree}");
    *tree = (git_tree *)o;
    return rc < 0 && git_repository_head_unborn(repo) != 1 ? -1 : 0;
}
