/* The launch: a `docker run` command line that would give a container like this one, flag by flag.
 *
 * A flag is known when the kernel reports what it sets: a limit, a size, a mount, a device, a namespace. It is inferred
 * when it is the usual reason for several things: --privileged, --net=host, --gpus. Docker's defaults give no flag.
 * Variables give none either: they may come from the image, and the environment probe has them. The host's side of a
 * mount cannot be seen from inside, or only relative to its file system: it is shown as HOST, or as VOLUME for a volume
 * of the engine. */
#include "base/json.h"
#include "base/text.h"
#include "capture/container/security.h"
#include "capture/privacy/variables.h"
#include "capture/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 96 };

struct docker_launch {
    struct rp_probe *p;
    struct rp_mounts m;
    json_t *container, *limits; /* values of these probes */
    json_t *known, *inferred;   /* flag by key */
    struct rp_buf command;
    int privileged, gpu_mounts;
};

/* ---- flags ---- */

static void add_word(struct rp_buf *out, const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
    rp_buf_puts(out, out->size ? " " : "");
    if (word[0] && word[strspn(word, safe)] == 0) {
        rp_buf_puts(out, word);
        return;
    }
    rp_buf_puts(out, "'");
    for (; *word; word++)
        if (*word == '\'')
            rp_buf_puts(out, "'\\''");
        else
            rp_buf_add(out, word, 1);
    rp_buf_puts(out, "'");
}

/* name and value are words of the command line; value may be NULL. The key "kind:thing" identifies one of several flags
 * of a kind. */
static void add_flag_for(struct docker_launch *l, json_t *group, const char *kind, const char *thing, const char *name,
                         const char *value, const char *source)
{
    RP_BUF text = {0};
    RP_FREE char *key = rp_asprintf("%s%s%.120s", kind, *thing ? ":" : "", thing);
    rp_sanitize(key); /* it may be cut within a character */
    if (json_object_size(l->known) + json_object_size(l->inferred) >= MAX_FLAGS)
        return;
    add_word(&text, name);
    if (value)
        add_word(&text, value);
    rp_put_str(group, key, text.data, source);
    rp_buf_printf(&l->command, " %s", text.data);
}

static void add_flag(struct docker_launch *l, json_t *group, const char *key, const char *name, const char *value,
                     const char *source)
{
    add_flag_for(l, group, key, "", name, value, source);
}

/* 17179869184 -> "16g" */
static void format_size(char out[32], int64_t bytes)
{
    static const char units[] = "bkmg";
    int u = 0;
    for (; u < 3 && bytes && bytes % 1024 == 0; u++)
        bytes /= 1024;
    snprintf(out, 32, "%lld%c", (long long)bytes, units[u]);
}

/* ---- namespaces and limits ---- */

static void add_namespaces(struct docker_launch *l)
{
    static const char *const names[][2] = {{"ipc", "--ipc=host"}, {"pid", "--pid=host"}, {"uts", "--uts=host"}};
    RP_TEXT t;
    if (rp_namespace_of(l->p, "net", &t) == RP_NAMESPACE_HOST)
        add_flag(l, l->inferred, "net", "--net=host", NULL, "/proc/sys/net/core");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        RP_TEXT link;
        if (rp_namespace_of(l->p, names[i][0], &link) == RP_NAMESPACE_HOST)
            add_flag(l, l->known, names[i][0], names[i][1], NULL, link.path);
    }
}

/* A bound of `ulimit`: -1 is unlimited, -2 is not known. */
static int64_t bound_of(const json_t *pair, const char *which)
{
    const json_t *v = rp_known(pair, which);
    return json_is_integer(v) ? json_integer_value(v) : json_is_string(v) ? -1 : -2;
}

static void add_ulimits(struct docker_launch *l)
{
    /* Defaults of the daemon, by version of it and of systemd: soft, hard. They give no flag. */
    static const struct {
        const char *name;
        int64_t usual[5][2];
    } limits[] = {
        {"memlock", {{65536, 65536}, {8388608, 8388608}}},
        {"stack", {{8388608, -1}}},
        {"nofile", {{1048576, 1048576}, {1073741816, 1073741816}, {524288, 524288}, {1024, 524288}, {1024, 1048576}}},
        {"core", {{-1, -1}, {0, -1}}},
        {"nproc", {{-1, -1}}},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const json_t *pair = rp_value_at(l->limits, limits[i].name);
        int64_t soft = bound_of(pair, "soft"), hard = bound_of(pair, "hard");
        int usual = soft == -2 || hard == -2;
        for (size_t k = 0; k < 5 && (limits[i].usual[k][0] || limits[i].usual[k][1]); k++)
            usual |= soft == limits[i].usual[k][0] && hard == limits[i].usual[k][1];
        if (usual)
            continue;
        RP_FREE char *key = rp_asprintf("ulimit-%s", limits[i].name);
        RP_FREE char *value = soft == hard
                                  ? rp_asprintf("%s=%lld", limits[i].name, (long long)soft)
                                  : rp_asprintf("%s=%lld:%lld", limits[i].name, (long long)soft, (long long)hard);
        add_flag(l, l->known, key, "--ulimit", value, "/proc/self/limits");
    }
}

static void add_shared_memory(struct docker_launch *l)
{
    const struct rp_mount *at = rp_mounts_at(&l->m, "/dev/shm");
    char text[32], *end = text;
    RP_TEXT t = {0};
    if (!at || rp_namespace_of(l->p, "ipc", &t) == RP_NAMESPACE_HOST) /* then it is the host's */
        return;
    /* as tmpfs shows it, "65536k" */
    double size = rp_mount_option(at->super, "size", text, sizeof text) == 0 ? strtod(text, &end) : 0;
    if (end != text)
        size *= *end == 'k' ? 1 << 10 : *end == 'm' ? 1 << 20 : *end == 'g' ? 1 << 30 : 1;
    else
        rp_known_number(l->limits, "shm_size", &size);
    if (!(size > 0 && size < 0x1p62) || size == 64 << 20 || size == 65536000) /* the defaults of Docker and Podman */
        return;
    format_size(text, (int64_t)size);
    RP_FREE char *flag = rp_asprintf("--shm-size=%s", text);
    add_flag(l, l->known, "shm-size", flag, NULL, RP_MOUNTS_PATH);
}

/* Limits of the control group; a list of all processors or nodes is none. */
static void add_cgroup_limits(struct docker_launch *l)
{
    static const struct {
        const char *value, *option, *all;
    } rows[] = {{"cpu_limit", "cpus", NULL},
                {"memory_limit", "memory", NULL},
                {"cpuset", "cpuset-cpus", "/sys/devices/system/cpu/online"},
                {"cpuset_nodes", "cpuset-mems", "/sys/devices/system/node/online"},
                {"pids_limit", "pids-limit", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *v = rp_known(l->container, rows[i].value);
        const char *source = rp_leaf(rp_value_at(l->container, rows[i].value)).source;
        char text[32] = "";
        RP_TEXT online = {.state = RP_STATE_ABSENT};
        if (json_is_real(v))
            snprintf(text, sizeof text, "%.6g", json_real_value(v));
        else if (json_is_integer(v) && strcmp(rows[i].option, "memory") == 0)
            format_size(text, json_integer_value(v));
        else if (json_is_integer(v))
            snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
        if (rows[i].all)
            rp_text_read(&online, l->p, rows[i].all);
        RP_FREE char *all = rp_trimmed(rp_buf_text(&online.bytes), online.bytes.size);
        const char *set = rows[i].all && *all ? json_string_value(v) : NULL, *shown = set ? set : text;
        RP_FREE char *flag = rp_asprintf("--%s=%s", rows[i].option, shown);
        if (*shown && strcmp(shown, all) != 0)
            add_flag(l, l->known, rows[i].option, flag, NULL, source);
    }
}

/* ---- mounts and devices ---- */

static int begins_with(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Mounts of every container. */
static int is_usual_mount(const char *point)
{
    static const char *const usual[] = {"/", "/etc/hostname", "/etc/hosts", "/etc/podinfo", "/etc/resolv.conf",
                                        "/run/.containerenv", "/run/secrets", "/proc", "/sys", "/dev",
                                        "/var/run/secrets/kubernetes.io/serviceaccount",
                                        "/run/secrets/kubernetes.io/serviceaccount", "/sbin/docker-init",
                                        "/run/podman-init"};
    return RP_IS_IN(usual, point, strlen(point)) || begins_with(point, "/proc/") || begins_with(point, "/sys/") ||
           begins_with(point, "/dev/");
}

/* Files that the NVIDIA runtime mounts from the driver, in the places of a driver's files: a user's mount may be called
 * nvidia too. */
static int is_driver_file(const char *point)
{
    static const char *const names[] = {"libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvoptix.so",
                                        "nvoptix.bin"};
    static const char *const places[] = {"/usr/", "/lib", "/etc/", "/run/", "/var/run/", "/proc/", "/dev/"};
    const char *base = strrchr(point, '/') + 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins_with(base, names[i]))
            return 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (begins_with(point, places[i]) && strstr(point, "nvidia"))
            return 1;
    return 0;
}

static void add_volume(struct docker_launch *l, const struct rp_mount *at)
{
    char none[8], size[32] = "";
    const char *end = at->root + strlen(at->root);
    int ro = rp_mount_option(at->options, "ro", none, sizeof none) == 0;
    if (strcmp(at->type, "tmpfs") == 0 && strcmp(at->root, "/") == 0) {
        int sized = rp_mount_option(at->super, "size", size, sizeof size) == 0;
        RP_FREE char *text = rp_asprintf("%s%s%s", at->point, sized ? ":size=" : "", size);
        add_flag_for(l, l->known, "tmpfs", at->point, "--tmpfs", text, RP_MOUNTS_PATH);
        return;
    }
    int of_engine = end - at->root > 6 && strcmp(end - 6, "/_data") == 0;
    const char *host = of_engine ? "VOLUME" : !l->p->opts->identify || strcmp(at->root, "/") == 0 ? "HOST" : at->root;
    RP_FREE char *text = rp_asprintf("%s:%s%s", host, at->point, ro ? ":ro" : "");
    add_flag_for(l, l->known, "volume", at->point, "-v", text, RP_MOUNTS_PATH);
}

static int by_point(const void *a, const void *b)
{
    return strcmp((*(const struct rp_mount *const *)a)->point, (*(const struct rp_mount *const *)b)->point);
}

static void add_mounts(struct docker_launch *l)
{
    char none[8];
    RP_FREE const struct rp_mount **volumes = rp_alloc((size_t)(l->m.n + 1) * sizeof(void *));
    size_t n = 0;
    const struct rp_mount *top = rp_mounts_at(&l->m, "/");
    if (top && rp_mount_option(top->options, "ro", none, sizeof none) == 0)
        add_flag(l, l->known, "read-only", "--read-only", NULL, RP_MOUNTS_PATH);
    for (int i = 0; i < l->m.n; i++) {
        const struct rp_mount *at = &l->m.mount[i];
        if (at->point[0] != '/' || rp_mounts_at(&l->m, at->point) != at)
            continue;
        if (is_driver_file(at->point))
            l->gpu_mounts++;
        else if (!is_usual_mount(at->point))
            volumes[n++] = at;
    }
    qsort(volumes, n, sizeof(void *), by_point); /* a mount before the mounts in it */
    for (size_t i = 0; i < n; i++)
        add_volume(l, volumes[i]);
}

static void add_devices(struct docker_launch *l)
{
    static const char *const usual[] = {
        "console", "core", "fd",     "full",  "hugepages", "initctl",         "log", "mqueue",  "null", "ptmx", "pts",
        "random",  "shm",  "stderr", "stdin", "stdout",    "termination-log", "tty", "urandom", "zero"};
    RP_DIRLIST d = {0};
    if (l->privileged == 1) /* which gives every device */
        return;
    rp_dirlist_read(&d, l->p, "/dev", 4096);
    for (int i = 0; i < d.n; i++) {
        RP_FREE char *text = rp_asprintf("--device=/dev/%s", d.name[i]);
        if (!begins_with(d.name[i], "nvidia") && !RP_IS_IN(usual, d.name[i], strlen(d.name[i]))) /* nvidia: by --gpus */
            add_flag_for(l, l->known, "device", d.name[i], text, NULL, "/dev");
    }
}

/* --gpus and the older --runtime=nvidia set the same variable. Images set it too, so it counts only where the driver is
 * present. */
static void add_gpus(struct docker_launch *l)
{
    RP_TEXT env = {0};
    rp_environ_read(&env, l->p);
    const char *v = rp_environ_get(&env, "NVIDIA_VISIBLE_DEVICES");
    int there = l->gpu_mounts || (l->privileged != 1 && rp_probe_exists(l->p, "/dev/nvidiactl"));
    if (!v || !there || !v[0] || strcmp(v, "void") == 0 || strcmp(v, "none") == 0)
        return;
    RP_FREE char *some = rp_asprintf("\"device=%s\"", rp_is_hidden(v) ? "UUID" : v);
    add_flag(l, l->inferred, "gpus", "--gpus", strcmp(v, "all") == 0 ? "all" : some, env.path);
}

/* ---- the probe ---- */

static json_t *values_of(const struct rp_probe *p, const char *name, void (*run)(struct rp_probe *))
{
    struct rp_probe other = *p;
    other.name = name;
    other.out = json_object();
    run(&other);
    return other.out;
}

static void put_launch(struct docker_launch *l, const char *source)
{
    RP_SECURITY s;
    rp_security_read(&s, l->p);
    l->privileged = rp_is_privileged(&s, &l->m);
    l->container = values_of(l->p, "container", rp_probe_container);
    l->limits = values_of(l->p, "limits", rp_probe_limits);
    rp_buf_puts(&l->command, "docker run");
    add_namespaces(l);
    add_shared_memory(l);
    add_ulimits(l);
    if (l->privileged == 1)
        add_flag(l, l->inferred, "privileged", "--privileged", NULL, s.status.path);
    add_cgroup_limits(l);
    add_mounts(l);
    add_gpus(l);
    add_devices(l); /* last: they may be more than there is room for */
    const char *image = rp_known_text(l->container, "image"), *digest = rp_known_text(l->container, "image_digest");
    RP_FREE char *name = rp_asprintf("%s%s%s", image ? image : "IMAGE", digest ? "@sha256:" : "", digest ? digest : "");
    add_word(&l->command, name);
    rp_put_str(l->p->out, "command", l->command.data, source);
    json_object_set(l->p->out, "known", l->known);
    json_object_set(l->p->out, "inferred", l->inferred);
    rp_buf_fini(&l->command);
    json_decref(l->container);
    json_decref(l->limits);
}

void rp_probe_launch(struct rp_probe *p)
{
    static const char *const engines[] = {"docker", "podman", "containerd", "cri-o"};
    struct docker_launch l = {.p = p, .known = json_object(), .inferred = json_object()};
    struct rp_engine e;
    rp_mounts_read(&l.m, p);
    rp_engine_find(&e, p, &l.m);
    if (RP_IS_IN(engines, e.name, strlen(e.name)))
        put_launch(&l, e.source);
    else
        rp_put_absent(p->out, "command", l.m.text.path); /* not in a container of these engines */
    rp_mounts_fini(&l.m);
    json_decref(l.known);
    json_decref(l.inferred);
}
