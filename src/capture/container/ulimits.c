/* What this process may take: the limits of processes, shared memory, and the kernel's
 * own numbers of tasks and maps. */
#include "capture/host/mounts.h"

#include <stdio.h>
#include <string.h>

static const char limits_path[] = "/proc/self/limits", shm[] = "/dev/shm";

/* "8388608" or "unlimited" */
static void put_bound(json_t *obj, const char *name, const char *word, const char *unit)
{
    int64_t n;
    if (strcmp(word, "unlimited") == 0)
        rp_put_str(obj, name, word, limits_path);
    else if (rp_parse_count(word, &n) == 0)
        rp_put_int(obj, name, n, limits_path, unit);
    else
        rp_put(obj, name, RP_STATE_ERROR, NULL, limits_path, unit, "neither a number nor 'unlimited'");
}

/* "Max locked memory         8388608              8388608              bytes     " */
static void put_bounds(struct rp_probe *p)
{
    static const char *const rows[][3] = {{"memlock", "Max locked memory", "B"}, {"stack", "Max stack size", "B"},
                                          {"nofile", "Max open files", "files"}, {"core", "Max core file size", "B"},
                                          {"nproc", "Max processes", "processes"}, {"as", "Max address space", "B"}};
    RP_TEXT t;
    rp_text_read(&t, p, limits_path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char soft[32] = "", hard[32] = "";
        const char *row = t.state == RP_STATE_OK ? strstr(t.bytes.data, rows[i][1]) : NULL;
        if (!row || sscanf(row + strlen(rows[i][1]), "%31s %31s", soft, hard) != 2) {
            rp_put_invalid(p->out, rows[i][0], &t, rows[i][2], "no such row");
        } else {
            json_t *pair = json_object();
            put_bound(pair, "soft", soft, rows[i][2]);
            put_bound(pair, "hard", hard, rows[i][2]);
            json_object_set_new(p->out, rows[i][0], pair);
        }
    }
}

/* Shared memory is what data loaders and NCCL exchange buffers in; without a mount of its
 * own it is a directory of /. */
static void put_shared_memory(struct rp_probe *p)
{
    int64_t total, available;
    RP_MOUNTS m;
    rp_mounts_read(&m, p);
    const struct rp_mount *at = rp_mounts_at(&m, shm);
    rp_put_found(p->out, "shm_file_system", at ? at->type : NULL, &m.text);
    if (rp_probe_query_space(p, shm, &total, &available) == 0) {
        rp_put_int(p->out, "shm_size", total, shm, "B");
        rp_put_int(p->out, "shm_free", available, shm, "B");
    } else {
        rp_put_absent(p->out, "shm_size", shm);
        rp_put_absent(p->out, "shm_free", shm);
    }
}

void rp_probe_limits(struct rp_probe *p)
{
    put_bounds(p);
    put_shared_memory(p);
    rp_put_number(p, p->out, "pid_max", "/proc/sys/kernel/pid_max", 1, NULL);
    rp_put_number(p, p->out, "threads_max", "/proc/sys/kernel/threads-max", 1, NULL);
    rp_put_number(p, p->out, "max_map_count", "/proc/sys/vm/max_map_count", 1, NULL);
}
