#include "data/names.h"

#include "base/buf.h"
#include "base/text.h"
#include "data/archive.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int check_name_bytes(const char *path, struct rp_err *err)
{
    size_t left = strlen(path);
    for (size_t n; left; path += n, left -= n) {
        unsigned c;
        n = rp_utf8(path, left, &c);
        if (n == 0)
            return rp_fail(err, RP_MALFORMED, "its name is not UTF-8");
        if (rp_is_control(c))
            return rp_fail(err, RP_MALFORMED, "its name contains a control character");
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
    if (check_name_bytes(path, err) < 0)
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
    if (!*target || strlen(target) > RP_ARCHIVE_NAME || check_name_bytes(target, err) < 0)
        return rp_fail(err, RP_MALFORMED, "a link whose target is not a valid path");
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

static int by_path(const void *a, const void *b)
{
    return strcmp((const char *)a + 1, (const char *)b + 1);
}

/* The entry that has the path of `text`, NULL if none has. */
static char *path_set_find(const struct rp_path_set *s, const char *text)
{
    char **node = tfind(text, &s->root, by_path);
    return node ? *node : NULL;
}

static int path_set_insert(struct rp_path_set *s, char kind, const char *path, struct rp_err *err)
{
    s->bytes += strlen(path) + 2;
    if (s->bytes > RP_PATH_SET_BYTES)
        return rp_fail(err, RP_MALFORMED, "the names of the archive are longer than %u bytes together, the limit",
                       RP_PATH_SET_BYTES);
    RP_BUG_IF(!tsearch(rp_asprintf("%c%s", kind, path), &s->root, by_path));
    return 0;
}

int rp_path_set_add(struct rp_path_set *s, const char *path, char kind, struct rp_err *err)
{
    RP_FREE char *text = rp_asprintf("%c%s", kind, path);
    for (char *p = text + 1; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p |= 0x20;
    for (char *p = text; (p = strchr(p, '/')) != NULL; *p++ = '/') {
        *p = 0;
        const char *above = path_set_find(s, text);
        if (!above && path_set_insert(s, 'i', text + 1, err) < 0) /* implied: an entry of its own may follow once */
            return -1;
        if (above && *above != 'd' && *above != 'i')
            return rp_fail(err, RP_MALFORMED, "'%.100s' in its path is not a directory", text + 1);
    }
    char *same = path_set_find(s, text);
    if (!same)
        return path_set_insert(s, kind, text + 1, err);
    if (*same != 'i' || kind != 'd')
        return rp_fail(err, RP_MALFORMED, "the same name twice (upper and lower case count as the same)");
    *same = 'd';
    return 0;
}

void rp_path_set_fini(struct rp_path_set *s)
{
    tdestroy(s->root, free);
    *s = (struct rp_path_set){0};
}
