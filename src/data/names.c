#include "data/names.h"

#include "base/buf.h"
#include "base/text.h"
#include "data/archive.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int check_bytes(const char *path, struct rp_err *err)
{
    size_t left = strlen(path);
    for (size_t n; left; path += n, left -= n) {
        unsigned c;
        n = rp_utf8(path, left, &c);
        if (n == 0)
            return rp_fail(err, RP_MALFORMED, "its name is not UTF-8");
        if (rp_is_control(c))
            return rp_fail(err, RP_MALFORMED, "its name holds a control character");
    }
    return 0;
}

int rp_name_check(const char *path, struct rp_err *err)
{
    size_t length = strlen(path);
    if (length == 0)
        return rp_fail(err, RP_MALFORMED, "it has no name");
    if (length > RP_ARCHIVE_NAME)
        return rp_fail(err, RP_MALFORMED, "its name is longer than %d bytes", RP_ARCHIVE_NAME);
    if (check_bytes(path, err) < 0)
        return -1;
    if (*path == '/')
        return rp_fail(err, RP_MALFORMED, "absolute path");
    for (const char *p = path;; p++) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.')
            return rp_fail(err, RP_MALFORMED, "'..' in its path");
        if (n == 0 || (n == 1 && *p == '.'))
            return rp_fail(err, RP_MALFORMED, "empty component in its path");
        if (n > 255)
            return rp_fail(err, RP_MALFORMED, "a component of its path is longer than 255 bytes");
        if (strncmp(p, ".repro", 6) == 0)
            return rp_fail(err, RP_MALFORMED, "names that begin with '.repro' are reserved");
        p += n;
        if (!*p)
            return 0;
    }
}

int rp_name_check_link(const char *path, const char *target, struct rp_err *err)
{
    int above = 0;
    if (!*target || strlen(target) > RP_ARCHIVE_NAME || check_bytes(target, err) < 0)
        return rp_fail(err, RP_MALFORMED, "a link whose target is no proper path");
    for (const char *p = path; *p; p++)
        above += *p == '/';
    const char *p = target;
    while (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) {
        p += 2;
        p += *p == '/';
        above--;
    }
    int leaves = above < 0 || *target == '/';
    for (; *p; p += *p == '/') {
        size_t n = strcspn(p, "/");
        leaves |= n == 2 && p[0] == '.' && p[1] == '.';
        p += n;
    }
    return leaves ? rp_fail(err, RP_MALFORMED, "a link to '%.100s', which leaves the archive", target) : 0;
}

static uint64_t hash(const char *s)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a; the number of entries is bounded, so is what a chosen collision costs */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3u;
    return h ^ h >> 29;
}

/* The slot of a path (kind letter aside), empty or taken. */
static char **find(const struct rp_path_set *s, const char *path)
{
    size_t i = (size_t)hash(path) & (s->cap - 1);
    while (s->slot[i] && strcmp(s->slot[i] + 1, path) != 0)
        i = (i + 1) & (s->cap - 1);
    return &s->slot[i];
}

static void grow(struct rp_path_set *s)
{
    struct rp_path_set old = *s;
    if (2 * (s->n + 1) <= s->cap)
        return;
    s->cap = old.cap ? 2 * old.cap : 64;
    s->slot = rp_alloc(s->cap * sizeof *s->slot);
    for (size_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            *find(s, old.slot[i] + 1) = old.slot[i];
    free(old.slot);
}

static int put(struct rp_path_set *s, const char *path, char kind, struct rp_err *err)
{
    s->bytes += strlen(path) + 2;
    if (s->bytes > RP_NAMES_BYTES)
        return rp_fail(err, RP_MALFORMED, "the names of the archive are longer than %u bytes together, the limit", RP_NAMES_BYTES);
    grow(s);
    *find(s, path) = rp_asprintf("%c%s", kind, path);
    s->n++;
    return 0;
}

int rp_names_take(struct rp_path_set *s, const char *path, char kind, struct rp_err *err)
{
    RP_FREE char *low = rp_strdup(path);
    grow(s);
    for (char *p = low; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p |= 0x20;
    for (char *p = low; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = 0;
        char **have = find(s, low);
        char old = *have ? **have : 0;
        if (!old && put(s, low, 'i', err) < 0) /* implied: its own entry may follow once */
            return -1;
        if (old && old != 'd' && old != 'i')
            return rp_fail(err, RP_MALFORMED, "'%.100s' in its path is no directory", low);
    }
    char **have = find(s, low);
    if (!*have)
        return put(s, low, kind, err);
    if (**have != 'i' || kind != 'd')
        return rp_fail(err, RP_MALFORMED, "the same name twice (upper and lower case count as the same)");
    **have = 'd';
    return 0;
}

void rp_names_fini(struct rp_path_set *s)
{
    for (size_t i = 0; i < s->cap; i++)
        free(s->slot[i]);
    free(s->slot);
    *s = (struct rp_path_set){0};
}
