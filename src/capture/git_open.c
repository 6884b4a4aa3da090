/* Opening a repository that nobody vouches for. libgit2 knows no hooks, monitors, external filters or diff programs; what is left is where
 * a repository may lead: .git may be a link, core.worktree any directory, and its owner somebody else. */
#include "base/text.h"
#include "capture/git.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char rp_git_source[] = "libgit2";

int rp_git_begin(void)
{
    static const int levels[] = {GIT_CONFIG_LEVEL_PROGRAMDATA, GIT_CONFIG_LEVEL_SYSTEM, GIT_CONFIG_LEVEL_XDG, GIT_CONFIG_LEVEL_GLOBAL};
    static const char *extensions[] = {"partialclone", "worktreeconfig", "preciousobjects"}; /* change nothing in what is read here */
    if (git_libgit2_init() < 0)
        return -1;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        git_libgit2_opts(GIT_OPT_SET_SEARCH_PATH, levels[i], "");
    git_libgit2_opts(GIT_OPT_SET_TEMPLATE_PATH, "");
    git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0); /* it finds safe.directory only where the levels above are, and no '*' */
    git_libgit2_opts(GIT_OPT_SET_EXTENSIONS, extensions, sizeof extensions / sizeof *extensions);
    git_libgit2_opts(GIT_OPT_SET_MWINDOW_MAPPED_LIMIT, (size_t)256 << 20);
    return 0;
}

const char *rp_git_failure(void)
{
    static char text[256];
    const git_error *e = git_error_last();
    size_t n = 0;
    for (const char *s = e && e->message ? e->message : "libgit2 does not say why"; *s && n < sizeof text - 8;) {
        size_t word = strcspn(s, " "), quoted = *s == '\'' && strchr(s + 1, '\'') ? (size_t)(strchr(s + 1, '\'') - s) + 1 : 0;
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
    rp_clean(text);
    return text;
}

void rp_git_put_failure(json_t *out, const char *name)
{
    rp_put(out, name, RP_STATE_ERROR, NULL, rp_git_source, NULL, rp_git_failure());
}

void rp_git_add_line(json_t *list, const char *line)
{
    RP_FREE char *text = rp_asprintf("%.1000s", line);
    rp_clean(text);
    json_array_append_new(list, json_string(text));
}

void rp_git_clean_text(char *text)
{
    while (*text) {
        char *end = text + strcspn(text, "\n\t"), stop = *end;
        *end = 0;
        rp_clean(text);
        *end = stop;
        text = end + (stop != 0);
    }
}

/* ---- whose it is ---- */

static int is_ours(const char *path)
{
    struct stat st;
    const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    return !path || stat(path, &st) < 0 || st.st_uid == geteuid() || (sudo && *sudo && strtoul(sudo, NULL, 10) == st.st_uid);
}

struct safe {
    const char *dir; /* without a slash at its end */
    int yes;
};

/* One safe.directory, by git's rules: "" or no value forgets those before, "*" is any, "~/" begins at home, "DIR" with a slash and a star
 * at its end is all below DIR. */
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
    RP_FREE char *shared = xdg && *xdg ? rp_asprintf("%s/git/config", xdg) : rp_asprintf("%s/.config/git/config", home ? home : "");
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

/* A working tree and its .git must know each other, and dir must be in it: else a repository that was unpacked from somewhere could have
 * any file of this user read (core.worktree), or any repository of this user (a link instead of .git). */
static int leads_elsewhere(git_repository *repo, const char *dir)
{
    const char *work = git_repository_workdir(repo);
    git_buf back = {0};
    git_config *config = NULL;
    const char *value;
    struct stat st;
    RP_FREE char *real = realpath(dir, NULL), *link = rp_asprintf("%s.git", work ? work : "");
    if (!work)
        return 0;
    if (!real || lstat(link, &st) < 0)
        return 1;
    size_t n = strlen(work), len = strlen(real);
    int inside = strncmp(real, work, n - 1) == 0 && (len == n - 1 || real[n - 1] == '/');
    int known = S_ISDIR(st.st_mode) || git_repository_is_worktree(repo) ||
                (git_repository_config_snapshot(&config, repo) == 0 && git_config_get_string(&value, config, "core.worktree") == 0);
    int both = inside && known && git_repository_discover(&back, work, 0, NULL) == 0 && same_file(back.ptr, git_repository_path(repo));
    git_buf_dispose(&back);
    git_config_free(config);
    return !both;
}

enum rp_state rp_git_open(git_repository **repo, const char *dir, int search, const char **detail)
{
    int rc = git_repository_open_ext(repo, dir, search ? 0 : GIT_REPOSITORY_OPEN_NO_SEARCH, NULL); /* without GIT_* variables */
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
    else if (leads_elsewhere(*repo, dir))
        *detail = "its .git or core.worktree leads to a place that does not know this directory: give the repository's own directory";
    if (!*detail)
        return RP_STATE_OK;
    git_repository_free(*repo);
    *repo = NULL;
    return RP_STATE_DENIED;
}

int rp_git_head_tree(git_tree **tree, git_repository *repo)
{
    git_object *o = NULL;
    int rc = git_revparse_single(&o, repo, "HEAD^{tree}");
    *tree = (git_tree *)o;
    return rc < 0 && git_repository_head_unborn(repo) != 1 ? -1 : 0;
}
