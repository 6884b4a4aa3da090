/* The limits of the control groups this process is in.
 *
 * /proc/self/cgroup has "0::/path" for version 2 and "4:cpu,cpuacct:/path" for version 1. The groups are looked for
 * under /sys/fs/cgroup (version 1: /sys/fs/cgroup/<controller>); when the path does not exist there, as in a container
 * that sees only its own part of the tree, the top of the mount is this process's group. Limits are the least on the
 * way to the top. Names of groups are identities: what leaves this file has their known parts, and hashes in place of
 * the others. */
#include "base/text.h"
#include "capture/container/container.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V2 "/sys/fs/cgroup"

enum { MAX_GROUP = 1024 };

/* ---- names of groups ---- */

static const char *const known_names[] = {"app.slice", "besteffort", "burstable", "docker", "guaranteed", "init.scope",
                                          "kubepods", "kubepods-besteffort.slice", "kubepods-burstable.slice",
                                          "kubepods.slice", "libpod_parent", "lxc", "lxc.monitor", "lxc.payload",
                                          "machine", "machine.slice", "podman", "session.slice", "slurm",
                                          "slurmstepd.scope", "system", "system.slice", "user", "user.slice"};
/* Longer ones first where one begins another. */
static const char *const prefixes[] = {"cri-containerd-", "crio-conmon-", "crio-", "docker-", "job_",
                                       "kubepods-besteffort-pod", "kubepods-burstable-pod", "kubepods-pod",
                                       "libpod-conmon-", "libpod-", "lxc.monitor.",
                                       "lxc.payload.",
                                       "machine-", "nerdctl-", "pod", "session-", "step_", "task_", "uid_", "user-",
                                       "user@"};
static const char *const suffixes[] = {".scope", ".service", ".slice"};

static size_t affix_length(const char *const *list, size_t n, const char *name, size_t len, int at_end)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = strlen(list[i]);
        if (k < len && memcmp(at_end ? name + len - k : name, list[i], k) == 0)
            return k;
    }
    return 0;
}

/* "docker-0123.scope" -> "docker-sha256:....scope" */
static void redact_name(const struct rp_probe *p, struct rp_buf *out, const char *name, size_t len)
{
    char hidden[RP_HIDDEN];
    if (RP_IS_IN(known_names, name, len)) {
        rp_buf_add(out, name, len);
        return;
    }
    size_t head = affix_length(prefixes, sizeof prefixes / sizeof *prefixes, name, len, 0);
    size_t tail = affix_length(suffixes, sizeof suffixes / sizeof *suffixes, name + head, len - head, 1);
    RP_FREE char *middle = rp_asprintf("%.*s", (int)(len - head - tail), name + head);
    rp_hide_as(p, "container.cgroup", middle, hidden);
    rp_buf_printf(out, "%.*s%s%.*s", (int)head, name, hidden, (int)tail, name + len - tail);
}

static void redact_path(const struct rp_probe *p, struct rp_buf *out, const char *path, size_t size)
{
    for (const char *s = path, *end = path + size; s < end;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t n = (size_t)((slash ? slash : end) - s);
        if (n && !(n <= 2 && memcmp(s, "..", n) == 0))
            redact_name(p, out, s, n);
        else
            rp_buf_add(out, s, n);
        rp_buf_add(out, "/", slash != NULL);
        s += n + 1;
    }
}

/* "4:cpu,cpuacct:/path" */
static void redact_line(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    char *names = strchr(line, ':'), *path = names ? strchr(names + 1, ':') : NULL;
    if (!path)
        return;
    rp_buf_add(out, line, (size_t)(path + 1 - line));
    redact_path(p, out, path + 1, strlen(path + 1));
    rp_buf_puts(out, "\n");
}

void rp_cgroup_read(struct rp_text *t, const struct rp_probe *p, const char *path)
{
    if (p->opts->identify)
        rp_text_read(t, p, path);
    else
        rp_text_read_lines(t, p, path, redact_line);
}

/* ---- where the group is ---- */

/* The path of the group of `controller` ("" for version 2), cut out of the text; 0 or -1. */
static int group_path(const struct rp_text *t, const char *controller, char out[MAX_GROUP])
{
    const char *p = t->state == RP_STATE_OK ? t->bytes.data : "";
    while (*p) {
        const char *stop = strchr(p, '\n');
        size_t line = stop ? (size_t)(stop - p) : strlen(p);
        const char *names = memchr(p, ':', line),
                   *path = names ? memchr(names + 1, ':', line - (size_t)(names + 1 - p)) : NULL;
        if (path) {
            size_t n = (size_t)(path - names - 1), len = line - (size_t)(path + 1 - p), want = strlen(controller);
            int match = want == 0 && n == 0;
            for (const char *w = names + 1; want && w < path;) {
                size_t word = strcspn(w, ",:");
                match |= word == want && memcmp(w, controller, want) == 0;
                w += word + 1;
            }
            if (match && len < MAX_GROUP && path[1] == '/') {
                memcpy(out, path + 1, len);
                out[len] = 0;
                return strstr(out, "..") ? -1 : 0;
            }
        }
        p += line + (p[line] == '\n');
    }
    return -1;
}

/* The record has the directory of the group, and those above it, under their redacted names. */
static void rename_in_record(const struct rp_probe *p, const char *mount, const char *group)
{
    RP_BUF from = {0}, to = {0};
    size_t n = strlen(group);
    for (size_t at = n > 1 ? 1 : 0; at && at <= n; at++)
        if (group[at] == '/' || group[at] == 0) {
            from.size = to.size = 0;
            rp_buf_printf(&from, "%s%.*s", mount, (int)at, group);
            rp_buf_puts(&to, mount);
            redact_path(p, &to, group, at);
            rp_record_rename(p, from.data, to.data);
        }
}

/* ---- limits ---- */

struct limit {
    const char *name, *file, *unit;
    const char *period; /* of version 1, whose quota has its period in another file; NULL: none */
    int is_quota;
};

/* "max" (-1), a number, or of cpu.max "quota period" and "max period" in microseconds: processors = quota / period. 0,
 * or -1. Version 1 writes a limit that is not set as a quota of -1, and as about 2^63 bytes of memory. */
static int parse_limit(const char *text, int is_quota, double *limit)
{
    char word[32], rest[2];
    long long period = 1;
    int64_t n = 0;
    int words = is_quota ? sscanf(text, "%31s %lld", word, &period) - 1 : sscanf(text, "%31s %1s", word, rest);
    const int is_none =
        strcmp(words == 1 ? word : "", "max") == 0 || (is_quota && strcmp(words == 1 ? word : "", "-1") == 0);
    if (words != 1 || period <= 0 || (!is_none && rp_parse_count(word, &n) < 0))
        return -1;
    *limit = is_none || n >= (int64_t)1 << 60 ? -1 : (double)n / (double)period;
    return 0;
}

/* 1: *limit is known; *t has what the file said. */
static int read_limit(struct rp_probe *p, struct rp_text *t, const struct limit *l, const char *dir, const char *path,
                      double *limit)
{
    char other[MAX_GROUP + 96];
    rp_text_read(t, p, path);
    if (t->state != RP_STATE_OK || !l->period)
        return t->state == RP_STATE_OK && parse_limit(t->bytes.data, l->is_quota, limit) == 0;
    RP_TEXT period;
    rp_text_read(&period, p, RP_FORMAT(other, "%s/%s", dir, l->period));
    RP_FREE char *both = rp_asprintf("%s %s", t->bytes.data, period.state == RP_STATE_OK ? period.bytes.data : "");
    return parse_limit(both, 1, limit) == 0;
}

static void put_limit(struct rp_probe *p, const struct limit *l, double limit, const char *path)
{
    if (l->is_quota)
        rp_put_real(p->out, l->name, limit, path, l->unit);
    else
        rp_put_int(p->out, l->name, (int64_t)limit, path, l->unit);
}

/* The least value of a file of limits, from `group` up to the top of the mount; without any, what its own group has.
 * Returns it, or -1. */
static double put_lowest_limit(struct rp_probe *p, const struct limit *l, const char *mount, const char *group)
{
    char path[MAX_GROUP + 96], dir[MAX_GROUP + 64], *group_at = dir + strlen(mount), *slash = group_at;
    double least = -1, limit;
    RP_FORMAT(dir, "%s%s", mount, strcmp(group, "/") == 0 ? "" : group);
    while (slash) {
        RP_TEXT t;
        RP_FORMAT(path, "%s/%s", dir, l->file);
        const int known = read_limit(p, &t, l, dir, path, &limit);
        if (known && limit >= 0 && (least < 0 || limit < least)) {
            least = limit;
            put_limit(p, l, limit, path);
        } else if (!json_object_get(p->out, l->name)) {
            if (known)
                rp_put_str(p->out, l->name, "max", path);
            else
                rp_put_invalid(p->out, l->name, &t, l->unit,
                               l->is_quota ? "not a quota and a period" : "neither a number nor 'max'");
        }
        slash = strrchr(group_at, '/');
        if (slash)
            *slash = 0;
    }
    return least;
}

/* ---- version 2 ---- */

static void put_limits_v2(struct rp_probe *p, const char *group)
{
    static const struct limit limits[] = {{"cpu_limit", "cpu.max", "CPUs", NULL, 1},
                                          {"memory_limit", "memory.max", "B", NULL, 0},
                                          {"memory_high", "memory.high", "B", NULL, 0},
                                          {"swap_limit", "memory.swap.max", "B", NULL, 0},
                                          {"pids_limit", "pids.max", "tasks", NULL, 0}};
    char path[MAX_GROUP + 64];
    const char *dir = strcmp(group, "/") == 0 ? "" : group;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        put_lowest_limit(p, &limits[i], V2, group);
    rp_put_number(p, p->out, "cpu_weight", RP_FORMAT(path, V2 "%s/cpu.weight", dir), 1, NULL);
    rp_put_cpus(p, p->out, "cpuset", RP_FORMAT(path, V2 "%s/cpuset.cpus.effective", dir));
    rp_put_cpus(p, p->out, "cpuset_nodes", RP_FORMAT(path, V2 "%s/cpuset.mems.effective", dir));
}

/* ---- version 1 ---- */

/* The group of `controller`: its path when that exists here, else the top of its mount. */
static void group_v1(struct rp_probe *p, const struct rp_text *t, const char *mount, const char *file,
                     char group[MAX_GROUP])
{
    char path[MAX_GROUP + 96];
    if (group_path(t, mount + sizeof V2, group) == 0) {
        rename_in_record(p, mount, group);
        if (rp_probe_exists(p, RP_FORMAT(path, "%s%s/%s", mount, strcmp(group, "/") == 0 ? "" : group, file)))
            return;
    }
    snprintf(group, MAX_GROUP, "/");
}

/* What holds for the group of all limits above it, those too that a container does not see. */
static void put_memory_of_all(struct rp_probe *p, const struct limit *l, const char *mount, const char *group,
                              double least)
{
    static const char word[] = "hierarchical_memory_limit ";
    char path[MAX_GROUP + 96];
    int64_t n;
    RP_FORMAT(path, "%s%s/memory.stat", mount, strcmp(group, "/") == 0 ? "" : group);
    RP_TEXT t;
    rp_text_read(&t, p, path);
    const char *line = t.state == RP_STATE_OK ? strstr(t.bytes.data, word) : NULL;
    RP_FREE char *digits =
        line ? rp_asprintf("%.*s", (int)strcspn(line + sizeof word - 1, "\n"), line + sizeof word - 1) : NULL;
    if (digits && rp_parse_count(digits, &n) == 0 && n < (int64_t)1 << 60 && (least < 0 || (double)n < least))
        put_limit(p, l, (double)n, path);
}

static void put_limits_v1(struct rp_probe *p, const struct rp_text *t)
{
    static const struct limit cpu = {"cpu_limit", "cpu.cfs_quota_us", "CPUs", "cpu.cfs_period_us", 1},
                              memory = {"memory_limit", "memory.limit_in_bytes", "B", NULL, 0},
                              pids = {"pids_limit", "pids.max", "tasks", NULL, 0};
    char group[MAX_GROUP], path[MAX_GROUP + 96];
    group_v1(p, t, V2 "/cpu", cpu.file, group);
    put_lowest_limit(p, &cpu, V2 "/cpu", group);
    group_v1(p, t, V2 "/memory", memory.file, group);
    put_memory_of_all(p, &memory, V2 "/memory", group, put_lowest_limit(p, &memory, V2 "/memory", group));
    group_v1(p, t, V2 "/pids", pids.file, group);
    put_lowest_limit(p, &pids, V2 "/pids", group);
    static const char *const sets[][2] = {{"cpuset", "cpuset.cpus"}, {"cpuset_nodes", "cpuset.mems"}};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        group_v1(p, t, V2 "/cpuset", sets[i][1], group);
        rp_put_cpus(p, p->out, sets[i][0],
                    RP_FORMAT(path, V2 "/cpuset%s/%s", strcmp(group, "/") == 0 ? "" : group, sets[i][1]));
    }
}

/* The group's name is hidden, so it may not show in the sources: "/sys/fs/cgroup/<group>/cpu.max",
 * where <group> is this process's own or one above it. */
static void hide_in_sources(json_t *values, int version)
{
    const char *name;
    json_t *value;
    json_object_foreach(values, name, value) {
        const char *source = rp_leaf(value).source, *file = strrchr(source, '/');
        if (strncmp(source, V2 "/", sizeof V2) != 0 || file == source + sizeof V2 - 1)
            continue;
        const char *controller = source + sizeof V2,
                   *dir = controller + (version == 1 ? strcspn(controller, "/") + 1 : 0);
        if (dir > file) /* the top of a controller of version 1 */
            continue;
        RP_FREE char *hidden = rp_asprintf("%.*s<group>%s", (int)(dir - source), source, file);
        json_object_set_new(value, "source", json_string(hidden));
    }
}

void rp_cgroup_limits(struct rp_probe *p)
{
    RP_TEXT t, shown;
    char group[MAX_GROUP] = "/", file[MAX_GROUP + 64];
    rp_text_read_unrecorded(&t, p, "/proc/self/cgroup");
    if (t.state == RP_STATE_OK && memchr(t.bytes.data, 0, t.bytes.size)) {
        t.state = RP_STATE_ERROR;
        t.detail = "not lines of text";
    }
    rp_cgroup_read(&shown, p, "/proc/self/cgroup");
    int has_v1 = t.state == RP_STATE_OK &&
                 (strstr(t.bytes.data, ":cpu,") || strstr(t.bytes.data, ":cpu:") || strstr(t.bytes.data, ":memory:"));
    /* version 1 has a tree for each controller, mostly alike */
    int unified = group_path(&t, has_v1 ? "memory" : "", group) == 0;
    if (t.state != RP_STATE_OK) {
        rp_put_state(p->out, "cgroup_version", &t);
        rp_put_state(p->out, "cgroup", &t);
    } else {
        RP_BUF name = {0};
        redact_path(p, &name, group, strlen(group));
        rp_put_int(p->out, "cgroup_version", has_v1 ? 1 : 2, t.path, NULL);
        rp_put_str(p->out, "cgroup", p->opts->identify ? group : name.data, t.path);
    }
    snprintf(file, sizeof file, V2 "%s/cgroup.controllers", strcmp(group, "/") == 0 ? "" : group);
    if (has_v1) {
        put_limits_v1(p, &t);
    } else {
        if (unified)
            rename_in_record(p, V2, group);
        put_limits_v2(p, unified && rp_probe_exists(p, file) ? group : "/");
    }
    if (!p->opts->identify)
        hide_in_sources(p->out, has_v1 ? 1 : 2);
}
