/* `repro doctor`: what would stop or slow a run here. The checks are in capture/; this file tries what a capture does
 * not record. */
#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "capture/capture.h"
#include "capture/doctor/doctor.h"
#include "cli/opts.h"
#include "launch/job_key.h"
#include "launch/launcher.h"
#include "sign/key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

struct doctor_opts {
    const char *root;
};

#define AT(field) offsetof(struct doctor_opts, field)
static const struct rp_opt opts[] = {RP_OPT_ROOT(root), {0}};

/* ---- values tried here: the group "here" next to the probes ---- */

static void put_here(json_t *here, const char *name, const char *text)
{
    json_object_set_new(here, name,
                        json_pack("{s:s, s:s, s:s}", "state", "ok", "value", text, "source", "repro doctor"));
}

/* The kernel's file systems, in which root has write permission but cannot create files. */
static int is_of_kernel(const char *path)
{
    /* proc, sysfs, cgroup, cgroup2: linux/magic.h */
    static const unsigned long types[] = {0x9fa0, 0x62656572, 0x27e0eb, 0x63677270};
    struct statfs s;
    for (size_t i = 0; i < sizeof types / sizeof *types && statfs(path, &s) == 0; i++)
        if ((unsigned long)s.f_type == types[i])
            return 1;
    return 0;
}

/* "writable" if path exists and is, or can be created, or why not. */
static const char *describe_writable(const char *path)
{
    struct stat st;
    RP_FREE char *at = rp_strdup(path);
    while (faccessat(AT_FDCWD, *at ? at : "/", F_OK, AT_EACCESS) < 0 && errno == ENOENT && strchr(at, '/'))
        *strrchr(at, '/') = 0;
    const char *there = *at ? at : "/";
    if (faccessat(AT_FDCWD, there, W_OK, AT_EACCESS) < 0)
        return strerror(errno);
    if (stat(there, &st) == 0 && S_ISDIR(st.st_mode) && st.st_nlink == 0)
        return "the directory has been deleted";
    return is_of_kernel(there) ? "no files can be created there" : "writable";
}

static void try_key(json_t *here)
{
    struct rp_err err = {0};
    RP_FREE char *path = rp_key_default_path(&err);
    err.msg[strcspn(err.msg, ":")] = 0; /* the remedy has a column of its own */
    const char *why = path ? describe_writable(path) : err.msg;
    if (path && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0)
        put_here(here, "key", rp_key_check(path, &err) == 0 ? "present" : err.msg);
    else if (path && errno == ENOENT && strcmp(why, "writable") == 0)
        put_here(here, "key", "none yet");
    else
        put_here(here, "key", path && errno != ENOENT ? strerror(errno) : why);
}

/* The clock goes back when a thread moves to another CPU. */
static int goes_back(void)
{
    cpu_set_t all, one;
    int back = 0;
    if (sched_getaffinity(0, sizeof all, &all) < 0)
        return 0;
    uint64_t last = rp_now_ns();
    for (int i = 0; i < 2 * CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i % CPU_SETSIZE, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(i % CPU_SETSIZE, &one);
        if (sched_setaffinity(0, sizeof one, &one) < 0)
            break;
        uint64_t now = rp_now_ns();
        back |= now < last;
        last = now;
    }
    return sched_setaffinity(0, sizeof all, &all) < 0 || back;
}

/* "process 3 of 8, started by torchrun (RANK, WORLD_SIZE)", or why that cannot be. */
static char *describe_place(const struct rp_launch *l)
{
    RP_FREE char *of = l->size ? rp_asprintf(" of %" PRId64, l->size) : rp_strdup("");
    return rp_asprintf("process %" PRId64 "%s, started by %s (%s%s%s)", l->rank, of, l->name, l->rank_variable,
                       *l->size_variable ? ", " : "", l->size_variable);
}

static void try_launcher(json_t *here)
{
    struct rp_err err = {0};
    struct rp_launch l;
    const char *key = rp_job_key_offered();
    const struct rp_launch_opts o = {.several = key != NULL};
    int failed = rp_launch_detect(&l, &o, &err) < 0;
    RP_FREE char *place = !failed && l.launcher && l.size != 1 ? describe_place(&l) : NULL;
    put_here(here, "launcher", failed ? err.msg : place ? place : "alone");
    put_here(here, "job_key", key ? key : "none");
    if (!failed && l.note)
        put_here(here, "launcher_note", l.note);
    if (place)
        put_here(here, "launcher_remedy", l.key_remedy);
}

/* As execvp() finds it; free it. */
static char *find_program(const char *name)
{
    const char *path = getenv("PATH");
    RP_FREE char *list = rp_strdup(path ? path : "/usr/bin:/bin");
    char *save = NULL;
    if (strchr(name, '/'))
        return access(name, X_OK) == 0 ? rp_strdup(name) : NULL;
    for (char *folder = strtok_r(list, ":", &save); folder; folder = strtok_r(NULL, ":", &save)) {
        RP_FREE char *file = rp_asprintf("%s/%s", folder, name);
        if (access(file, X_OK) == 0)
            return rp_strdup(file);
    }
    return NULL;
}

/* The path of what --hosts would start, or why it would not. */
static void try_ssh(json_t *here)
{
    const char *set = getenv("REPRO_SSH");
    RP_FREE char *words = rp_strdup(set && *set ? set : "ssh");
    char *save = NULL, *name = strtok_r(words, " \t", &save);
    RP_FREE char *path = name ? find_program(name) : NULL;
    if (path)
        put_here(here, "ssh", path);
    else
        put_here(here, "ssh", set && *set ? "REPRO_SSH names no program" : "none");
}

static json_t *try_here(void)
{
    json_t *here = json_object();
    int named;
    RP_FREE char *store = rp_store_path(NULL, &named);
    put_here(here, "output", describe_writable("."));
    put_here(here, "store", describe_writable(store));
    put_here(here, "store_named", named ? "yes" : "no");
    try_key(here);
    try_launcher(here);
    try_ssh(here);
    put_here(here, "gpu_worker", *rp_build_record()->gpu_worker ? "yes" : "no");
    put_here(here, "monotonic", goes_back() ? "no" : "yes");
    return here;
}

/* ---- the command ---- */

static int cmd_doctor(struct rp_cli *cli, struct rp_err *err)
{
    const struct doctor_opts *o = cli->opts;
    struct rp_capture_opts c = {.root = o->root ? o->root : "/"};
    RP_JSON *env = rp_capture(&c, err);
    if (!env)
        return -1;
    if (!o->root)
        json_object_set_new(json_object_get(env, "probes"), "here", try_here());
    RP_FINDINGS found;
    rp_doctor(&found, env);
    rp_cli_return(cli, rp_object_json(&found, &rp_type_findings),
                  RP_DOCTOR_TEXT "[/findings/0/check:\n]stop {/stop t}, slow {/slow t}, note {/note t}\n");
    return rp_doctor_stops(&found)
               ? rp_fail(err, RP_UNAVAILABLE, "no run would work here: see the findings of severity stop")
               : 0;
}

const struct rp_command rp_cmd_doctor = {
    .name = "doctor",
    .operands = "",
    .summary = "find what would stop or slow a run here, with remedies",
    .details = "Captures the machine and prints one line for each finding: severity, what, the measured value and the "
               "remedy, a command if one helps (most need root). stop: the run would fail; slow: it would be slower or "
               "its time less certain; note: worth knowing. Invisible problems are not found: an empty list is not a "
               "guarantee. Nothing is computed on a GPU: whether its tensor cores add products as train.tensor_core "
               "has them is tested before each run in mixed precision, and by 'repro selftest --backend cuda "
               "--tensor-core'.\n"
               "\n"
               "Exit status 7 if every run would fail, also on the CPU: no place for the bundle, no key, a named store "
               "that cannot be written, a clock that steps back. Findings about GPUs only, or about speed, leave "
               "status 0. With --root only the record is checked.\n"
               "\n"
               "Examples:\n"
               "  repro doctor --json | jq -r '.findings[] | select(.severity == \"slow\").remedy'\n"
               "  repro capture --record machine && repro doctor --root machine\n",
    .opts = opts,
    .opts_size = sizeof(struct doctor_opts),
    .run = cmd_doctor,
};
