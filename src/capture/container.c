/* The container, if there is one, and the limits of the control groups this process is in.
 *
 * /proc/self/cgroup has "0::/path" for version 2 and "4:cpu,cpuacct:/path" for version 1. The groups are looked for under
 * /sys/fs/cgroup (version 1: /sys/fs/cgroup/<controller>); when the path does not exist there, as in a container that sees only its
 * own part of the tree, the top of the mount is this process's group. Limits of version 2 are the least on the way to the top. */
#include "capture/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define V2 "/sys/fs/cgroup"

enum { MAX_GROUP = 512 };

/* The path of the group of `controller` ("" for version 2), cut out of the text; 0 or -1. */
static int group_path(const struct rp_text *t, const char *controller, char out[MAX_GROUP])
{
    const char *p = t->state == RP_STATE_OK ? t->bytes.data : "";
    while (*p) {
        const char *stop = strchr(p, '\n');
        size_t line = stop ? (size_t)(stop - p) : strlen(p);
        const char *names = memchr(p, ':', line), *path = names ? memchr(names + 1, ':', line - (size_t)(names + 1 - p)) : NULL;
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

/* ---- version 2 ---- */

/* Least value of a file "max" or number, from `group` up to the top of the mount; *source is where it was found. */
static void least_limit(struct rp_probe *p, const char *name, const char *group, const char *file, const char *unit)
{
    char path[MAX_GROUP + 64], dir[MAX_GROUP], least_path[MAX_GROUP + 64] = "";
    int64_t least = -1, n;
    snprintf(dir, sizeof dir, "%s", strcmp(group, "/") == 0 ? "" : group);
    snprintf(path, sizeof path, V2 "%s/%s", dir, file);
    rp_put_limit(p, p->out, name, path, unit);
    for (;;) {
        RP_TEXT t;
        snprintf(path, sizeof path, V2 "%s/%s", dir, file);
        rp_text_read(&t, p, path);
        if (t.state == RP_STATE_OK && rp_parse_count(t.bytes.data, &n) == 0 && (least < 0 || n < least)) {
            least = n;
            snprintf(least_path, sizeof least_path, "%s", path);
        }
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    if (least >= 0)
        rp_put_int(p->out, name, least, least_path, unit);
}

/* cpu.max is "quota period" or "max period", in microseconds: processors = quota / period. */
static int read_cpu_max(struct rp_probe *p, const char *path, double *cpus, enum rp_state *state)
{
    RP_TEXT t;
    char quota[32];
    long long period = 0;
    rp_text_read(&t, p, path);
    *state = t.state;
    if (t.state != RP_STATE_OK)
        return -1;
    int64_t q = 0;
    if (sscanf(t.bytes.data, "%31s %lld", quota, &period) != 2 || period <= 0 ||
        (strcmp(quota, "max") != 0 && rp_parse_count(quota, &q) < 0)) {
        *state = RP_STATE_ERROR;
        return -1;
    }
    *cpus = strcmp(quota, "max") == 0 ? -1 : (double)q / (double)period;
    return 0;
}

static void cpu_limit_v2(struct rp_probe *p, const char *group)
{
    char path[MAX_GROUP + 64], dir[MAX_GROUP], first[MAX_GROUP + 64], least_path[MAX_GROUP + 64] = "";
    double least = -1, cpus;
    enum rp_state state, first_state = RP_STATE_ABSENT;
    snprintf(dir, sizeof dir, "%s", strcmp(group, "/") == 0 ? "" : group);
    snprintf(first, sizeof first, V2 "%s/cpu.max", dir);
    for (int i = 0;; i++) {
        snprintf(path, sizeof path, V2 "%s/cpu.max", dir);
        if (read_cpu_max(p, path, &cpus, &state) == 0 && cpus >= 0 && (least < 0 || cpus < least)) {
            least = cpus;
            snprintf(least_path, sizeof least_path, "%s", path);
        }
        if (i == 0)
            first_state = state;
        char *slash = strrchr(dir, '/');
        if (!slash)
            break;
        *slash = 0;
    }
    if (least >= 0)
        rp_put_real(p->out, "cpu_limit", least, least_path, "CPUs");
    else if (first_state == RP_STATE_OK)
        rp_put_str(p->out, "cpu_limit", "max", first);
    else
        rp_put(p->out, "cpu_limit", first_state, NULL, first, "CPUs", first_state == RP_STATE_ERROR ? "not 'quota period'" : NULL);
}

static void version_2(struct rp_probe *p, const char *group)
{
    static const char *const limits[][3] = {{"memory_limit", "memory.max", "B"},
                                            {"memory_high", "memory.high", "B"},
                                            {"swap_limit", "memory.swap.max", "B"},
                                            {"pids_limit", "pids.max", "tasks"}};
    char path[MAX_GROUP + 64];
    const char *dir = strcmp(group, "/") == 0 ? "" : group;
    cpu_limit_v2(p, group);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        least_limit(p, limits[i][0], group, limits[i][1], limits[i][2]);
    snprintf(path, sizeof path, V2 "%s/cpu.weight", dir);
    rp_put_number(p, p->out, "cpu_weight", path, 1, NULL);
    snprintf(path, sizeof path, V2 "%s/cpuset.cpus.effective", dir);
    rp_put_cpus(p, p->out, "cpuset", path);
    snprintf(path, sizeof path, V2 "%s/cpuset.mems.effective", dir);
    rp_put_cpus(p, p->out, "cpuset_nodes", path);
}

/* ---- version 1 ---- */

/* Directory of the group of `controller`: its path when that exists here, else the top of its mount. */
static void directory_v1(struct rp_probe *p, const struct rp_text *t, const char *controller, const char *file, char out[MAX_GROUP + 64])
{
    char group[MAX_GROUP];
    if (group_path(t, controller, group) == 0) {
        snprintf(out, MAX_GROUP + 64, V2 "/%s%s/%s", controller, strcmp(group, "/") == 0 ? "" : group, file);
        if (rp_probe_exists(p, out))
            return;
    }
    snprintf(out, MAX_GROUP + 64, V2 "/%s/%s", controller, file);
}

/* A quota of -1 and a memory limit of about 2^63 are version 1's ways to say none. */
static void version_1(struct rp_probe *p, const struct rp_text *t)
{
    char quota_path[MAX_GROUP + 64], period_path[MAX_GROUP + 64], path[MAX_GROUP + 64];
    directory_v1(p, t, "cpu", "cpu.cfs_quota_us", quota_path);
    directory_v1(p, t, "cpu", "cpu.cfs_period_us", period_path);
    RP_TEXT quota, period;
    rp_text_read(&quota, p, quota_path);
    rp_text_read(&period, p, period_path);
    int64_t q, us;
    if (quota.state != RP_STATE_OK)
        rp_put_state(p->out, "cpu_limit", &quota);
    else if (strncmp(quota.bytes.data, "-1", 2) == 0)
        rp_put_str(p->out, "cpu_limit", "max", quota_path);
    else if (rp_parse_count(quota.bytes.data, &q) == 0 && period.state == RP_STATE_OK && rp_parse_count(period.bytes.data, &us) == 0 &&
             us > 0)
        rp_put_real(p->out, "cpu_limit", (double)q / (double)us, quota_path, "CPUs");
    else
        rp_put(p->out, "cpu_limit", RP_STATE_ERROR, NULL, quota_path, "CPUs", "not a quota and a period");

    directory_v1(p, t, "memory", "memory.limit_in_bytes", path);
    rp_put_limit(p, p->out, "memory_limit", path, "B");
    if (json_integer_value(json_object_get(json_object_get(p->out, "memory_limit"), "value")) >= (json_int_t)1 << 60)
        rp_put_str(p->out, "memory_limit", "max", path);
    directory_v1(p, t, "cpuset", "cpuset.cpus", path);
    rp_put_cpus(p, p->out, "cpuset", path);
    directory_v1(p, t, "cpuset", "cpuset.mems", path);
    rp_put_cpus(p, p->out, "cpuset_nodes", path);
}

/* ---- which container ---- */

static void runtime(struct rp_probe *p, const struct rp_text *cgroup)
{
    RP_TEXT init, env;
    static const char *const words[] = {"kubepods", "docker", "libpod", "containerd", "lxc", "machine.slice"};
    static const char *const names[] = {"kubernetes", "docker", "podman", "containerd", "lxc", "systemd-nspawn"};
    rp_text_read(&init, p, "/proc/1/cgroup");
    rp_text_read(&env, p, "/proc/1/environ"); /* container=lxc; readable by root only */
    const char *found = NULL, *source = cgroup->path;
    for (size_t i = 0; i < 6 && !found; i++) {
        if ((cgroup->state == RP_STATE_OK && strstr(cgroup->bytes.data, words[i])) ||
            (init.state == RP_STATE_OK && strstr(init.bytes.data, words[i])))
            found = names[i];
    }
    if (!found && rp_probe_exists(p, "/.dockerenv")) {
        found = "docker";
        source = "/.dockerenv";
    } else if (!found && rp_probe_exists(p, "/run/.containerenv")) {
        found = "podman";
        source = "/run/.containerenv";
    }
    for (char *v = env.bytes.data; !found && v && v < env.bytes.data + env.bytes.size; v += strlen(v) + 1)
        if (strncmp(v, "container=", 10) == 0 && v[10]) {
            rp_put_str(p->out, "runtime", v + 10, env.path);
            return;
        }
    if (found)
        rp_put_str(p->out, "runtime", found, source);
    else if (cgroup->state == RP_STATE_OK)
        rp_put_str(p->out, "runtime", "none seen", source);
    else
        rp_put_state(p->out, "runtime", cgroup);
}

/* The group's name is hidden, so it may not show in the sources: "/sys/fs/cgroup/<group>/cpu.max",
 * where <group> is this process's own or one above it. */
static void hide_in_sources(json_t *values)
{
    const char *name;
    json_t *value;
    json_object_foreach (values, name, value) {
        const char *source = json_string_value(json_object_get(value, "source")), *file = strrchr(source, '/');
        if (strncmp(source, V2 "/", sizeof V2) != 0 || file == source + sizeof V2 - 1)
            continue;
        int v1 = strncmp(file, "/memory.limit_", 14) == 0 || strncmp(file, "/cpu.cfs_", 9) == 0 || strcmp(file, "/cpuset.cpus") == 0 ||
                 strcmp(file, "/cpuset.mems") == 0;
        const char *dir = source + sizeof V2;
        dir += v1 ? strcspn(dir, "/") + 1 : 0;
        if (dir > file) /* the top of a controller of version 1 */
            continue;
        RP_FREE char *hidden = rp_asprintf("%.*s<group>%s", (int)(dir - source), source, file);
        json_object_set_new(value, "source", json_string(hidden));
    }
}

void rp_probe_container(struct rp_probe *p)
{
    RP_TEXT t;
    char group[MAX_GROUP] = "/";
    rp_text_read(&t, p, "/proc/self/cgroup");
    if (t.state == RP_STATE_OK && memchr(t.bytes.data, 0, t.bytes.size)) {
        t.state = RP_STATE_ERROR;
        t.detail = "not lines of text";
    }
    runtime(p, &t);
    int unified = group_path(&t, "", group) == 0;
    int has_v1 =
        t.state == RP_STATE_OK && (strstr(t.bytes.data, ":cpu,") || strstr(t.bytes.data, ":cpu:") || strstr(t.bytes.data, ":memory:"));
    if (t.state != RP_STATE_OK) {
        rp_put_state(p->out, "cgroup_version", &t);
        rp_put_state(p->out, "cgroup", &t);
    } else {
        rp_put_int(p->out, "cgroup_version", has_v1 ? 1 : 2, t.path, NULL);
        rp_put_hidden(p, p->out, "cgroup", group, t.path);
    }
    char probe[MAX_GROUP + 64];
    snprintf(probe, sizeof probe, V2 "%s/cgroup.controllers", strcmp(group, "/") == 0 ? "" : group);
    if (has_v1)
        version_1(p, &t);
    else
        version_2(p, unified && rp_probe_exists(p, probe) ? group : "/");
    if (!p->opts->identify)
        hide_in_sources(p->out);
}
