/* The container, if there is one: its engine, its image, its place in Kubernetes, and the limits of its control groups.
 *
 * An engine shows in the names of control groups (not in a cgroup namespace of its own), in where the files it mounts
 * over /etc/hosts and the layers of / lie on the host, in marker files, and
 * in the variable `container` of process 1. */
#include "capture/container/container.h"
#include "capture/privacy/image_name.h"
#include "capture/privacy/variables.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char containerenv[] = "/run/.containerenv", account[] = "/var/run/secrets/kubernetes.io/serviceaccount";

/* ---- the engine ---- */

/* The first word found decides. */
struct sign {
    const char *word, *engine;
};
static const struct sign group_signs[] = {{"cri-containerd", "containerd"},
                                          {"crio-", "cri-o"},
                                          {"libpod", "podman"},
                                          {"docker", "docker"},
                                          {"containerd", "containerd"},
                                          {"lxc", "lxc"},
                                          {"machine.slice", "systemd-nspawn"}};
static const struct sign mount_signs[] = {
    {"docker/containers/", "docker"},  {"io.containerd.grpc.v1.cri", "containerd"},
    {"overlay-containers/", "podman"}, {"io.containerd.snapshotter", "containerd"},
    {"docker/overlay2/", "docker"},    {"containers/storage/overlay/", "podman"}};

static const char *find_sign(const struct sign *list, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(text, list[i].word))
            return list[i].engine;
    return NULL;
}
#define FIND_SIGN(list, text) find_sign(list, sizeof list / sizeof *list, text)

static void set_engine(struct rp_engine *e, const char *name, const char *source)
{
    if (e->name[0])
        return;
    snprintf(e->name, sizeof e->name, "%s", name);
    snprintf(e->source, sizeof e->source, "%s", source);
}

static void ask_groups(struct rp_engine *e, const struct rp_probe *p)
{
    static const char *const paths[] = {"/proc/self/cgroup", "/proc/1/cgroup"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        RP_TEXT t;
        rp_cgroup_read(&t, p, paths[i]);
        if (t.state != RP_STATE_OK)
            continue;
        const char *engine = FIND_SIGN(group_signs, t.bytes.data);
        if (engine)
            set_engine(e, engine, t.path);
        e->kubernetes |= strstr(t.bytes.data, "kubepods") != NULL;
    }
}

static void ask_mounts(struct rp_engine *e, const struct rp_mounts *m)
{
    for (int i = 0; i < m->n; i++) {
        const struct rp_mount *at = &m->mount[i];
        int layers = strcmp(at->point, "/") == 0;
        if (!layers && strncmp(at->point, "/etc/", 5) != 0 && strcmp(at->point, "/dev/termination-log") != 0)
            continue;
        const char *engine = FIND_SIGN(mount_signs, layers ? at->super : at->root);
        if (engine && !layers)
            set_engine(e, engine, RP_MOUNTS_PATH);
        e->kubernetes |= strstr(at->root, "kubelet/pods") != NULL;
    }
    if (rp_mounts_at(m, "/.lock")) /* enroot mounts its lock over itself */
        set_engine(e, "enroot", RP_MOUNTS_PATH);
    const struct rp_mount *top = rp_mounts_at(m, "/");
    const char *engine = top ? FIND_SIGN(mount_signs, top->super) : NULL;
    if (engine)
        set_engine(e, engine, RP_MOUNTS_PATH);
}

/* Only container=... is kept of the variables of process 1. */
static void redact_init(const struct rp_probe *p, struct rp_buf *text)
{
    RP_BUF old = *text;
    (void)p;
    *text = (struct rp_buf){0};
    rp_buf_add(text, "", 0);
    for (const char *v = old.data; v < old.data + old.size; v += strlen(v) + 1)
        if (strncmp(v, "container=", 10) == 0)
            rp_buf_add(text, v, strlen(v) + 1);
}

static void ask_init(struct rp_engine *e, const struct rp_probe *p)
{
    RP_TEXT env, manager;
    rp_text_read_as(&env, p, "/proc/1/environ", redact_init); /* readable by root only */
    rp_text_read(&manager, p, "/run/host/container-manager");
    const char *v = env.state == RP_STATE_OK && env.bytes.size > 10 ? env.bytes.data + 10 : "";
    if (strcmp(v, "oci") != 0 && v[0] && v[strspn(v, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == 0)
        set_engine(e, v, env.path);
    if (manager.state == RP_STATE_OK) {
        RP_FREE char *word = rp_trimmed(manager.bytes.data, manager.bytes.size);
        if (word[0] && word[strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == 0)
            set_engine(e, word, manager.path);
    }
}

void rp_engine_find(struct rp_engine *e, const struct rp_probe *p, const struct rp_mounts *m)
{
    *e = (struct rp_engine){0};
    ask_groups(e, p);
    ask_mounts(e, m);
    e->kubernetes |= rp_probe_exists(p, account);
    ask_init(e, p);
    if (rp_probe_exists(p, "/.dockerenv"))
        set_engine(e, "docker", "/.dockerenv");
    if (rp_probe_exists(p, containerenv))
        set_engine(e, "podman", containerenv);
    if (rp_probe_exists(p, "/.singularity.d"))
        set_engine(e, "apptainer", "/.singularity.d"); /* or Singularity, which it was called before */
    if (e->kubernetes && strcmp(e->name, "podman") == 0) /* both keep containers below containers/storage */
        snprintf(e->name, sizeof e->name, "cri-o");
}

/* ---- the image ---- */

/* The lines engine, image, imageid and rootless of Podman's .containerenv; of the image no registry of the user's. */
static void redact_containerenv(const struct rp_probe *p, struct rp_buf *text)
{
    static const char *const kept[] = {"engine", "imageid", "rootless"};
    RP_BUF out = {0};
    RP_TEXT t = {.path = containerenv, .bytes = *text};
    (void)p;
    rp_buf_add(&out, "", 0);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        RP_FREE char *v = rp_text_field(&t, kept[i], '=');
        if (v)
            rp_buf_printf(&out, "%s=%s\n", kept[i], v);
    }
    RP_FREE char *image = rp_text_field(&t, "image", '=');
    if (image) {
        char *name = image + (image[0] == '"');
        name[strcspn(name, "\"")] = 0;
        RP_FREE char *shown = rp_image_show(name);
        if (shown)
            rp_buf_printf(&out, "image=\"%s\"\n", shown);
    }
    *text = out;
    out = (struct rp_buf){0};
}

/* As Podman shows it, else as REPRO_IMAGE has it: Docker, containerd, CRI-O and enroot show no image inside. */
static void put_image_name(struct rp_probe *p, const struct rp_text *podman, bool contained)
{
    RP_TEXT variables;
    RP_FREE char *quoted = rp_text_field(podman, "image", '='); /* by redact_containerenv() */
    const char *seen = quoted && quoted[0] == '"' ? quoted + 1 : "";
    if (seen[0])
        quoted[strcspn(seen, "\"") + 1] = 0;
    rp_environ_read(&variables, p);
    const char *given = contained ? rp_environ_get(&variables, RP_IMAGE_VARIABLE) : NULL;
    const struct {
        const char *name, *source;
    } words[] = {{seen, podman->path}, {given ? given : "", RP_IMAGE_VARIABLE}};
    size_t n;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *digest = rp_image_digest(words[i].name, &n);
        RP_FREE char *name = rp_asprintf("%.*s", (int)n, words[i].name);
        if (n && !rp_known(p->out, "image"))
            rp_put_str(p->out, "image", name, words[i].source);
        if (digest && !rp_known(p->out, "image_digest"))
            rp_put_str(p->out, "image_digest", digest, words[i].source);
    }
    if (given && !given[0])
        rp_put(p->out, "image_digest", RP_STATE_ERROR, NULL, RP_IMAGE_VARIABLE, NULL, "not NAME[:TAG][@sha256:DIGEST]");
    for (size_t i = 0; i < 2; i++) {
        static const char *const fields[] = {"image", "image_digest"};
        if (!json_object_get(p->out, fields[i]))
            given ? rp_put_absent(p->out, fields[i], RP_IMAGE_VARIABLE) : rp_put_found(p->out, fields[i], NULL, podman);
    }
}

static void put_image(struct rp_probe *p, const struct rp_mounts *m, bool contained)
{
    RP_TEXT t;
    /* a hash, or with --identify the list, of which a part would say nothing */
    char layers[32] = "", names[RP_LINE_MAX + 2] = "";
    int64_t n;
    rp_text_read_as(&t, p, containerenv, redact_containerenv);
    put_image_name(p, &t, contained);
    rp_put_field(p->out, "image_id", &t, "imageid", '=');
    rp_put_field(p->out, "engine_version", &t, "engine", '=');
    const struct rp_mount *top = rp_mounts_at(m, "/");
    if (!top) {
        rp_put_state(p->out, "root_file_system", &m->text);
        return;
    }
    rp_put_str(p->out, "root_file_system", top->type, RP_MOUNTS_PATH);
    if (rp_mount_option(top->super, "layers", layers, sizeof layers) == 0 && rp_parse_count(layers, &n) == 0)
        rp_put_int(p->out, "layers", n, RP_MOUNTS_PATH, NULL);
    if (rp_mount_option(top->super, "lowerdir", names, sizeof names) == 0)
        rp_put_str(p->out, "layers_name", names, RP_MOUNTS_PATH);
}

/* ---- Kubernetes ---- */

/* What a pod can read about itself: its namespace, and the figures and names in a downward volume, by convention. */
static void put_kubernetes(struct rp_probe *p, const struct rp_engine *e)
{
    static const char *const figures[] = {"cpu_limit", "cpu_request", "mem_limit", "mem_request"};
    static const char *const names[] = {"name", "namespace", "nodename", "uid"};
    static const char dir[] = "/etc/podinfo";
    if (!e->kubernetes) {
        rp_put_absent(p->out, "kubernetes", account);
        return;
    }
    json_t *pod = json_object();
    char path[64];
    rp_put_hidden_line(p, pod, "namespace", "/var/run/secrets/kubernetes.io/serviceaccount/namespace");
    for (size_t i = 0; i < 4 && rp_probe_exists(p, dir); i++) {
        rp_put_number(p, pod, figures[i], RP_FORMAT(path, "%s/%s", dir, figures[i]), 1, NULL);
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        if (strcmp(names[i], "namespace") != 0)
            rp_put_hidden_line(p, pod, names[i], path);
    }
    RP_TEXT t;
    rp_cgroup_read(&t, p, "/proc/self/cgroup");
    const char *group = t.state == RP_STATE_OK ? t.bytes.data : "";
    if (strstr(group, "kubepods"))
        rp_put_str(pod, "quality_of_service",
                   strstr(group, "besteffort")  ? "best effort"
                   : strstr(group, "burstable") ? "burstable"
                                                : "guaranteed",
                   t.path);
    else
        rp_put_state(pod, "quality_of_service", &t);
    json_object_set_new(p->out, "kubernetes", pod);
}

void rp_probe_container(struct rp_probe *p)
{
    struct rp_engine e;
    RP_MOUNTS m;
    RP_TEXT t;
    rp_mounts_read(&m, p);
    rp_engine_find(&e, p, &m);
    rp_cgroup_read(&t, p, "/proc/self/cgroup");
    if (e.name[0])
        rp_put_str(p->out, "engine", e.name, e.source);
    else if (t.state == RP_STATE_OK)
        rp_put_str(p->out, "engine", "none seen", t.path);
    else
        rp_put_state(p->out, "engine", &t);
    put_image(p, &m, e.name[0] != 0);
    put_kubernetes(p, &e);
    rp_cgroup_limits(p);
}
