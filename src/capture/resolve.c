/* Paths below a root, without the links that would lead out of it. */
#include "capture/probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int rp_resolve(int root, const char *path, int follow_last, char out[PATH_MAX],
               void (*link)(void *ctx, const char *path, const char *target), void *ctx)
{
    char todo[PATH_MAX], target[PATH_MAX], rest[PATH_MAX];
    size_t done = 0; /* length of what is resolved, "" or "/a/b" */
    int links = 0;
    if ((size_t)snprintf(todo, sizeof todo, "%s", path) >= sizeof todo)
        goto too_long;
    for (char *p = todo + strspn(todo, "/"); *p;) {
        size_t n = strcspn(p, "/"), gap = strspn(p + n, "/");
        int last = p[n + gap] == 0,
            in_proc = done >= 5 && strncmp(out, "/proc", 5) == 0 && (done == 5 || out[5] == '/');
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            while (done && out[--done] != '/')
                ;
        } else if (n != 1 || p[0] != '.') {
            if (done + n + 2 > PATH_MAX)
                goto too_long;
            out[done] = '/';
            memcpy(out + done + 1, p, n);
            out[done + 1 + n] = 0;
            ssize_t len = in_proc || (last && !follow_last) ? -1 : readlinkat(root, out + 1, target, sizeof target - 1);
            if (len < 0) {
                done += n + 1;
            } else {
                target[len] = 0;
                if (link)
                    link(ctx, out, target);
                if (++links > 40 || (size_t)snprintf(rest, sizeof rest, "%s/%s", target, p + n + gap) >= sizeof rest) {
                    errno = ELOOP;
                    return -1;
                }
                done = target[0] == '/' ? 0 : done;
                p = memcpy(todo, rest, sizeof todo);
                p += strspn(p, "/");
                continue;
            }
        }
        p += n + gap;
    }
    out[done] = 0;
    if (!done)
        memcpy(out, "/", 2);
    return 0;
too_long:
    errno = ENAMETOOLONG;
    return -1;
}
