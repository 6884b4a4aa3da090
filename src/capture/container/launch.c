/* The launch: the `docker run` command line that would give a container like this one, flag by flag.
 *
 * A flag is known when the kernel states what it sets (a limit, a size, a mount, a namespace's number), and inferred when it is the
 * usual reason for several things together (--privileged, --net=host, --gpus). What Docker gives by itself makes no flag. Variables make
 * none either: they may come from the image, and the probe of the environment has them. The host's side of a mount cannot be seen from
 * inside, or only relative to its file system: it stays HOST, VOLUME for a volume of the engine. */
#include "base/json.h"
#include "base/text.h"
#include "capture/container/security.h"
#include "capture/privacy/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 96 };

struct launch {
    struct rp_probe *p;
    struct rp_mounts m;
    struct rp_security s;
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

/* name and value are words of the command line; value may be NULL. key tells repeated flags apart. */
static void flag(struct launch *l, json_t *group, const char *key, const char *name, const char *value, const char *source)
{
    RP_BUF text = {0};
    if (json_object_size(l->known) + json_object_size(l->inferred) >= MAX_FLAGS)
        return;
    add_word(&text, name);
    if (value)
        add_word(&text, value);
    rp_put_str(group, key, text.data, source);
    rp_buf_printf(&l->command, " %s", text.data);
}

/* A flag that there may be several of goes by what it is about, so that one more or less leaves the others what they are. */
static void flag_for(struct launch *l, json_t *group, const char *kind, const char *thing, const char *name, const char *value,
                     const char *source)
{
    RP_FREE char *key = rp_asprintf("%s:%.120s", kind, thing);
    rp_clean(key); /* it may be cut within a character */
    for (int n = 2; json_object_get(group, key); n++) {
        RP_FREE char *taken = key;
        key = rp_asprintf("%s:%.120s#%d", kind, thing, n);
        rp_clean(key);
    }
    flag(l, group, key, name, value, source);
}

/* 17179869184 -> "16g" */
static void put_size(char out[32], int64_t bytes)
{
    static const char units[] = "bkmg";
    int u = 0;
    while (u < 3 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, 32, "%lld%c", (long long)bytes, units[u]);
}

static const json_t *value_of(const json_t *values, const char *name)
{
    return json_object_get(json_object_get(values, name), "value");
}

static const char *source_of(const json_t *values, const char *name)
{
    return json_string_value(json_object_get(json_object_get(values, name), "source"));
}

/* ---- namespaces and rights ---- */

static void namespaces(struct launch *l)
{
    static const char *const host[][2] = {{"ipc", "--ipc=host"}, {"pid", "--pid=host"}, {"uts", "--uts=host"}};
    RP_NAMES interfaces = {0};
    RP_TEXT t;
    enum rp_namespace net = rp_namespace_of(l->p, "net", &t);
    rp_names_read(&interfaces, l->p, "/sys/class/net", 256);
    if (net == RP_NAMESPACE_HOST)
        flag(l, l->inferred, "net", "--net=host", NULL, "/proc/sys/net/core");
    else if (net == RP_NAMESPACE_OWN && interfaces.n == 1 && strcmp(interfaces.name[0], "lo") == 0)
        flag(l, l->inferred, "net", "--net=none", NULL, "/sys/class/net");
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) {
        RP_TEXT link;
        if (rp_namespace_of(l->p, host[i][0], &link) == RP_NAMESPACE_HOST)
            flag(l, l->known, host[i][0], host[i][1], NULL, link.path);
    }
    RP_TEXT link;
    enum rp_namespace groups = rp_namespace_of(l->p, "cgroup", &link);
    int version = (int)json_integer_value(value_of(l->container, "cgroup_version")); /* Docker's default depends on it */
    if (version == 2 && groups == RP_NAMESPACE_HOST)
        flag(l, l->known, "cgroupns", "--cgroupns=host", NULL, link.path);
    if (version == 1 && groups == RP_NAMESPACE_OWN)
        flag(l, l->known, "cgroupns", "--cgroupns=private", NULL, link.path);
}

/* The bounding set by the shortest way from what Docker gives: some added and dropped, or from all or none of them. */
static void capabilities(struct launch *l)
{
    const struct rp_security *s = &l->s;
    const uint64_t docker_default = 0xa80425fb;
    uint64_t has = s->bounding & s->all, given = (l->privileged == 1 ? s->all : docker_default) & s->all;
    char name[48];
    if (!s->known)
        return;
    if (__builtin_popcountll(has & ~given) > 14) {
        flag(l, l->known, "cap-add", "--cap-add=ALL", NULL, s->status.path);
        given = s->all;
    } else if (__builtin_popcountll(given & ~has) > 7 && l->privileged != 1) {
        flag(l, l->known, "cap-drop", "--cap-drop=ALL", NULL, s->status.path);
        given = 0;
    }
    for (int i = 0; i < RP_CAPABILITIES; i++) {
        if (((has ^ given) >> i & 1) == 0)
            continue;
        snprintf(name, sizeof name, "--cap-%s=%s", has >> i & 1 ? "add" : "drop", rp_capability_names[i]);
        flag(l, l->known, name + 2, name, NULL, s->status.path);
    }
}

static void rights(struct launch *l)
{
    if (l->privileged == 1)
        flag(l, l->inferred, "privileged", "--privileged", NULL, l->s.status.path);
    capabilities(l);
    if (l->s.seccomp == 0 && l->privileged != 1)
        flag(l, l->known, "seccomp", "--security-opt=seccomp=unconfined", NULL, l->s.status.path);
    if (l->s.no_new_privs == 1)
        flag(l, l->known, "no-new-privileges", "--security-opt=no-new-privileges", NULL, l->s.status.path);
}

/* ---- limits ---- */

/* Docker's --ulimit: one number sets both bounds, -1 is unlimited. */
static void put_ulimit(struct launch *l, const char *name, int64_t soft, int64_t hard)
{
    char key[32], value[96];
    snprintf(key, sizeof key, "ulimit-%s", name);
    int n = snprintf(value, sizeof value, "%s=%lld", name, (long long)soft);
    if (soft != hard)
        snprintf(value + n, sizeof value - (size_t)n, ":%lld", (long long)hard);
    flag(l, l->known, key, "--ulimit", value, "/proc/self/limits");
}

static int64_t bound(const json_t *pair, const char *which)
{
    const json_t *v = value_of(pair, which);
    return json_is_integer(v) ? json_integer_value(v) : json_is_string(v) ? -1 : -2;
}

static void ulimits(struct launch *l)
{
    /* What the daemon leaves behind by itself, by version of it and of systemd: soft, hard. */
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
        const json_t *pair = json_object_get(l->limits, limits[i].name);
        int64_t soft = bound(pair, "soft"), hard = bound(pair, "hard");
        int usual = soft == -2 || hard == -2;
        for (size_t k = 0; k < 5 && (limits[i].usual[k][0] || limits[i].usual[k][1]); k++)
            usual |= soft == limits[i].usual[k][0] && hard == limits[i].usual[k][1];
        if (!usual)
            put_ulimit(l, limits[i].name, soft, hard);
    }
}

/* A size as tmpfs shows it, "65536k"; -1: none. */
static int64_t tmpfs_size(const struct rp_mount *at)
{
    char text[32], *end;
    if (rp_mount_option(at->super, "size", text, sizeof text) < 0)
        return -1;
    long long n = strtoll(text, &end, 10);
    int shift = *end == 'k' ? 10 : *end == 'm' ? 20 : *end == 'g' ? 30 : 0;
    return end == text || n < 0 || n > INT64_MAX >> shift ? -1 : n << shift;
}

static void shared_memory(struct launch *l)
{
    const struct rp_mount *at = rp_mounts_at(&l->m, "/dev/shm");
    char size[32];
    RP_TEXT t = {0};
    if (!at || rp_namespace_of(l->p, "ipc", &t) == RP_NAMESPACE_HOST) /* then it is the host's */
        return;
    int64_t bytes = tmpfs_size(at);
    if (bytes < 0 && json_is_integer(value_of(l->limits, "shm_size")))
        bytes = json_integer_value(value_of(l->limits, "shm_size"));
    if (bytes <= 0 || bytes == 64 << 20 || bytes == 65536000) /* what Docker and Podman give */
        return;
    put_size(size, bytes);
    RP_FREE char *text = rp_asprintf("--shm-size=%s", size);
    flag(l, l->known, "shm-size", text, NULL, RP_MOUNTS_PATH);
}

/* --cpuset-cpus says something only when it is not all there is. */
static void set_of(struct launch *l, const char *name, const char *online_path, const char *option)
{
    RP_TEXT online;
    const char *set = json_string_value(value_of(l->container, name));
    rp_text_read(&online, l->p, online_path);
    if (!set || !set[0] || online.state != RP_STATE_OK)
        return;
    RP_FREE char *all = rp_trimmed(online.bytes.data, online.bytes.size);
    RP_FREE char *text = rp_asprintf("--%s=%s", option, set);
    if (strcmp(set, all) != 0)
        flag(l, l->known, option, text, NULL, source_of(l->container, name));
}

static void groups(struct launch *l)
{
    const json_t *cpus = value_of(l->container, "cpu_limit"), *memory = value_of(l->container, "memory_limit");
    const json_t *pids = value_of(l->container, "pids_limit");
    char text[64], size[32];
    if (json_is_real(cpus))
        flag(l, l->known, "cpus", RP_FORMAT(text, "--cpus=%.6g", json_real_value(cpus)), NULL, source_of(l->container, "cpu_limit"));
    if (json_is_integer(memory)) {
        put_size(size, json_integer_value(memory));
        flag(l, l->known, "memory", RP_FORMAT(text, "--memory=%s", size), NULL, source_of(l->container, "memory_limit"));
    }
    set_of(l, "cpuset", "/sys/devices/system/cpu/online", "cpuset-cpus");
    set_of(l, "cpuset_nodes", "/sys/devices/system/node/online", "cpuset-mems");
    if (json_is_integer(pids)) {
        snprintf(text, sizeof text, "--pids-limit=%lld", (long long)json_integer_value(pids));
        flag(l, l->known, "pids-limit", text, NULL, source_of(l->container, "pids_limit"));
    }
}

/* ---- mounts, devices, variables ---- */

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* What every container has mounted. */
static int is_usual(const char *point)
{
    static const char *const usual[] = {"/", "/etc/hostname", "/etc/hosts", "/etc/podinfo", "/etc/resolv.conf", "/run/.containerenv",
                                        "/run/secrets",
                                        "/proc", "/sys", "/dev", "/var/run/secrets/kubernetes.io/serviceaccount",
                                        "/run/secrets/kubernetes.io/serviceaccount"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(point, usual[i]) == 0)
            return 1;
    return begins(point, "/proc/") || begins(point, "/sys/") || begins(point, "/dev/");
}

/* Files that the NVIDIA runtime mounts from the driver, where a driver's files are: what a user mounts may be called nvidia too. */
static int is_driver_file(const char *point)
{
    static const char *const names[] = {"libcuda.so", "libcudadebugger.so", "libnvcuvid.so", "libnvoptix.so", "nvoptix.bin"};
    static const char *const places[] = {"/usr/", "/lib", "/etc/", "/run/", "/var/run/", "/proc/", "/dev/"};
    const char *base = strrchr(point, '/') + 1;
    int placed = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (begins(base, names[i]))
            return 1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        placed |= begins(point, places[i]);
    return placed && strstr(point, "nvidia") != NULL;
}

/* The little init that the engine puts there. */
static int is_init(const char *point)
{
    return strcmp(point, "/sbin/docker-init") == 0 || strcmp(point, "/run/podman-init") == 0 || strcmp(point, "/dev/init") == 0;
}

static void volume(struct launch *l, const struct rp_mount *at)
{
    char none[8], size[32] = "";
    const char *end = at->root + strlen(at->root);
    int ro = rp_mount_option(at->options, "ro", none, sizeof none) == 0;
    if (strcmp(at->type, "tmpfs") == 0 && strcmp(at->root, "/") == 0) {
        int sized = rp_mount_option(at->super, "size", size, sizeof size) == 0;
        RP_FREE char *text = rp_asprintf("%s%s%s", at->point, sized ? ":size=" : "", size);
        flag_for(l, l->known, "tmpfs", at->point, "--tmpfs", text, RP_MOUNTS_PATH);
        return;
    }
    int of_engine = end - at->root > 6 && strcmp(end - 6, "/_data") == 0;
    const char *host = of_engine ? "VOLUME" : !l->p->opts->identify || strcmp(at->root, "/") == 0 ? "HOST" : at->root;
    RP_FREE char *text = rp_asprintf("%s:%s%s", host, at->point, ro ? ":ro" : "");
    flag_for(l, l->known, "volume", at->point, "-v", text, RP_MOUNTS_PATH);
}

static int by_point(const void *a, const void *b)
{
    return strcmp((*(const struct rp_mount *const *)a)->point, (*(const struct rp_mount *const *)b)->point);
}

static void mounts(struct launch *l)
{
    char none[8];
    RP_FREE const struct rp_mount **volumes = rp_alloc((size_t)(l->m.n + 1) * sizeof(void *));
    size_t n = 0;
    const struct rp_mount *top = rp_mounts_at(&l->m, "/");
    if (top && rp_mount_option(top->options, "ro", none, sizeof none) == 0)
        flag(l, l->known, "read-only", "--read-only", NULL, RP_MOUNTS_PATH);
    if (rp_mounts_at(&l->m, "/dev/console"))
        flag(l, l->known, "tty", "-t", NULL, RP_MOUNTS_PATH);
    for (int i = 0; i < l->m.n; i++) {
        const struct rp_mount *at = &l->m.mount[i];
        if (at->point[0] != '/' || rp_mounts_at(&l->m, at->point) != at)
            continue;
        if (is_driver_file(at->point))
            l->gpu_mounts++;
        else if (is_init(at->point))
            flag(l, l->known, "init", "--init", NULL, RP_MOUNTS_PATH);
        else if (!is_usual(at->point))
            volumes[n++] = at;
    }
    qsort(volumes, n, sizeof(void *), by_point); /* a mount comes before what is mounted in it */
    for (size_t i = 0; i < n; i++)
        volume(l, volumes[i]);
}

static int is_usual_device(const char *name)
{
    static const char *const usual[] = {"console", "core", "fd", "full", "hugepages", "initctl", "log", "mqueue", "null", "ptmx", "pts",
                                        "random", "shm", "stderr", "stdin", "stdout", "termination-log", "tty", "urandom", "zero"};
    int is = begins(name, "nvidia"); /* by --gpus */
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
        is |= strcmp(name, usual[k]) == 0;
    return is;
}

static void devices(struct launch *l)
{
    RP_NAMES d = {0};
    if (l->privileged == 1) /* which brings every device */
        return;
    rp_names_read(&d, l->p, "/dev", 4096);
    for (int i = 0; i < d.n; i++) {
        RP_FREE char *text = rp_asprintf("--device=/dev/%s", d.name[i]);
        if (!is_usual_device(d.name[i]))
            flag_for(l, l->known, "device", d.name[i], text, NULL, "/dev");
    }
}

/* --gpus and the older --runtime=nvidia end in the same variable; images set it too, so that it counts only with the driver there. */
static void gpus(struct launch *l, const struct rp_text *env)
{
    const char *v = rp_environ_get(env, "NVIDIA_VISIBLE_DEVICES");
    int there = l->gpu_mounts || (l->privileged != 1 && rp_probe_exists(l->p, "/dev/nvidiactl"));
    if (!v || !there || !v[0] || strcmp(v, "void") == 0 || strcmp(v, "none") == 0)
        return;
    RP_FREE char *some = rp_asprintf("\"device=%s\"", rp_is_hidden(v) ? "UUID" : v);
    flag(l, l->inferred, "gpus", "--gpus", strcmp(v, "all") == 0 ? "all" : some, env->path);
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

void rp_probe_launch(struct rp_probe *p)
{
    static const char *const shells[] = {"docker", "podman", "containerd", "cri-o"};
    struct launch l = {.p = p, .known = json_object(), .inferred = json_object()};
    struct rp_engine e;
    RP_TEXT env = {0};
    int is_oci = 0;
    rp_mounts_read(&l.m, p);
    rp_engine_find(&e, p, &l.m);
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        is_oci |= strcmp(e.name, shells[i]) == 0;
    if (is_oci) {
        rp_security_read(&l.s, p);
        l.privileged = rp_is_privileged(&l.s, &l.m);
        l.container = values_of(p, "container", rp_probe_container);
        l.limits = values_of(p, "limits", rp_probe_limits);
        rp_environ_read(&env, p);
        rp_buf_puts(&l.command, "docker run");
        namespaces(&l);
        shared_memory(&l);
        ulimits(&l);
        rights(&l);
        groups(&l);
        mounts(&l);
        gpus(&l, &env);
        devices(&l); /* last: they may be more than there is room for */
        const char *image = json_string_value(value_of(l.container, "image"));
        add_word(&l.command, image ? image : "IMAGE");
        rp_put_str(p->out, "command", l.command.data, e.source);
        json_object_set(p->out, "known", l.known);
        json_object_set(p->out, "inferred", l.inferred);
        rp_security_fini(&l.s);
    } else {
        rp_put_absent(p->out, "command", l.m.text.path); /* no container of that kind */
    }
    rp_mounts_fini(&l.m);
    rp_buf_fini(&l.command);
    json_decref(l.container);
    json_decref(l.limits);
    json_decref(l.known);
    json_decref(l.inferred);
}
