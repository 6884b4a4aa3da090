#include "backend/cpu/limits.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NONE UINT64_MAX

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number after `key` at the start of a line, or, with an empty key, the file's first word. NONE: "max", or no such
 * file. */
static uint64_t read_number(const char *root, const char *dir, const char *file, const char *key)
{
    char path[2 * PATH_MAX], line[512];
    uint64_t v = NONE;
    if (snprintf(path, sizeof path, "%s%s/%s", root, dir, file) >= (int)sizeof path)
        return NONE;
    FILE *f = fopen(path, "re");
    if (!f)
        return NONE;
    size_t n = strlen(key);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && sscanf(line + n, "%" SCNu64, &v) == 1)
            break;
    fclose(f);
    return v;
}

struct group_files {
    const char *mount, *limit, *usage;
    const char *inactive; /* its key in memory.stat */
};
static const struct group_files v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                      "total_inactive_file "};
static const struct group_files v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

static uint64_t memory_left(const char *root, const void *files, const char *dir)
{
    const struct group_files *f = files;
    uint64_t limit = read_number(root, dir, f->limit, ""), used = read_number(root, dir, f->usage, "");
    uint64_t idle = read_number(root, dir, "memory.stat", f->inactive);
    if (limit == NONE || used == NONE)
        return limit;
    if (idle != NONE)
        used = used > idle ? used - idle : 0;
    return limit > used ? limit - used : 0;
}

/* Calls visit(dir) for a group's directory and each of its parents up to the mount. In a container the path is often
 * the host's and does not exist below the mount: then only the mount itself has files. */
typedef uint64_t (*visit_fn)(const char *root, const void *files, const char *dir);

static uint64_t walk_groups(const char *root, const char *mount, const char *path, const void *files, visit_fn visit)
{
    char dir[PATH_MAX];
    uint64_t v = NONE;
    if (snprintf(dir, sizeof dir, "%s%s", mount, path) >= (int)sizeof dir)
        return NONE;
    for (size_t top = strlen(mount);;) {
        v = least(v, visit(root, files, dir));
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < top)
            return v;
        *slash = 0;
    }
}

/* Whether the comma-separated list of controllers contains `name`. */
static int list_has(const char *list, size_t length, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p < list + length; p += strcspn(p, ",:") + 1)
        if (strcspn(p, ",:") == n && !strncmp(p, name, n))
            return 1;
    return 0;
}

/* The least of `visit` over this process's groups: lines "id:controllers:/path" of /proc/self/cgroup, version 2 without
 * controllers. */
static uint64_t over_groups(const char *root, const char *controller, const char *mount1, const void *files1,
                            const char *mount2, const void *files2, visit_fn visit)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t v = NONE;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return NONE;
    FILE *f = fopen(path, "re");
    if (!f)
        return NONE;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *list = strchr(line, ':'), *dir = list ? strchr(list + 1, ':') : NULL;
        if (!dir)
            continue;
        size_t length = (size_t)(dir - ++list);
        dir++;
        if (!length)
            v = least(v, walk_groups(root, mount2, dir, files2, visit));
        else if (list_has(list, length, controller))
            v = least(v, walk_groups(root, mount1, dir, files1, visit));
    }
    fclose(f);
    return v;
}

static uint64_t address_space_left(const char *root)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return NONE;
    uint64_t pages = read_number(root, "/proc/self", "statm", ""); /* first word: size of the address space */
    uint64_t used = pages == NONE ? 0 : pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

uint64_t rp_cpu_memory(const char *root)
{
    uint64_t kib = read_number(root, "/proc", "meminfo", "MemAvailable:");
    uint64_t v = kib == NONE ? NONE : kib * 1024;
    v = least(v, over_groups(root, "memory", v1.mount, &v1, v2.mount, &v2, memory_left));
    return least(v, address_space_left(root));
}

/* CPUs' worth of time in a period, rounded up: version 2 "cpu.max" = "QUOTA PERIOD" or "max PERIOD", version 1 one file
 * each. */
static uint64_t cpus_of(const char *root, const void *files, const char *dir)
{
    (void)files;
    uint64_t quota = read_number(root, dir, "cpu.cfs_quota_us", ""),
             period = read_number(root, dir, "cpu.cfs_period_us", "");
    char path[2 * PATH_MAX];
    FILE *f = NULL;
    if (snprintf(path, sizeof path, "%s%s/cpu.max", root, dir) < (int)sizeof path)
        f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%" SCNu64 " %" SCNu64, &quota, &period) != 2)
            quota = NONE;
        fclose(f);
    }
    if (quota > INT64_MAX || !quota || period == NONE || !period) /* version 1 writes -1 for no limit */
        return NONE;
    return (quota + period - 1) / period;
}

int rp_cpu_count(const char *root)
{
    cpu_set_t set;
    uint64_t n = 1;
    if (!sched_getaffinity(0, sizeof set, &set))
        n = (uint64_t)CPU_COUNT(&set);
    n = least(n, over_groups(root, "cpu", "/sys/fs/cgroup/cpu", NULL, "/sys/fs/cgroup", NULL, cpus_of));
    return n < 1 ? 1 : (int)n;
}
