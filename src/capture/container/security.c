/* What this process may do: capabilities, system call filter, namespaces; and what follows from them about its
 * container. */
#include "capture/container/security.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYS_MODULE = 16, SYS_ADMIN = 21 };
static const char status_path[] = "/proc/self/status";

const char *const rp_capability_names[RP_CAPABILITIES] = {
    /* by number, linux/capability.h */
    "chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap",
    "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
    "sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
    "sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
    "mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
    "checkpoint_restore",
};

/* "000001ffffffffff" */
static int read_set(struct rp_security *s, const char *key, uint64_t *set)
{
    char rest;
    RP_FREE char *v = rp_text_field(&s->status, key, ':');
    if (v && sscanf(v, "%16" SCNx64 "%c", set, &rest) == 1)
        return 0;
    s->garbage |= v != NULL;
    return -1;
}

void rp_security_fini(struct rp_security *s)
{
    rp_text_fini(&s->status);
}

static void redact_status_line(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    static const char *const kept[] = {"CapAmb:",      "CapBnd:",      "CapEff:",     "CapInh:", "CapPrm:",
                                       "Cpus_allowed", "Mems_allowed", "NoNewPrivs:", "Seccomp"};
    int real, effective;
    (void)p;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strncmp(line, kept[i], strlen(kept[i])) == 0)
            rp_buf_printf(out, "%s\n", line);
    if (sscanf(line, "Uid: %d %d", &real, &effective) == 2)
        rp_buf_printf(out, "Uid:\t%d\t%d\n", real ? 65534 : 0, effective ? 65534 : 0);
}

void rp_status_read(struct rp_text *t, const struct rp_probe *p)
{
    rp_text_read_lines(t, p, status_path, redact_status_line);
}

void rp_security_read(struct rp_security *s, const struct rp_probe *p)
{
    RP_TEXT last;
    int64_t n;
    *s = (struct rp_security){.seccomp = -1, .no_new_privs = -1};
    rp_status_read(&s->status, p);
    rp_text_read(&last, p, "/proc/sys/kernel/cap_last_cap");
    s->known = read_set(s, "CapEff", &s->effective) == 0 && read_set(s, "CapBnd", &s->bounding) == 0;
    s->all = ((uint64_t)1 << RP_CAPABILITIES) - 1;
    if (last.state == RP_STATE_OK && rp_parse_count(last.bytes.data, &n) == 0 && n < 63)
        s->all = ((uint64_t)1 << (n + 1)) - 1;
    RP_FREE char *filter = rp_text_field(&s->status, "Seccomp", ':'),
                 *no_new = rp_text_field(&s->status, "NoNewPrivs", ':');
    if (filter && rp_parse_count(filter, &n) == 0 && n <= 2)
        s->seccomp = (int)n;
    if (no_new && rp_parse_count(no_new, &n) == 0 && n <= 1)
        s->no_new_privs = (int)n;
}

int rp_is_privileged(const struct rp_security *s, const struct rp_mounts *m)
{
    static const char *const masks[] = {"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/sysrq-trigger",
                                        "/sys/firmware"};
    const struct rp_mount *sys = rp_mounts_at(m, "/sys");
    char none[8];
    if (!s->known || s->seccomp < 0 || m->text.state != RP_STATE_OK)
        return -1;
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        if (rp_mounts_at(m, masks[i]))
            return 0;
    if (!(s->bounding >> SYS_ADMIN & s->bounding >> SYS_MODULE & 1) || s->seccomp != 0)
        return 0;
    return !sys ? -1 : rp_mount_option(sys->options, "rw", none, sizeof none) == 0;
}

/* The kernel numbers the first namespaces of these kinds (proc_ns.h). Of mount and, before Linux 6.17, network
 * namespaces the first one has whatever number came first, which has been one of those below. */
static const struct {
    const char *name;
    const char *numbers[3];
} first[] = {
    {"cgroup", {"4026531835"}}, {"ipc", {"4026531839"}},  {"mnt", {"4026531840", "4026531841", "4026531832"}},
    {"net", {"4026531833"}},    {"pid", {"4026531836"}},  {"time", {"4026531834"}},
    {"user", {"4026531837"}},   {"uts", {"4026531838"}},
};
enum { NAMESPACES = sizeof first / sizeof *first };

enum rp_namespace rp_namespace_of(const struct rp_probe *p, const char *name, struct rp_text *t)
{
    static const char *const paths[NAMESPACES] = {"/proc/self/ns/cgroup", "/proc/self/ns/ipc", "/proc/self/ns/mnt",
                                                  "/proc/self/ns/net",    "/proc/self/ns/pid", "/proc/self/ns/time",
                                                  "/proc/self/ns/user",   "/proc/self/ns/uts"};
    size_t k = 0;
    while (k < NAMESPACES - 1 && strcmp(first[k].name, name) != 0)
        k++;
    rp_link_read(t, p, paths[k]);
    /* every network namespace has somaxconn, only the first one netdev_max_backlog */
    if (strcmp(name, "net") == 0 && rp_probe_exists(p, "/proc/sys/net/core/somaxconn"))
        return rp_probe_exists(p, "/proc/sys/net/core/netdev_max_backlog") ? RP_NAMESPACE_HOST : RP_NAMESPACE_OWN;
    const char *number = t->state == RP_STATE_OK ? strchr(t->bytes.data, '[') : NULL;
    if (!number)
        return RP_NAMESPACE_UNKNOWN;
    for (size_t i = 0; i < 3 && first[k].numbers[i]; i++)
        if (strncmp(number + 1, first[k].numbers[i], strlen(first[k].numbers[i])) == 0)
            return RP_NAMESPACE_HOST;
    return strcmp(name, "net") == 0 ? RP_NAMESPACE_UNKNOWN : RP_NAMESPACE_OWN;
}

/* ---- the probe ---- */

static void put_set(struct rp_probe *p, const char *name, const struct rp_security *s, uint64_t set)
{
    json_t *list = json_array();
    for (int i = 0; i < 63 && set >> i; i++)
        if (set >> i & 1) {
            char number[16];
            snprintf(number, sizeof number, "cap_%d", i);
            json_array_append_new(list, json_string(i < RP_CAPABILITIES ? rp_capability_names[i] : number));
        }
    if (s->known) {
        rp_put(p->out, name, RP_STATE_OK, list, status_path, NULL, NULL);
        return;
    }
    json_decref(list);
    if (s->garbage)
        rp_put(p->out, name, RP_STATE_ERROR, NULL, status_path, NULL, "not a set of capabilities");
    else
        rp_put_state(p->out, name, &s->status);
}

static void put_namespaces(struct rp_probe *p)
{
    json_t *all = json_object();
    for (size_t i = 0; i < NAMESPACES; i++) {
        RP_TEXT t;
        enum rp_namespace n = rp_namespace_of(p, first[i].name, &t);
        rp_put_found(all, first[i].name,
                     n == RP_NAMESPACE_UNKNOWN ? NULL
                     : n == RP_NAMESPACE_HOST  ? "host"
                                               : "own",
                     &t);
    }
    json_object_set_new(p->out, "namespaces", all);
}

/* The user of a context of SELinux may be a person: "alice_u:role:type:s0" -> "*:role:type:s0" */
static void redact_label(const struct rp_probe *p, struct rp_buf *text)
{
    char *colon = memchr(text->data, ':', text->size);
    if (!colon || p->opts->identify)
        return;
    RP_FREE char *rest = rp_asprintf("*%.*s", (int)(text->size - (size_t)(colon - text->data)), colon);
    text->size = 0;
    rp_buf_puts(text, rest);
}

/* "docker-default (enforce)\n", or a context of SELinux with its NUL */
static void put_profile(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read_as(&t, p, "/proc/self/attr/current", redact_label);
    RP_FREE char *label = t.state == RP_STATE_OK ? rp_trimmed(t.bytes.data, t.bytes.size) : NULL;
    if (t.state == RP_STATE_ERROR) /* EINVAL: no security module answers */
        t.state = RP_STATE_ABSENT;
    rp_put_found(p->out, "profile", label && label[0] ? label : NULL, &t);
}

void rp_probe_security(struct rp_probe *p)
{
    static const char *const filters[] = {"off", "strict", "filter"};
    RP_SECURITY s;
    RP_MOUNTS m;
    struct rp_engine e;
    rp_security_read(&s, p);
    rp_mounts_read(&m, p);
    rp_engine_find(&e, p, &m);
    put_set(p, "capabilities", &s, s.effective);
    put_set(p, "capabilities_bounding", &s, s.bounding);
    rp_put_found(p->out, "seccomp", s.seccomp >= 0 ? filters[s.seccomp] : NULL, &s.status);
    rp_put_found(p->out, "no_new_privileges", s.no_new_privs < 0 ? NULL : s.no_new_privs ? "yes" : "no", &s.status);
    RP_FREE char *uid = rp_text_field(&s.status, "Uid", ':'); /* real, effective, saved, of the file system */
    int real, effective;
    int known = uid && sscanf(uid, "%d %d", &real, &effective) == 2;
    rp_put_found(p->out, "user", !known ? NULL : effective ? "ordinary" : "root", &s.status);
    put_profile(p);
    put_namespaces(p);
    int privileged = rp_is_privileged(&s, &m);
    if (e.name[0] && privileged >= 0)
        rp_put_str(p->out, "privileged", privileged ? "yes" : "no", status_path);
    else if (e.name[0] && s.known && m.text.state == RP_STATE_OK)
        rp_put(p->out, "privileged", RP_STATE_DENIED, NULL, RP_MOUNTS_PATH, NULL,
               "unknown because /sys is not mounted");
    else
        rp_put_state(p->out, "privileged", &s.status); /* no container: absent */
}
