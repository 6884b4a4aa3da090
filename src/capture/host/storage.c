/* Where the data, the results and the temporary files lie: file system, mount options, disks and space below the
 * working directory, the temporary directory and the store; and every disk with its queue. */
#include "base/buf.h"
#include "base/json.h"
#include "capture/host/device.h"
#include "capture/host/mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define BLOCK "/sys/class/block"

enum { MAX_DISKS = 64, MAX_BELOW = 32 };

static const char *const places[] = {"workdir", "temporary", "store"};

/* ---- what only system calls say ---- */

/* The longest part of the path that exists, without links. */
static void existing_part(const char *path, char out[PATH_MAX])
{
    RP_FREE char *part = rp_asprintf("%s%s", *path == '/' ? "" : "./", path);
    while (!realpath(part, out)) {
        char *slash = strrchr(part, '/');
        if (!slash || strcmp(part, "/") == 0) {
            snprintf(out, PATH_MAX, "/");
            return;
        }
        slash[slash == part] = 0;
    }
}

/* {"path": the mount point of a place, which reveals less than the place; "total", "free" in bytes, "files_free"} */
static json_t *query_filesystem(const struct rp_probe *p, const char *place)
{
    char path[PATH_MAX], shown[PATH_MAX];
    struct statvfs s;
    const char *tmp = getenv("TMPDIR");
    RP_FREE char *store = rp_store_path(NULL, NULL);
    if (strcmp(place, "workdir") == 0)
        existing_part(p->opts->workdir ? p->opts->workdir : ".", path);
    else
        existing_part(strcmp(place, "store") == 0 ? store : tmp && *tmp ? tmp : "/tmp", path);
    if (statvfs(path, &s) < 0)
        return NULL;
    struct rp_probe quiet = *p;
    quiet.record = NULL;
    RP_MOUNTS mounts;
    rp_mounts_read(&mounts, &quiet);
    rp_hide_path(p, path, shown);
    const struct rp_mount *at = rp_mounts_holding(&mounts, shown);
    json_t *answer = json_pack("{s:s}", "path", at ? at->point : "/");
    uint64_t unit = s.f_frsize ? s.f_frsize : s.f_bsize;
    if (answer && unit && s.f_blocks && s.f_blocks <= INT64_MAX / unit) {
        json_object_set_new(answer, "total", json_integer((json_int_t)(s.f_blocks * unit)));
        json_object_set_new(answer, "free", json_integer((json_int_t)(s.f_bavail * unit)));
    }
    if (answer && s.f_files) /* btrfs and others have no limit */
        json_object_set_new(answer, "files_free", json_integer((json_int_t)s.f_favail));
    return answer;
}

/* ---- block devices ---- */

/* "sda1" -> "sda", "nvme0n1p2" -> "nvme0n1"; others stay as they are. */
static void whole_disk(const struct rp_probe *p, char name[64])
{
    char path[128];
    if (!rp_probe_exists(p, RP_FORMAT(path, BLOCK "/%s/partition", name)))
        return;
    size_t n = strlen(name);
    while (n > 1 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n > 2 && name[n - 1] == 'p' && name[n - 2] >= '0' && name[n - 2] <= '9')
        n--;
    name[n] = 0;
}

/* Only its name is kept of a block device's uevent: partitions have labels and UUIDs. */
static void keep_name(const struct rp_probe *p, struct rp_buf *out, char *line)
{
    (void)p;
    if (strncmp(line, "DEVNAME=", 8) == 0)
        rp_buf_printf(out, "%s\n", line);
}

/* Name of the block device of a mount, or "". Btrfs and others have a device number of their own and tell the device as
 * the source. */
static void block_device(const struct rp_probe *p, const struct rp_mount *m, char name[64])
{
    char path[128];
    RP_TEXT t = {0};
    *name = 0;
    if (strncmp(m->device, "0:", 2) != 0 && strspn(m->device, "0123456789:") == strlen(m->device) &&
        strlen(m->device) < 24) {
        rp_text_read_lines(&t, p, RP_FORMAT(path, "/sys/dev/block/%s/uevent", m->device), keep_name);
        RP_FREE char *dev = rp_text_field(&t, "DEVNAME", '=');
        if (dev && rp_is_plain_name(dev))
            snprintf(name, 64, "%s", dev);
    } else if (strncmp(m->source, "/dev/", 5) == 0 && strlen(m->source) < 100) {
        rp_link_read(&t, p, m->source); /* /dev/mapper/name -> ../dm-0 */
        const char *target = t.state == RP_STATE_OK ? t.bytes.data : m->source, *last = strrchr(target, '/');
        last = last ? last + 1 : target;
        if (rp_is_plain_name(last))
            snprintf(name, 64, "%s", last);
    }
}

/* The disks that a device is made of: partitions to disks, volumes and arrays to what lies below them. */
static void disks_below(const struct rp_probe *p, const char *device, json_t *list, int *left)
{
    char name[64], path[128];
    RP_DIRLIST slaves = {0};
    whole_disk(p, RP_FORMAT(name, "%s", device));
    rp_dirlist_read(&slaves, p, RP_FORMAT(path, BLOCK "/%s/slaves", name), MAX_BELOW);
    for (int i = 0; i<slaves.n && * left> 0; i++)
        if (rp_is_plain_name(slaves.name[i])) {
            --*left;
            disks_below(p, slaves.name[i], list, left);
        }
    int known = slaves.n > 0 || json_array_size(list) >= MAX_BELOW;
    for (size_t i = 0; i < json_array_size(list); i++)
        known |= strcmp(json_string_value(json_array_get(list, i)), name) == 0;
    if (!known)
        json_array_append_new(list, json_string(name));
}

static void put_scheduler(const struct rp_probe *p, json_t *obj, const char *path)
{
    RP_TEXT t;
    rp_text_read(&t, p, path);
    if (t.state == RP_STATE_OK && !strchr(t.bytes.data, '['))
        rp_put_line(p, obj, "scheduler", path); /* "none", where there is no choice */
    else
        rp_put_selected(p, obj, "scheduler", path);
}

static void put_disk(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    static const struct {
        const char *name, *file, *unit;
        int scale; /* 0: a line of text */
    } facts[] = {{"model", "device/model", NULL, 0},
                 {"size", "size", "B", 512},
                 {"rotational", "queue/rotational", NULL, 1},
                 {"read_ahead", "queue/read_ahead_kb", "B", 1024},
                 {"requests", "queue/nr_requests", NULL, 1},
                 {"request_size_max", "queue/max_sectors_kb", "B", 1024},
                 {"logical_block", "queue/logical_block_size", "B", 1},
                 {"physical_block", "queue/physical_block_size", "B", 1},
                 {"write_cache", "queue/write_cache", NULL, 0}};
    char path[RP_PATH];
    int nvme = strncmp(name, "nvme", 4) == 0;
    if (!rp_probe_exists(p, RP_FORMAT(path, "%s/%s/device", dir, name))) /* partitions, loops and volumes have none */
        return;
    json_t *obj = json_object();
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        snprintf(path, sizeof path, BLOCK "/%s/%s", name, facts[i].file);
        if (facts[i].scale)
            rp_put_optional(p, obj, facts[i].name, path, facts[i].scale, facts[i].unit);
        else
            rp_put_line(p, obj, facts[i].name, path);
    }
    put_scheduler(p, obj, RP_FORMAT(path, BLOCK "/%s/queue/scheduler", name));
    rp_put_line(p, obj, "firmware", RP_FORMAT(path, BLOCK "/%s/device/%s", name, nvme ? "firmware_rev" : "rev"));
    rp_put_hidden_line(p, obj, "serial", RP_FORMAT(path, BLOCK "/%s/%sserial", name, nvme ? "device/" : ""));
    /* nvme: namespace, controller, PCI device */
    snprintf(path, sizeof path, BLOCK "/%s/device%s", name, nvme ? "/device" : "");
    rp_put_device(p, obj, path);
    json_object_set_new(group, name, obj);
}

/* ---- places ---- */

static void put_block(const struct rp_probe *p, json_t *obj, const struct rp_mount *m)
{
    char name[64], path[128];
    block_device(p, m, name);
    if (!*name) {
        /* the expected source of the name */
        const char *source = strncmp(m->device, "0:", 2) == 0 ? RP_MOUNTS_PATH : "/sys/dev/block";
        rp_put_absent(obj, "device", source);
        rp_put_absent(obj, "disks", source);
        rp_put_absent(obj, "rotational", source);
        return;
    }
    json_t *list = json_array();
    int left = MAX_BELOW; /* a made-up machine may turn in circles */
    rp_put_str(obj, "device", name, RP_MOUNTS_PATH);
    disks_below(p, name, list, &left);
    if (!json_array_size(list))
        json_array_append_new(list, json_string(name));
    rp_put(obj, "disks", RP_STATE_OK, list, BLOCK, NULL, NULL);
    whole_disk(p, name);
    rp_put_number(p, obj, "rotational", RP_FORMAT(path, BLOCK "/%s/queue/rotational", name), 1, NULL);
}

static void put_place(struct rp_probe *p, const char *name)
{
    static const char *const from_mount[] = {"mount_point",        "mounted_part", "filesystem", "options",
                                             "filesystem_options", "source",       "device",     "disks",
                                             "rotational"};
    RP_JSON *json = rp_probe_query(p, "place", name, query_filesystem);
    RP_READ(space_answer, answer, json);
    const struct {
        const char *name, *unit;
        int64_t n;
    } from_call[] = {
        {"total", "B", answer.total}, {"free", "B", answer.free}, {"files_free", "files", answer.files_free}};
    RP_MOUNTS mounts;
    rp_mounts_read(&mounts, p);
    json_t *obj = json_object();
    char shown[PATH_MAX];
    if (answer.path)
        rp_hide_path(p, answer.path, shown); /* records of older versions show more */
    const struct rp_mount *m = answer.path ? rp_mounts_holding(&mounts, shown) : NULL;
    if (m) {
        const char *const values[] = {m->point, m->root, m->type, m->options, m->super, m->source};
        for (int i = 0; i < 6; i++)
            rp_put_str(obj, from_mount[i], values[i], RP_MOUNTS_PATH);
        put_block(p, obj, m);
    } else
        for (size_t i = 0; i < sizeof from_mount / sizeof *from_mount; i++)
            rp_put_state(obj, from_mount[i], &mounts.text);
    for (int i = 0; i < 3; i++)
        if (from_call[i].n >= 0)
            rp_put_int(obj, from_call[i].name, from_call[i].n, "statvfs(3)", from_call[i].unit);
        else
            rp_put_absent(obj, from_call[i].name, "statvfs(3)");
    json_object_set_new(p->out, name, obj);
}

void rp_probe_storage(struct rp_probe *p)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        put_place(p, places[i]);
    rp_put_each(p, p->out, "disks", BLOCK, "", MAX_DISKS, put_disk);
}
