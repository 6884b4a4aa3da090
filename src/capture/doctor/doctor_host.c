/* Checks that concern every run: processor, memory, clocks, and what `repro doctor` itself tried (the group "here",
 * cli/cmd_doctor.c). */
#include "base/isa.h"
#include "capture/doctor/doctor.h"
#include "capture/probe.h"
#include "capture/value.h"

#include <stdio.h>
#include <string.h>

#define ROOM ((double)(64 << 20))         /* a bundle and the small samples, many times over */
#define WORKING_SET ((double)(5LL << 30)) /* bert_fp32 plans 4.1 GiB */

/* Without these file systems, absent findings mean nothing. */
void rp_doctor_visibility(struct rp_doctor *d)
{
    static const char *const remedies[] = {"mount -t proc proc /proc", "mount -t sysfs sysfs /sys",
                                           "mount -t cgroup2 cgroup2 /sys/fs/cgroup"};
    const char *tree;
    int n = 0;
    for (int i = 0; i < (int)(sizeof remedies / sizeof *remedies) && (tree = rp_capture_unseen(d->probes, i, &n)); i++)
        if (n)
            rp_doctor_report(d, RP_DOCTOR_NOTE, remedies[i], "%s is not mounted: %d values are unknown", tree, n);
}

/* ---- where a run reads and writes ---- */

static int is_read_only(const json_t *probes, const char *path)
{
    const char *options = rp_known_text(probes, path);
    return options && strncmp(options, "ro", 2) == 0 && (!options[2] || options[2] == ',');
}

void rp_doctor_output(struct rp_doctor *d)
{
    static const char remedy[] = "repro run RECIPE -o FILE, with FILE where you may write";
    const char *why = rp_known_text(d->probes, "here.output");
    if (why && strcmp(why, "writable") != 0)
        rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "%s", why);
    else if (!why && is_read_only(d->probes, "storage.workdir.options"))
        rp_doctor_report(d, RP_DOCTOR_STOP, remedy, "mounted read-only");
}

void rp_doctor_key(struct rp_doctor *d)
{
    const char *key = rp_known_text(d->probes, "here.key");
    if (!key || strcmp(key, "present") == 0)
        return;
    if (strcmp(key, "none yet") == 0)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "repro key new, or leave it to the first run", "%s", key);
    else
        rp_doctor_report(d, RP_DOCTOR_STOP,
                         strncmp(key, "key ", 4) == 0 ? "repro key new -o FILE && export REPRO_KEY=FILE"
                                                      : "export REPRO_KEY=FILE, with FILE where you may write",
                         "%s", key);
}

/* One of several processes, which find each other only with the key of the job. */
void rp_doctor_launcher(struct rp_doctor *d)
{
    const char *place = rp_known_text(d->probes, "here.launcher"), *key = rp_known_text(d->probes, "here.job_key");
    const char *remedy = rp_known_text(d->probes, "here.launcher_remedy"),
               *note = rp_known_text(d->probes, "here.launcher_note");
    if (place && strcmp(place, "alone") == 0) {
        if (note)
            rp_doctor_report(d, RP_DOCTOR_NOTE, "nothing, if you want one process", "%s", note);
    } else if (place && remedy && key && strcmp(key, "none") != 0) {
        rp_doctor_report(
            d, RP_DOCTOR_NOTE,
            "run repro launch whoami --meet instead of repro doctor, to test that all processes find each other",
            "%s; the key of the job is in %s", place, key);
    } else if (place) {
        rp_doctor_report(d, RP_DOCTOR_STOP,
                         remedy ? remedy : "start one process, or set the variables of one launcher only",
                         remedy ? "%s, without a key of the job" : "%s", place);
    }
}

int rp_doctor_in_container(const struct rp_doctor *d)
{
    const char *engine = rp_known_text(d->probes, "container.engine");
    return engine && strcmp(engine, "none seen") != 0;
}

/* Starts processes on other hosts; everything else works without, and an image may have none on purpose. */
void rp_doctor_ssh(struct rp_doctor *d)
{
    const char *ssh = rp_known_text(d->probes, "here.ssh");
    if (ssh && strcmp(ssh, "none") == 0 && rp_doctor_in_container(d))
        return;
    if (ssh && strcmp(ssh, "none") == 0)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "install OpenSSH's client, or set REPRO_SSH, if runs are to have --hosts",
                         "none in PATH");
    else if (ssh && strncmp(ssh, "REPRO_SSH", 9) == 0)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "unset REPRO_SSH, or correct it, if runs are to have --hosts", "%s", ssh);
}

/* Without a store the embedded samples are read from memory; one that was named has to work. */
void rp_doctor_store(struct rp_doctor *d)
{
    static const char remedy[] = "export REPRO_STORE=DIR, with DIR where you may write";
    const char *why = rp_known_text(d->probes, "here.store");
    if (why && strcmp(why, "writable") != 0)
        rp_doctor_report(d, rp_known_is(d->probes, "here.store_named", "yes") ? RP_DOCTOR_STOP : RP_DOCTOR_NOTE, remedy,
                         "%s", why);
    else if (!why && is_read_only(d->probes, "storage.store.options"))
        rp_doctor_report(d, RP_DOCTOR_NOTE, remedy, "mounted read-only");
}

void rp_doctor_space(struct rp_doctor *d)
{
    static const char *const places[][2] = {{"workdir", "working directory"}, {"store", "store"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const json_t *at = rp_value_at(rp_value_at(d->probes, "storage"), places[i][0]);
        char left[32];
        double bytes, files;
        enum rp_doctor_severity severity = i ? RP_DOCTOR_NOTE : RP_DOCTOR_STOP;
        if (rp_known_number(at, "free", &bytes) == 0 && bytes < ROOM) {
            rp_show_number(left, bytes, "B");
            rp_doctor_report(d, severity,
                             i ? "export REPRO_STORE=DIR, with DIR on another disk"
                               : "df -h . && repro run RECIPE -o FILE elsewhere",
                             "%s left: %s", places[i][1], left);
        } else if (rp_known_number(at, "files_free", &files) == 0 && files < 16 && rp_known_over(at, "total", 0) &&
                   !rp_known_is(at, "filesystem", "btrfs")) /* which has no such table and reports 0 */
            rp_doctor_report(d, severity, "df -i . # and remove files", "%s: no file can be added", places[i][1]);
    }
}

/* What is left of the machine's memory and of the cgroup's limit. */
void rp_doctor_memory(struct rp_doctor *d)
{
    double available = 0, limit;
    char left[32];
    int known = rp_known_number(d->probes, "memory.available", &available) == 0;
    if (rp_known_number(d->probes, "container.memory_limit", &limit) == 0 && (!known || limit < available)) {
        available = limit;
        known = 1;
    }
    rp_show_number(left, available, "B");
    if (known && available < WORKING_SET)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "repro run RECIPE --plan # then a smaller train.batch_size",
                         "%s; bert_fp32 takes 4.1 GiB", left);
}

/* ---- clocks ---- */

void rp_doctor_monotonic(struct rp_doctor *d)
{
    if (rp_known_is(d->probes, "here.monotonic", "no"))
        rp_doctor_report(d, RP_DOCTOR_STOP, "taskset -c 0 repro run RECIPE, or boot with clocksource=hpet",
                         "steps back between CPUs");
}

/* Each of these costs a microsecond a reading, or was chosen because the kernel saw the fast one fail. */
void rp_doctor_clock(struct rp_doctor *d)
{
    static const char *const slow[] = {"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies", "xen"};
    const char *source = rp_known_text(d->probes, "clock.source");
    double resolution;
    for (size_t i = 0; source && i < sizeof slow / sizeof *slow; i++)
        if (strcmp(source, slow[i]) == 0)
            rp_doctor_report(d, RP_DOCTOR_SLOW, "dmesg | grep -i -e clocksource -e tsc # why not tsc", "%s", source);
    if (rp_known_number(d->probes, "clock.resolution", &resolution) == 0 && resolution > 1000)
        rp_doctor_report(d, RP_DOCTOR_SLOW, "boot with highres=on", "counts in steps of %g us", resolution * 1e-3);
}

void rp_doctor_synchronized(struct rp_doctor *d)
{
    /* A container has the clock of its host, and cannot set it. */
    if (rp_known_is(d->probes, "clock.synchronized", "no") && !rp_doctor_in_container(d))
        rp_doctor_report(d, RP_DOCTOR_NOTE, "timedatectl set-ntp true",
                         "not synchronized: dates in bundles may be wrong");
}

/* ---- the processor ---- */

void rp_doctor_instructions(struct rp_doctor *d)
{
    const char *missing = rp_known_lacks(d->probes, "cpu.flags", rp_isa_find("avx2")->flag);
    if (missing && rp_known_is(d->probes, "kernel.machine", "x86_64"))
        rp_doctor_report(d, RP_DOCTOR_SLOW, "in a virtual machine: its CPU model to host-passthrough",
                         "no %s: scalar kernels", missing);
}

/* CPUs that this process may run on, as far as is known; 0: not. */
static int count_cpus(const json_t *probes)
{
    const char *allowed = rp_known_text(probes, "cpu.allowed"), *online = rp_known_text(probes, "cpu.online");
    int n = allowed ? rp_parse_cpus(allowed, NULL, RP_MAX_CPUS) : online ? rp_parse_cpus(online, NULL, RP_MAX_CPUS) : 0;
    return n > 0 ? n : 0;
}

/* The kernel stops all threads of a group that has used up its share until the next 100 ms begin. */
void rp_doctor_quota(struct rp_doctor *d)
{
    double limit;
    char remedy[80];
    int n = count_cpus(d->probes);
    if (rp_known_number(d->probes, "container.cpu_limit", &limit) < 0 || limit >= n)
        return;
    snprintf(remedy, sizeof remedy, "repro run RECIPE --threads %d, or docker run --cpuset-cpus",
             limit >= 1 ? (int)limit : 1);
    rp_doctor_report(d, RP_DOCTOR_SLOW, remedy, "%g CPUs' time on %d CPUs", limit, n);
}

void rp_doctor_load(struct rp_doctor *d)
{
    double load;
    int n = count_cpus(d->probes);
    const char *online = rp_known_text(d->probes, "cpu.online");
    int all = online ? rp_parse_cpus(online, NULL, RP_MAX_CPUS) : n; /* the load is the whole machine's */
    if (rp_known_number(d->probes, "kernel.load_1min", &load) == 0 && all > 0 && load > 0.5 && load > 0.1 * all)
        rp_doctor_report(d, RP_DOCTOR_SLOW, "ps -eo pcpu,user,comm --sort=-pcpu | head", "load %.2f on %d CPUs", load,
                         all);
}

/* What decides under drivers that scale by themselves, where the governor 'powersave' only means that they do. */
static int scales_itself(const json_t *probes)
{
    const char *driver = rp_known_text(probes, "frequency.driver");
    return driver && (strcmp(driver, "intel_pstate") == 0 || strcmp(driver, "amd-pstate-epp") == 0) &&
           rp_known_text(probes, "frequency.energy_preference");
}

void rp_doctor_governor(struct rp_doctor *d)
{
    static const char remedy[] = "cpupower frequency-set -g performance";
    const char *governor = rp_known_text(d->probes, "frequency.governor");
    if (!governor || (!strstr(governor, "powersave") && !strstr(governor, "conservative")))
        return;
    if (!scales_itself(d->probes))
        rp_doctor_report(d, RP_DOCTOR_SLOW, remedy, "%s", governor);
    else if (strstr(rp_known_text(d->probes, "frequency.energy_preference"), "power"))
        rp_doctor_report(d, RP_DOCTOR_SLOW, remedy, "%s, prefers %s", governor,
                         rp_known_text(d->probes, "frequency.energy_preference"));
}

void rp_doctor_turbo(struct rp_doctor *d)
{
    double n;
    if (rp_known_over(d->probes, "frequency.no_turbo", 0))
        rp_doctor_report(d, RP_DOCTOR_SLOW, "echo 0 >/sys/devices/system/cpu/intel_pstate/no_turbo", "off");
    else if (rp_known_number(d->probes, "frequency.boost", &n) == 0 && n == 0 &&
             !rp_known_is(d->probes, "frequency.driver", "cppc_cpufreq")) /* has the file on Arm, without a boost */
        rp_doctor_report(d, RP_DOCTOR_SLOW, "echo 1 >/sys/devices/system/cpu/cpufreq/boost", "off");
    if (rp_known_number(d->probes, "frequency.performance_max", &n) == 0 && n < 100)
        rp_doctor_report(d, RP_DOCTOR_SLOW, "echo 100 >/sys/devices/system/cpu/intel_pstate/max_perf_pct",
                         "clock held at %g %%", n);
}

void rp_doctor_power(struct rp_doctor *d)
{
    double n;
    const char *profile = rp_known_text(d->probes, "frequency.platform_profile");
    if (rp_known_number(d->probes, "frequency.mains_online", &n) == 0 && n == 0)
        rp_doctor_report(d, RP_DOCTOR_SLOW, "plug it in", "on battery");
    if (profile && (strcmp(profile, "low-power") == 0 || strcmp(profile, "quiet") == 0 || strcmp(profile, "cool") == 0))
        rp_doctor_report(d, RP_DOCTOR_SLOW, "echo performance >/sys/firmware/acpi/platform_profile",
                         "platform profile %s", profile);
}

void rp_doctor_thermal(struct rp_doctor *d)
{
    double core = 0, package = 0;
    rp_known_number(d->probes, "frequency.core_throttles", &core);
    rp_known_number(d->probes, "frequency.package_throttles", &package);
    if (core > 0 || package > 0)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "better cooling; turbostat shows it",
                "throttled by heat since start: cores %.0f, packages %.0f times", core, package);
}

/* ---- memory ---- */

void rp_doctor_huge_pages(struct rp_doctor *d)
{
    if (rp_known_is(d->probes, "memory.transparent_huge_pages", "never"))
        rp_doctor_report(d, RP_DOCTOR_SLOW, "echo madvise >/sys/kernel/mm/transparent_hugepage/enabled", "never");
}

void rp_doctor_numa_balancing(struct rp_doctor *d)
{
    const char *on = rp_known_text(d->probes, "memory.numa_balancing"),
               *nodes = rp_known_text(d->probes, "memory.numa_nodes");
    if (on && strcmp(on, "0") != 0 && nodes && rp_parse_cpus(nodes, NULL, RP_MAX_CPUS) > 1)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "sysctl kernel.numa_balancing=0", "on: pages move while a run is measured");
}

/* ---- what has to be known to repeat a run ---- */

void rp_doctor_source(struct rp_doctor *d)
{
    double modified;
    const char *commit = rp_known_text(d->probes, "git.workdir.commit");
    if (commit && rp_known_number(d->probes, "git.workdir.modified", &modified) == 0 && modified > 0)
        rp_doctor_report(d, RP_DOCTOR_NOTE, "git commit, or git stash: a capture has the digest of the changes alone",
                         "%.0f %s not as in commit %.12s", modified, modified > 1 ? "files are" : "file is", commit);
}

/* Podman can show the digest of the image inside; others cannot, so what starts the container has to say it. */
void rp_doctor_image(struct rp_doctor *d)
{
    const char *engine = rp_known_text(d->probes, "container.engine");
    if (!rp_doctor_in_container(d) || rp_known(d->probes, "container.image_id") ||
        rp_known(d->probes, "container.image_digest"))
        return;
    char remedy[128];
    if (strcmp(engine, "docker") == 0 || strcmp(engine, "podman") == 0)
        snprintf(remedy, sizeof remedy, "%s run -e REPRO_IMAGE=IMAGE@sha256:... # RepoDigests of %s image inspect",
                 engine, engine);
    else
        snprintf(remedy, sizeof remedy, "start it with REPRO_IMAGE=IMAGE@sha256:... in its environment");
    rp_doctor_report(d, RP_DOCTOR_NOTE, remedy, "%.20s shows no digest inside", engine);
}
