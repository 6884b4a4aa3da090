/* Both sides of a changed file, without filters and without following links, and the text of their difference; and what in it must not be
 * shown. libgit2's own patches would ask the repository's configuration for diff drivers. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "capture/git.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TEXT = 1 << 20 /* bytes of a file whose lines are compared */ };

/* ---- secrets ---- */

int rp_git_secret_name(const char *path)
{
    static const char *const files[] = {"*.env",     ".env*",     "*.pem",       "*.key",       "*.p12",        "*.pfx",      "*.jks",
                                        "*.kdbx",    "*.gpg",     "*.ppk",       "*.ovpn",      "*.keystore",   "*.tfstate",  "id_rsa*",
                                        "id_dsa*",   "id_ecdsa*", "id_ed25519*", ".netrc",      ".pgpass",      ".npmrc",     ".pypirc",
                                        ".htpasswd", ".boto",     ".s3cfg",      "kubeconfig*", "*credential*", "*password*", "*passwd*",
                                        "*secret*",  "*apikey*",  "*api_key*"};
    static const char *const folders[] = {".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud"};
    const char *base = strrchr(path, '/');
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (fnmatch(files[i], base ? base + 1 : path, FNM_CASEFOLD) == 0)
            return 1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (at && (at == path || at[-1] == '/') && at[strlen(folders[i])] == '/')
            return 1;
    }
    return 0;
}

/* A whole token: its beginning alone is not enough here (tokens.def says why). */
static int has_token(const char *s, const char *end)
{
    static const struct {
        const char *text;
        long more;
    } marks[] = {{"Bearer ", 16},
#define TOKEN(beginning, more) {beginning, more},
#include "capture/tokens.def"
#undef TOKEN
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        for (const char *at = s; (at = memmem(at, (size_t)(end - at), marks[i].text, strlen(marks[i].text))); at++) {
            const char *from = at + strlen(marks[i].text), *p = from;
            while (p < end && (isalnum((unsigned char)*p) || *p == '_' || *p == '-'))
                p++;
            if (p - from >= marks[i].more && (at == s || !isalnum((unsigned char)at[-1])))
                return 1;
        }
    return 0;
}

/* After a name like "password": = or :, and six letters or more that are no call and no variable of a shell. */
static int is_assigned(const char *s, const char *end)
{
    while (s < end && (isalnum((unsigned char)*s) || *s == '_' || *s == '"' || *s == '\'' || *s == ' '))
        s++;
    if (s == end || (*s != '=' && *s != ':'))
        return 0;
    while (s < end && (*s == ' ' || *s == '=' || *s == ':' || *s == '"' || *s == '\''))
        s++;
    const char *from = s;
    while (s<end && * s> ' ' && !strchr("\"'(){}[]<>$,;", *s))
        s++;
    return s - from >= 6 && (s == end || *s == '\0' || !strchr("({[<", *s));
}

static int has_password(const char *s, const char *end)
{
    static const char *const names[] = {"password", "passwd", "passphrase", "private_key",  "secret",
                                        "api_key",  "apikey", "access_key", "access_token", "auth_token"};
    static const char loud[] = "TOKEN"; /* in small letters it is what texts are made of */
    for (const char *at = s; at < end; at++) {
        if (!strchr("psaPSAT", *at) || !*at)
            continue;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t n = strlen(names[i]);
            if ((size_t)(end - at) > n && strncasecmp(at, names[i], n) == 0 && is_assigned(at + n, end))
                return 1;
        }
        if ((size_t)(end - at) > sizeof loud && memcmp(at, loud, sizeof loud - 1) == 0 && is_assigned(at + sizeof loud - 1, end))
            return 1;
    }
    return 0;
}

/* scheme://user:password@ */
static int has_url_with_password(const char *s, const char *end)
{
    while ((s = memmem(s, (size_t)(end - s), "://", 3))) {
        const char *colon = NULL;
        for (s += 3; s<end && * s> ' ' && *s != '"' && *s != '\''; s++) {
            if (*s == ':')
                colon = s;
            else if (*s == '@' && colon)
                return 1;
        }
    }
    return 0;
}

/* 32 letters and digits of both cases that change kind as often as chance does: base64, and nothing that a person types. */
static int has_random_word(const char *s, const char *end)
{
    unsigned run = 0, changes = 0, kinds = 0, last = 0;
    for (; s < end; s++) {
        unsigned kind = isupper((unsigned char)*s) ? 1 : islower((unsigned char)*s) ? 2 : isdigit((unsigned char)*s) ? 4 : 0;
        if (!kind)
            run = changes = kinds = 0;
        run += kind != 0;
        changes += kind && kind != last;
        kinds |= kind;
        last = kind;
        if (run >= 32 && changes >= run / 3 && kinds == 7)
            return 1;
    }
    return 0;
}

int rp_git_secret_text(const char *text, size_t size)
{
    const char *end = text + size;
    return memmem(text, size, "PRIVATE KEY-----", 16) || memmem(text, size, "PuTTY-User-Key-File", 19) || has_token(text, end) ||
           has_password(text, end) || has_url_with_password(text, end) || has_random_word(text, end);
}

/* ---- sides ---- */

void rp_git_side_fini(struct rp_git_side *s)
{
    rp_buf_fini(&s->bytes);
}

static void finish(struct rp_git_side *s)
{
    git_oid id;
    rp_sha256_hex(s->sha256, rp_buf_text(&s->bytes), s->bytes.size);
    if (git_odb_hash(&id, rp_buf_text(&s->bytes), s->bytes.size, GIT_OBJECT_BLOB) == 0)
        git_oid_tostr(s->id, sizeof s->id, &id);
}

int rp_git_read_old(struct rp_git_side *s, git_repository *repo, const git_diff_file *f)
{
    git_odb *odb = NULL;
    git_blob *blob = NULL;
    git_object_t type;
    size_t size;
    *s = (struct rp_git_side){.exists = 1, .mode = f->mode};
    if (git_repository_odb(&odb, repo) < 0 || git_odb_read_header(&size, &type, odb, &f->id) < 0 || type != GIT_OBJECT_BLOB)
        return -1;
    s->large = size > MAX_TEXT;
    if (s->large) {
        git_oid_tostr(s->id, sizeof s->id, &f->id);
        return 0;
    }
    if (git_blob_lookup(&blob, repo, &f->id) < 0)
        return -1;
    rp_buf_add(&s->bytes, git_blob_rawcontent(blob), (size_t)git_blob_rawsize(blob));
    git_blob_free(blob);
    finish(s);
    return 0;
}

/* The directory that holds path, and the last part of it in *name; -1 with errno. */
static int open_parent(git_repository *repo, const char *path, const char **name)
{
    RP_FD dir = open(git_repository_workdir(repo), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        RP_FREE char *part = rp_asprintf("%.*s", (int)(slash - path), path);
        if (!*part || strcmp(part, "..") == 0 || strcmp(part, ".") == 0) {
            errno = EINVAL;
            return -1;
        }
        int next = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        rp_closep(&dir);
        dir = next;
    }
    *name = path;
    return rp_fd_take(&dir);
}

/* A file too large to be compared: its digest. */
static int digest_large(struct rp_git_side *s, int fd, uint64_t deadline)
{
    static char block[65536];
    unsigned char digest[RP_SHA256_SIZE];
    struct rp_sha256 h;
    ssize_t n;
    rp_sha256_init(&h);
    while ((n = read(fd, block, sizeof block)) > 0) {
        rp_sha256_update(&h, block, (size_t)n);
        if (rp_now_ns() > deadline)
            return -1;
    }
    rp_sha256_final(&h, digest);
    rp_hex(s->sha256, digest, sizeof digest);
    s->large = 1;
    s->exists = n == 0;
    return n < 0 ? -1 : 0;
}

int rp_git_read_new(struct rp_git_side *s, git_repository *repo, const char *path, uint64_t deadline)
{
    char block[4096];
    struct stat st;
    const char *name;
    *s = (struct rp_git_side){0};
    RP_FD dir = open_parent(repo, path, &name);
    ssize_t n = dir < 0 ? -1 : readlinkat(dir, name, block, sizeof block);
    if (n >= 0) {
        s->mode = GIT_FILEMODE_LINK;
        rp_buf_add(&s->bytes, block, (size_t)n);
        finish(s);
        s->exists = 1;
        return 0;
    }
    RP_FD fd = dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    s->mode = st.st_mode & 0100 ? GIT_FILEMODE_BLOB_EXECUTABLE : GIT_FILEMODE_BLOB;
    if (st.st_size > MAX_TEXT)
        return digest_large(s, fd, deadline);
    while ((n = read(fd, block, sizeof block)) > 0 && s->bytes.size <= MAX_TEXT)
        rp_buf_add(&s->bytes, block, (size_t)n);
    finish(s);
    s->exists = n == 0;
    return n == 0 ? 0 : -1;
}

/* ---- the difference ---- */

static int add_line(const git_diff_delta *d, const git_diff_hunk *h, const git_diff_line *l, void *ctx)
{
    struct rp_buf *out = ctx;
    (void)d, (void)h;
    if (l->origin == GIT_DIFF_LINE_FILE_HDR || l->origin == GIT_DIFF_LINE_BINARY)
        return 0;
    if (l->origin == GIT_DIFF_LINE_CONTEXT || l->origin == GIT_DIFF_LINE_ADDITION || l->origin == GIT_DIFF_LINE_DELETION)
        rp_buf_add(out, &l->origin, 1);
    rp_buf_add(out, l->content, l->content_len);
    return 0;
}

static void add_head(struct rp_buf *out, const char *path, const struct rp_git_side *from, const struct rp_git_side *to)
{
    static const char none[] = "0000000000000000000000000000000000000000";
    rp_buf_printf(out, "diff --git a/%s b/%s\n", path, path);
    if (!from->exists)
        rp_buf_printf(out, "new file mode %06o\n", to->mode);
    else if (!to->exists)
        rp_buf_printf(out, "deleted file mode %06o\n", from->mode);
    else if (from->mode != to->mode)
        rp_buf_printf(out, "old mode %06o\nnew mode %06o\n", from->mode, to->mode);
    if (strcmp(from->id, to->id) != 0 || !*to->id)
        rp_buf_printf(out, "index %s..%s", *from->id ? from->id : none, *to->id ? to->id : none);
    else
        return;
    if (from->exists && from->mode == to->mode)
        rp_buf_printf(out, " %06o", to->mode);
    rp_buf_puts(out, "\n");
}

int rp_git_difference(struct rp_buf *out, const char *path, const struct rp_git_side *from, const struct rp_git_side *to)
{
    const struct rp_buf *a = &from->bytes, *b = &to->bytes;
    git_patch *patch = NULL;
    git_diff_options o;
    RP_FREE char *name = rp_strdup(path);
    rp_clean(name);
    add_head(out, name, from, to);
    if (from->large || to->large || memchr(rp_buf_text(a), 0, a->size) || memchr(rp_buf_text(b), 0, b->size)) {
        rp_buf_printf(out, "Binary files %s%s and %s%s differ (SHA-256 %s)\n", from->exists ? "a/" : "", from->exists ? name : "/dev/null",
                      to->exists ? "b/" : "", to->exists ? name : "/dev/null", *to->sha256 ? to->sha256 : "none");
        return 0;
    }
    if (a->size == b->size && memcmp(rp_buf_text(a), rp_buf_text(b), a->size) == 0)
        return 0;
    const char *end = strchr(name, ' ') ? "\t" : ""; /* where a patch would not see the end of the name */
    rp_buf_printf(out, "--- %s%s%s\n+++ %s%s%s\n", from->exists ? "a/" : "", from->exists ? name : "/dev/null", from->exists ? end : "",
                  to->exists ? "b/" : "", to->exists ? name : "/dev/null", to->exists ? end : "");
    git_diff_options_init(&o, GIT_DIFF_OPTIONS_VERSION);
    o.flags = GIT_DIFF_FORCE_TEXT | GIT_DIFF_INDENT_HEURISTIC;
    int rc = git_patch_from_buffers(&patch, rp_buf_text(a), a->size, "a", rp_buf_text(b), b->size, "b", &o);
    if (rc == 0)
        rc = git_patch_print(patch, add_line, out);
    git_patch_free(patch);
    return rc < 0 ? -1 : 0;
}
