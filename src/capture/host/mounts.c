#include "capture/host/mounts.h"
#include "capture/privacy/secrets.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MOUNTS = 4096 };

static const char hidden[] = "<hidden>";

/* ---- redaction ---- */

/* Directory and file names on the host's side that are the system's or an engine's, not a person's. */
static const char *const engine_names[] = {
    "_data", "buildkit", "containerd", "containers", "crio", "daemon", "diff", "docker", "empty", "etc", "etc-hosts",
    "fs", "hostname", "hosts", "io.containerd.grpc.v1.cri", "io.containerd.runtime.v2.task",
    "io.containerd.snapshotter.v1.overlayfs", "k8s.io", "kubelet", "lib", "libpod", "merged", "moby", "mounts",
    "overlay", "overlay-containers", "overlay2", "plugins", "pods", "pts", "rancher", "resolv.conf", "root", "rootfs",
    "run", "sandboxes", "shm", "snapshots", "storage", "termination-log", "userdata", "usr", "var", "volume-subpaths",
    "volumes", "work", "kubernetes.io~configmap", "kubernetes.io~csi", "kubernetes.io~empty-dir",
    "kubernetes.io~local-volume", "kubernetes.io~nfs", "kubernetes.io~projected", "kubernetes.io~secret",
};

/* And on this side, where a container or a user mounts: names of systems, engines and job managers, and plain words
 * that identify no user or project. Numbers at their end are kept: "data2". */
static const char *const point_names[] = {
    ".containerenv", ".dockerenv", ".lock", "acpi", "app", "aux", "bert", "bin", "binfmt_misc", "bios", "boot", "bpf",
    "build", "bus", "cache", "cgroup", "checkpoint", "checkpoints", "code", "config", "configfs", "configs", "console",
    "container", "containers", "containerenv", "corpus", "cpu", "data", "dataset", "datasets", "debug", "dev", "disk",
    "docker", "docker-init", "docker.sock", "efi", "efivars", "etc", "firmware", "fs", "fuse", "gpt", "home",
    "hostname", "hosts", "hugepages", "init", "input", "kcore", "kernel", "keys", "kubernetes.io", "latency_stats",
    "lib", "local", "localtime", "lock", "log", "logs", "loop", "media", "memory", "misc", "mnt", "model", "models",
    "mqueue", "mpi", "munge", "net", "netns", "nfs", "opt", "output", "outputs", "podinfo", "podman-init", "proc",
    "project", "projects", "pstore", "pts", "raid", "repro.yaml", "resnet", "resolv.conf", "results", "rootfs",
    "root", "run", "sbin", "scratch", "secrets", "security", "serviceaccount", "share", "shared", "shm", "slurm",
    "snap", "snapshots", "src", "srv", "ssd", "storage", "store", "sys", "sysrq-trigger", "systemd",
    "termination-log", "test", "timer_list", "tmp", "tracing", "train", "udev", "user", "usr", "var", "volume",
    "volumes", "wd", "work", "workdir", "workspace", "x86_64-linux-gnu", "aarch64-linux-gnu",
};
/* Files that a driver's runtime mounts. */
static const char *const driver_files[] = {"libcuda", "libnv", "nvidia", "nvoptix", "libcudadebugger"};

/* Options that say how a file system works, with values of plain words and numbers. */
static const char *const kept_options[] = {
    "acl", "acregmax", "acregmin", "actimeo", "agcount", "allocsize", "async", "atime", "attr2", "autodefrag",
    "barrier", "cache", "commit", "compress", "compress-force", "data", "datacow", "datasum", "dax", "delalloc",
    "dioread_lock", "dioread_nolock", "dirsync", "discard", "errors", "fsc", "hard", "hidepid", "huge", "inode32",
    "inode64", "journal_async_commit", "journal_checksum", "largeio", "layers", "lazytime", "local_lock", "logbsize",
    "logbufs", "lookupcache", "metacopy", "mode", "mpol", "msize", "nconnect", "noac", "noacl", "noatime", "nobarrier",
    "nodatacow", "nodatasum", "nodelalloc", "nodev", "nodiratime", "nodiscard", "noexec", "nomand", "norelatime",
    "nosuid", "noswap", "nr_blocks", "nr_inodes", "pagesize", "pquota", "prjquota", "proto", "quota", "redirect_dir",
    "relatime", "retrans", "ro", "rsize", "rw", "sec", "size", "soft", "space_cache", "ssd", "strictatime", "stripe",
    "sunit", "swalloc", "swidth", "sync", "timeo", "trans", "usrquota", "grpquota", "vers", "volatile", "wsize", "xino",
};

/* Permitted values of these, also before a colon; numbers are always permitted. */
static const char *const option_words[] = {
    "all",    "always",  "auto",        "bind",       "continue",   "default",   "fd",       "flock",
    "follow", "force",   "fscache",     "interleave", "inode",      "invisible", "journal",  "krb5",
    "krb5i",  "krb5p",   "lazy",        "local",      "loose",      "lz4",       "lzo",      "mmap",
    "never",  "no",      "noaccess",    "none",       "nofollow",   "ntlmssp",   "ntlmsspi", "off",
    "on",     "ordered", "panic",       "pos",        "positive",   "posix",     "prefer",   "ptraceable",
    "rdma",   "rdma6",   "readahead",   "relaxed",    "remount-ro", "shutdown",  "strict",   "sync",
    "async",  "sys",     "tcp",         "tcp6",       "udp",        "udp6",      "unix",     "v1",
    "v2",     "virtio",  "within_size", "writeback",  "yes",        "zlib",      "zstd",     "advise",
    "deny",
};

/* Sources that are names of kinds, not of places. */
static const char *const kept_sources[] = {"cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue",    "none",  "overlay",
                                           "proc",   "rootfs",  "shm",    "sysfs",    "systemd-1", "tmpfs", "udev"};

/* What a device below /dev is called, before its letter or number. */
static const char *const device_names[] = {"bcache", "dasd",     "dm-", "drbd", "fuse", "hd",  "loop", "md",
                                           "mmcblk", "mtdblock", "nbd", "nvme", "pmem", "ram", "rbd",  "root",
                                           "sd",     "sr",       "ubi", "vd",   "xvd",  "zd",  "zram"};

/* FUSE programs; the kernel names other file systems. */
static const char *const fuse_programs[] = {
    "bindfs",     "blobfuse", "blobfuse2", "ceph-fuse", "fuse-overlayfs", "gcsfuse",    "glusterfs", "goofys",
    "gvfsd-fuse", "juicefs",  "JuiceFS",   "lxcfs",     "mergerfs",       "mount-s3",   "ntfs",      "ntfs-3g",
    "overlayfs",  "portal",   "rclone",    "s3fs",      "snapfuse",       "squashfuse", "sshfs",     "vmhgfs-fuse"};

/* Is a part of a path free of identities and secrets? */
static int is_harmless(const char *word, size_t n)
{
    RP_FREE char *text = rp_asprintf("%.*s", (int)n, word);
    /* other escapes are of tabs and ends of lines */
    for (const char *c = text; *c; c++)
        if (*c < ' ' || *c > '~' || (*c == '\\' && strncmp(c, "\\040", 4) != 0))
            return 0;
    return n <= NAME_MAX && !rp_is_secret_name(text) && !rp_is_identity(text);
}

static int is_point_name(const char *word, size_t n)
{
    size_t plain = n;
    for (size_t i = 0; i < sizeof driver_files / sizeof *driver_files; i++)
        if (n >= strlen(driver_files[i]) && memcmp(word, driver_files[i], strlen(driver_files[i])) == 0)
            return 1;
    while (plain > 1 && word[plain - 1] >= '0' && word[plain - 1] <= '9')
        plain--;
    return n <= 2 || RP_IS_IN(point_names, word, n) || RP_IS_IN(point_names, word, plain);
}

/* and 12 hexadecimal digits of its salted hash: mounts stay apart, and the same in both captures */
#define NAME_HIDDEN "name-"

/* What is hidden already stays as it is when it is read from a record. */
static void hide_name(const struct rp_probe *p, struct rp_buf *out, const char *name)
{
    char hash[RP_HIDDEN];
    const size_t begin = strlen(NAME_HIDDEN);
    if (strncmp(name, NAME_HIDDEN, begin) == 0 && strlen(name) == begin + 12 &&
        strspn(name + begin, "0123456789abcdef") == 12) {
        rp_buf_puts(out, name);
        return;
    }
    rp_hide_as(p, "container.mount", name, hash);
    rp_buf_printf(out, NAME_HIDDEN "%.12s", hash + strlen("sha256:"));
}

/* The parts of a path, hiding what is not allowed: all but engine_names (host's side) or point_names (this side), what
 * follows a directory of persons, and what looks like a credential. That of a credential is hidden from --identify
 * too. */
static void redact_path(const struct rp_probe *p, struct rp_buf *out, const char *path, size_t size, int host_side)
{
    const char *end = path + size, *before = path;
    size_t before_len = 0;
    const int open = p->opts->identify;
    const int is_kernels =
        strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/dev/", 5) == 0;
    if (size && *path != '/') { /* "net:[4026531840]" of a namespace, "pipe:[1]" */
        if (open && memchr(path, '[', size))
            rp_buf_add(out, path, size);
        else
            rp_buf_puts(out, hidden);
        return;
    }
    for (const char *at = path; at < end;) {
        const char *word = at + 1, *stop = memchr(word, '/', (size_t)(end - word));
        size_t n = (size_t)((stop ? stop : end) - word);
        RP_FREE char *text = rp_asprintf("%.*s", (int)n, word);
        int keep = !n || RP_IS_IN(engine_names, word, n) || strcmp(text, hidden) == 0;
        if (!keep && open)
            keep = !rp_is_secret_name(text);
        const int named =
            !keep && !open && !host_side && !rp_is_persons_directory(before, before_len) && is_harmless(word, n);
        keep |= named && (is_point_name(word, n) || is_kernels);
        rp_buf_add(out, "/", 1);
        if (named && !keep)
            hide_name(p, out, text);
        else
            rp_buf_add(out, keep ? word : hidden, keep ? n : sizeof hidden - 1);
        before = word;
        before_len = n;
        at = word + n;
    }
}

void rp_hide_path(const struct rp_probe *p, const char *path, char out[PATH_MAX])
{
    RP_BUF text = {0};
    rp_buf_add(&text, "", 0);
    redact_path(p, &text, path, strlen(path), 0);
    snprintf(out, PATH_MAX, "%s", text.data);
}

/* "4096", "65536k", "4.2", "0-3,8" */
static int is_number(const char *s, size_t n)
{
    size_t digits = 0;
    for (size_t i = 0; i < n; i++) {
        int unit = i + 1 == n && strchr("kKmMgGtT%", s[i]);
        if (!(s[i] >= '0' && s[i] <= '9') && !strchr(".-+", s[i]) && !unit)
            return 0;
        digits += s[i] >= '0' && s[i] <= '9';
    }
    return digits > 0 && n <= 20;
}

/* A number, one of option_words, or one and the other as in "zstd:3". */
static int is_kept_value(const char *s, size_t n)
{
    const char *colon = memchr(s, ':', n);
    size_t word = colon ? (size_t)(colon - s) : n;
    return !n || is_number(s, n) || (RP_IS_IN(option_words, s, word) && (!colon || is_number(colon + 1, n - word - 1)));
}

/* "lowerdir=/a:/b:/c" -> "lowerdir=sha256:...,layers=3" */
static void redact_layers(const struct rp_probe *p, struct rp_buf *out, const char *value, size_t n)
{
    RP_FREE char *names = rp_asprintf("%.*s", (int)n, value);
    char hash[RP_HIDDEN];
    int layers = 1;
    for (const char *c = names; (c = strchr(c, ':')); c++)
        layers++;
    rp_hide_as(p, "container.layers", names, hash);
    rp_buf_printf(out, "lowerdir=%s", p->opts->identify && !rp_is_secret_name(names) ? names : hash);
    if (!rp_is_hidden(names))
        rp_buf_printf(out, ",layers=%d", layers);
}

static void redact_options(const struct rp_probe *p, struct rp_buf *out, const char *options, size_t size)
{
    const char *end = options + size;
    size_t begin = out->size;
    for (const char *o = options; o < end;) {
        const char *comma = memchr(o, ',', (size_t)(end - o));
        size_t n = (size_t)((comma ? comma : end) - o);
        const char *eq = memchr(o, '=', n);
        size_t name = eq ? (size_t)(eq - o) : n, value = eq ? n - name - 1 : 0;
        int layers = name == 8 && memcmp(o, "lowerdir", 8) == 0, upper = name == 8 && memcmp(o, "upperdir", 8) == 0;
        if (layers || upper || (RP_IS_IN(kept_options, o, name) && is_kept_value(o + n - value, value))) {
            rp_buf_add(out, ",", out->size > begin);
            if (layers)
                redact_layers(p, out, eq ? eq + 1 : "", value);
            else
                rp_buf_add(out, o, upper ? name + (eq != NULL) : n);
            if (upper && eq)
                redact_path(p, out, eq + 1, value, 1);
        }
        o += n + 1;
    }
    if (out->size == begin)
        rp_buf_puts(out, "-");
}

static int is_device(const char *name, size_t n)
{
    size_t base = 0;
    for (size_t i = 0; i < sizeof device_names / sizeof *device_names; i++)
        if (n >= strlen(device_names[i]) && memcmp(name, device_names[i], strlen(device_names[i])) == 0)
            base = strlen(device_names[i]) > base ? strlen(device_names[i]) : base;
    size_t letters = 0, digits = 0;
    for (size_t i = base; i < n; i++)
        if (name[i] >= '0' && name[i] <= '9')
            digits++;
        else if (name[i] >= 'a' && name[i] <= 'z')
            letters++;
        else
            return 0;
    return base && letters <= 3 && digits <= 6;
}

static void redact_type(struct rp_buf *out, const char *type, size_t n)
{
    const char *dot = memchr(type, '.', n);
    size_t kind = dot ? (size_t)(dot - type) : n;
    if (!dot || RP_IS_IN(fuse_programs, dot + 1, n - kind - 1))
        rp_buf_add(out, type, n);
    else
        rp_buf_printf(out, "%.*s.%s", (int)kind, type, hidden);
}

static void redact_source(const struct rp_probe *p, struct rp_buf *out, const char *source, size_t n,
                          const struct rp_buf *type)
{
    RP_FREE char *whole = rp_asprintf("%.*s", (int)n, source);
    size_t device = n > 5 && memcmp(source, "/dev/", 5) == 0 ? 5 + strcspn(whole + 5, "/") : 0;
    if ((p->opts->identify && !rp_is_secret("", whole)) || rp_buf_is(type, source, n) ||
        RP_IS_IN(kept_sources, source, n) || (device && device == n && is_device(source + 5, n - 5)) ||
        strcmp(whole, hidden) == 0)
        rp_buf_add(out, source, n);
    else if (device && device < n && strncmp(whole, "/dev/mapper/", 12) == 0)
        rp_buf_printf(out, "/dev/mapper/%s", hidden);
    else if (device)
        rp_buf_printf(out, "/dev/%s", hidden);
    else
        rp_buf_puts(out, hidden);
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue", without the optional fields before
 * the dash. */
enum { ID, PARENT, DEVICE, ROOT, POINT, OPTIONS, TYPE, SOURCE, SUPER, FIELDS };

/* The fields of a line and their lengths; 0, or -1 when it is not such a line. */
static int split_line(const char *line, size_t size, const char *field[FIELDS], size_t len[FIELDS])
{
    const char *end = line + size;
    int n = 0, skipping = 0;
    for (const char *p = line; p < end && n < FIELDS;) {
        const char *stop = memchr(p, ' ', (size_t)(end - p));
        size_t word = (size_t)((stop ? stop : end) - p);
        if (n == TYPE && !skipping) {
            skipping = word == 1 && *p == '-';
        } else {
            field[n] = p;
            len[n++] = word;
        }
        p += word + 1;
    }
    return n == FIELDS ? 0 : -1;
}

static void redact_line(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    const char *field[FIELDS];
    size_t len[FIELDS];
    RP_BUF type = {0};
    if (split_line(line, strlen(line), field, len) < 0)
        return;
    for (int i = ID; i <= DEVICE; i++)
        rp_buf_printf(out, "%.*s ", (int)len[i], field[i]);
    redact_path(p, out, field[ROOT], len[ROOT], 1);
    rp_buf_puts(out, " ");
    redact_path(p, out, field[POINT], len[POINT], 0);
    rp_buf_puts(out, " ");
    redact_options(p, out, field[OPTIONS], len[OPTIONS]);
    redact_type(&type, field[TYPE], len[TYPE]);
    rp_buf_printf(out, " - %s ", rp_buf_text(&type));
    redact_source(p, out, field[SOURCE], len[SOURCE], &type);
    rp_buf_puts(out, " ");
    redact_options(p, out, field[SUPER], len[SUPER]);
    rp_buf_puts(out, "\n");
}

/* ---- the table ---- */

/* "\040" -> " ", in place */
static void unescape_field(char *s)
{
    char *to = s;
    for (; *s; s++, to++) {
        *to = *s;
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        }
    }
    *to = 0;
}

void rp_mounts_read(struct rp_mounts *m, const struct rp_probe *p)
{
    const char *field[FIELDS];
    size_t len[FIELDS];
    char *at = NULL;
    *m = (struct rp_mounts){0};
    rp_text_read_lines(&m->text, p, RP_MOUNTS_PATH, redact_line);
    m->mount = m->text.state == RP_STATE_OK ? rp_alloc(MAX_MOUNTS * sizeof *m->mount) : NULL;
    for (char *line; m->n < MAX_MOUNTS && (line = rp_text_line(&m->text, &at));) {
        if (strlen(line) != (size_t)(at - line - 1) || split_line(line, strlen(line), field, len) < 0)
            continue;
        for (int i = DEVICE; i < FIELDS; i++) {
            char *f = line + (field[i] - line);
            f[len[i]] = 0;
            unescape_field(f);
        }
        m->mount[m->n++] = (struct rp_mount){field[DEVICE], field[ROOT],   field[POINT], field[OPTIONS],
                                             field[TYPE],   field[SOURCE], field[SUPER]};
    }
}

void rp_mounts_fini(struct rp_mounts *m)
{
    free(m->mount);
    rp_text_fini(&m->text);
}

const struct rp_mount *rp_mounts_at(const struct rp_mounts *m, const char *point)
{
    for (int i = m->n - 1; i >= 0; i--)
        if (strcmp(m->mount[i].point, point) == 0)
            return &m->mount[i];
    return NULL;
}

const struct rp_mount *rp_mounts_holding(const struct rp_mounts *m, const char *path)
{
    const struct rp_mount *best = NULL;
    size_t best_len = 0;
    for (int i = 0; i < m->n; i++) {
        size_t n = strlen(m->mount[i].point);
        int inside = strcmp(m->mount[i].point, "/") == 0 ||
                     (strncmp(path, m->mount[i].point, n) == 0 && (path[n] == '/' || path[n] == 0));
        if (inside && n >= best_len) {
            best = &m->mount[i];
            best_len = n;
        }
    }
    return best;
}

int rp_mount_option(const char *options, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);
    for (const char *o = options; *o; o += strcspn(o, ","), o += *o == ',') {
        size_t n = strcspn(o, ",");
        if (n >= len && memcmp(o, name, len) == 0 && (n == len || o[len] == '=')) {
            snprintf(out, size, "%.*s", (int)(n == len ? 0 : n - len - 1), o + len + (n != len));
            return 0;
        }
    }
    return -1;
}
