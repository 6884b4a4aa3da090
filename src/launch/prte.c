#include "launch/prte.h"

#include "base/buf.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANCESTORS = 32, COMMAND_LINE_MAX = 1 << 20 };

static int read_of(struct rp_buf *out, const char *proc, pid_t pid, const char *file)
{
    char path[256];
    struct rp_err ignored;
    return rp_read_file(out, RP_FORMAT(path, "%s/%d/%s", proc, (int)pid, file), COMMAND_LINE_MAX, &ignored);
}

/* 0: none, or not to be seen. */
static pid_t parent_of(const char *proc, pid_t pid)
{
    RP_BUF status = {0};
    int64_t parent = 0;
    if (read_of(&status, proc, pid, "status") < 0)
        return 0;
    const char *line = strstr(rp_buf_text(&status), "\nPPid:\t");
    if (!line)
        return 0;
    line += strlen("\nPPid:\t");
    RP_FREE char *number = rp_asprintf("%.*s", (int)strcspn(line, "\n"), line);
    return rp_parse_count(number, &parent) < 0 ? 0 : (pid_t)parent;
}

char *rp_prte_option(const char *proc, pid_t pid, const char *name)
{
    for (int i = 0; i < ANCESTORS && (pid = parent_of(proc, pid)) > 0; i++) {
        RP_BUF line = {0};
        if (read_of(&line, proc, pid, "cmdline") < 0)
            continue;
        for (const char *at = rp_buf_text(&line), *end = at + line.size; at < end; at += strlen(at) + 1)
            if (strcmp(at, name) == 0 && at + strlen(at) + 1 < end)
                return rp_strdup(at + strlen(at) + 1);
    }
    return NULL;
}

char *rp_prte_host(const char *space)
{
    const char *at = strncmp(space, "prterun-", 8) == 0 ? space + 8
                     : strncmp(space, "prte-", 5) == 0  ? space + 5
                                                        : NULL;
    const char *job = at ? strchr(at, '@') : NULL, *end = job;
    while (end && end > at && end[-1] >= '0' && end[-1] <= '9')
        end--;
    return end && end < job && end > at + 1 && end[-1] == '-' ? rp_asprintf("%.*s", (int)(end - 1 - at), at) : NULL;
}

int rp_prte_daemon(const char *uri)
{
    int64_t n;
    RP_FREE char *name = rp_asprintf("%.*s", (int)strcspn(uri, ";"), uri);
    const char *dot = strrchr(name, '.');
    return dot && rp_parse_count(dot + 1, &n) == 0 && n < 1 << 20 ? (int)n : -1;
}
