/* The kernel: release, the part of its command line that changes how programs run, settings, load and pressure. */
#include "base/json.h"
#include "base/text.h"
#include "capture/host/device.h"
#include "capture/privacy/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Parameters that change speed or arithmetic. All others (disks, consoles, addresses, keys) are only counted. */
static const char *const kept[] = {
    "amd_iommu", "amd_prefcore", "amd_pstate", "audit", "cgroup_no_v1", "clocksource", "cpufreq.default_governor",
    "cpufreq.off", "cpuidle.governor", "cpuidle.off", "default_hugepagesz", "elevator", "gather_data_sampling",
    "hugepages", "hugepagesz", "idle", "indirect_target_selection", "init_on_alloc", "init_on_free",
    "initcall_blacklist", "intel_idle.max_cstate", "intel_iommu", "intel_pstate", "iommu", "iommu.passthrough",
    "iommu.strict", "irqaffinity", "isolcpus", "kpti", "kthread_cpus", "l1tf", "l1d_flush", "lockdown", "maxcpus",
    "mds", "mem", "mitigations", "mmio_stale_data", "modprobe.blacklist", "nmi_watchdog", "no_timer_check", "nohz",
    "nohz_full", "nopti", "nosmt", "nosoftlockup", "nospectre_v1", "nospectre_v2", "nowatchdog", "nr_cpus", "numa",
    "numa_balancing", "page_alloc.shuffle", "pci", "pcie_acs_override", "pcie_aspm", "pcie_aspm.policy", "pcie_ports",
    "preempt", "processor.max_cstate", "psi", "pti", "randomize_kstack_offset", "rcu_nocb_poll", "rcu_nocbs",
    "rd.driver.blacklist", "reg_file_data_sampling", "retbleed", "skew_tick", "slub_debug", "spec_rstack_overflow",
    "spec_store_bypass_disable", "spectre_bhi", "spectre_v2", "spectre_v2_user", "srbds", "swapaccount", "swiotlb",
    "systemd.unified_cgroup_hierarchy", "threadirqs", "transparent_hugepage", "tsa", "tsc", "tsx", "tsx_async_abort",
    "vmscape", "vsyscall",
};
/* Modules whose parameters do, by their documented names; those of the driver all begin alike. */
static const char *const kept_modules[] = {
    "kvm.",        "kvm_amd.",    "kvm_intel.",      "mlx5_core.",      "nouveau.", "nvidia.NVreg_",
    "nvidia-drm.", "nvidia_drm.", "nvidia-uvm.uvm_", "nvidia_uvm.uvm_", "nvme.",    "nvme_core."};
static const char *const module_parameters[] = {
    "avic", "enable_apicv", "ept", "fbdev", "halt_poll_ns", "ignore_msrs", "io_queue_depth", "io_timeout",
    "max_host_mem_size_mb", "modeset", "multipath", "nested", "npt", "nx_huge_pages", "poll_queues", "probe_vf",
    "prof_sel", "runpm", "tdp_mmu", "unrestricted_guest", "use_threaded_interrupts", "vmentry_l1d_flush", "vpid",
    "write_queues",
};

/* Words of which the values of all these are made; numbers and lists of processors are too. */
static const char *const value_words[] = {
    "acpi", "acpi_pm", "active", "all", "allow", "always", "amd", "assist", "attempt", "auto", "balanced", "bios",
    "bfq", "both", "broadcast", "clear_cpu_buf", "confidentiality", "conservative", "deadline", "default", "defer",
    "deny", "disable", "disabled", "domain", "downstream", "emulate", "enable", "enabled", "eibrs", "failed", "fatal",
    "flush", "force", "forcedac", "full", "fullflush", "guest", "guided", "haltpoll", "halt", "hpet", "hwp_only",
    "ibpb", "ibpb-vmexit", "ibrs", "igfx_off", "integrity", "interleave", "io_delay", "jiffies", "kvm-clock", "kyber",
    "ladder", "lazy", "lfence", "madvise", "managed_irq", "menu", "mq-deadline", "multifunction", "mwait", "native",
    "never", "no_hwp", "no_turbo", "noaer", "noats", "nocrs", "noearly", "noflush", "nohugeiomap", "no_guest_guest",
    "no_guest_host", "nohz", "nomsi", "nommconf", "nomwait", "none", "nopv", "noresize", "norelax", "nosmt", "notify",
    "novmcoredd", "off", "on", "ondemand", "panic", "passive", "passthrough", "pcie_bus_peer2peer", "pcie_bus_perf",
    "pcie_bus_safe", "pcie_bus_tune_off", "per_cpu_perf_limits", "performance", "poll", "powersave", "powersupersave",
    "prctl", "prefer", "pt", "realloc", "reliable", "relax", "retpoline", "generic", "safe-ret", "schedutil", "seccomp",
    "sm_off", "sm_on", "smt", "soft", "stop", "strict", "stuff", "teo", "tsc", "undefined", "unret", "unstable", "user",
    "userspace", "verbose", "vmexit", "voluntary", "watchdog", "within_size", "xonly", "y", "n", "Y", "N", "warm", "nx",
    "ast", "i915", "mgag200", "nouveau", "nova_core", "nvidia", "nvidiafb", "radeon", "snd_hda_intel", "amdgpu",
    "lbm-nouveau", "rivafb", "cpu", "cpuacct", "cpuset", "memory", "pids", "named",
};

static const char withheld_word[] = "withheld=";

static int is_known_name(const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof kept_modules / sizeof *kept_modules; i++) {
        size_t m = strlen(kept_modules[i]);
        if (n <= m || strncmp(word, kept_modules[i], m) != 0)
            continue;
        if (kept_modules[i][m - 1] != '.'
                ? strspn(word + m, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") >= n - m
                : RP_IS_IN(module_parameters, word + m, n - m))
            return 1;
    }
    return RP_IS_IN(kept, word, n);
}

/* "8", "64G", "0x1f", "0-3", "1.5" */
static int is_number(const char *s, size_t n)
{
    size_t digits = 0, hex = n > 2 && s[0] == '0' && s[1] == 'x' ? 2 : 0;
    for (size_t i = hex; i < n; i++) {
        int digit = (s[i] >= '0' && s[i] <= '9') || (hex && strchr("abcdefABCDEF", s[i]));
        if (!digit && !(i + 1 == n && strchr("kKmMgGtTnN", s[i])) && !(i && strchr("-.", s[i])))
            return 0;
        digits += digit != 0;
    }
    return digits > 0 && digits <= 16;
}

/* A word is kept if its name is known and its value is a known word, a number or a list of them. */
static int is_kept(const char *word)
{
    static const char between[] = ",:;=@/+";
    size_t n = strcspn(word, "=");
    RP_FREE char *name = rp_asprintf("%.*s", (int)n, word);
    if (!is_known_name(word, n) || strlen(word) >= 256 || rp_is_secret(name, ""))
        return 0;
    for (const char *s = word + n; *s;) {
        s++;
        size_t len = strcspn(s, between), sign = len > 1 && strchr("!-+", *s);
        if (len && !is_number(s + sign, len - sign) && !RP_IS_IN(value_words, s + sign, len - sign))
            return 0;
        s += len;
    }
    return 1;
}

/* "BOOT_IMAGE=/vmlinuz quiet iommu=pt" -> "iommu=pt withheld=2" */
static void redact_command_line(const struct rp_probe *p, struct rp_buf *text)
{
    RP_BUF old = *text;
    int withheld = 0;
    char *save = NULL;
    (void)p;
    *text = (struct rp_buf){0};
    for (char *w = strtok_r(old.data, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
        if (is_kept(w))
            rp_buf_printf(text, "%s ", w);
        else
            withheld += strncmp(w, withheld_word, sizeof withheld_word - 1) == 0
                            ? (int)strtol(w + sizeof withheld_word - 1, NULL, 10)
                            : 1;
    rp_buf_printf(text, "%s%d\n", withheld_word, withheld);
}

static void put_command_line(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read_as(&t, p, "/proc/cmdline", redact_command_line);
    char *withheld = t.state == RP_STATE_OK ? strstr(t.bytes.data, withheld_word) : NULL;
    if (!withheld) {
        rp_put_state(p->out, "command_line", &t);
        rp_put_state(p->out, "command_line_withheld", &t);
        return;
    }
    RP_FREE char *words = rp_trimmed(t.bytes.data, (size_t)(withheld - t.bytes.data));
    rp_put_str(p->out, "command_line", words, t.path);
    rp_put_int(p->out, "command_line_withheld", (int)strtol(withheld + sizeof withheld_word - 1, NULL, 10), t.path,
               "parameters");
}

/* Fields 1-3 of "0.31 0.40 0.35 2/180 12345"; 4: running, 5: total of the fourth word. */
static void put_load(struct rp_probe *p)
{
    static const char *const names[] = {"load_1min", "load_5min", "load_15min", "tasks_running", "tasks"};
    RP_TEXT t;
    double n[5];
    rp_text_read(&t, p, "/proc/loadavg");
    int known =
        t.state == RP_STATE_OK && sscanf(t.bytes.data, "%lf %lf %lf %lf/%lf", &n[0], &n[1], &n[2], &n[3], &n[4]) == 5;
    for (int i = 0; i < 5; i++)
        if (!known)
            rp_put_invalid(p->out, names[i], &t, NULL, "not five numbers");
        else if (i < 3)
            rp_put_real(p->out, names[i], n[i], t.path, "tasks");
        else
            rp_put_int(p->out, names[i], (int64_t)n[i], t.path, "tasks");
}

static void put_uptime(struct rp_probe *p)
{
    RP_TEXT t;
    double seconds = -1;
    rp_text_read(&t, p, "/proc/uptime");
    if (t.state == RP_STATE_OK && sscanf(t.bytes.data, "%lf", &seconds) == 1 && seconds >= 0 && seconds < 1e12)
        rp_put_real(p->out, "uptime", seconds, t.path, "s");
    else
        rp_put_invalid(p->out, "uptime", &t, NULL, "not a number");
}

static json_t *ask_uname(const struct rp_probe *p, const char *arg)
{
    struct utsname u;
    (void)p, (void)arg;
    return uname(&u) < 0
               ? NULL
               : json_pack("{s:s, s:s, s:s}", "release", u.release, "version", u.version, "machine", u.machine);
}

/* uname(2) answers even in an empty root. */
static void put_release(struct rp_probe *p)
{
    rp_put_line(p, p->out, "release", "/proc/sys/kernel/osrelease");
    rp_put_line(p, p->out, "version", "/proc/sys/kernel/version");
    rp_put_line(p, p->out, "machine", "/proc/sys/kernel/arch");
    RP_JSON *u = rp_probe_query(p, "uname", NULL, ask_uname);
    const char *name;
    json_t *value;
    json_object_foreach (u, name, value) {
        if (rp_leaf(json_object_get(p->out, name)).kind == RP_LEAF_ABSENT && json_is_string(value))
            rp_put_str(p->out, name, json_string_value(value), "uname(2)");
    }
}

static void put_settings(struct rp_probe *p)
{
    static const char *const files[][3] = {{"tainted", "tainted", NULL},
                                           {"autogroup", "sched_autogroup_enabled", NULL},
                                           {"realtime_runtime", "sched_rt_runtime_us", "us"},
                                           {"timer_migration", "timer_migration", NULL},
                                           {"nmi_watchdog", "nmi_watchdog", NULL},
                                           {"address_randomization", "randomize_va_space", NULL},
                                           {"perf_paranoid", "perf_event_paranoid", NULL},
                                           {"split_lock_mitigate", "split_lock_mitigate", NULL},
                                           {"io_uring_disabled", "io_uring_disabled", NULL},
                                           {"threads_max", "threads-max", NULL}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[80];
        rp_put_signed(p, p->out, files[i][0], RP_FORMAT(path, "/proc/sys/kernel/%s", files[i][1]), files[i][2]);
    }
    rp_put_line(p, p->out, "realtime", "/sys/kernel/realtime");
    rp_put_selected(p, p->out, "lockdown", "/sys/kernel/security/lockdown");
}

/* "some avg10=2.42 avg60=41.55 avg300=76.52 total=5672877496": how much of the last ten seconds tasks waited for a
 * thing, some of them or all. */
static void put_pressure(struct rp_probe *p)
{
    static const char *const names[][3] = {{"cpu", "cpu", "some avg10"},
                                           {"memory", "memory", "some avg10"},
                                           {"memory_full", "memory", "full avg10"},
                                           {"io", "io", "some avg10"},
                                           {"io_full", "io", "full avg10"}};
    json_t *group = json_object();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[40], *end;
        RP_TEXT t;
        rp_text_read(&t, p, RP_FORMAT(path, "/proc/pressure/%s", names[i][1]));
        RP_FREE char *v = rp_text_field(&t, names[i][2], '=');
        double x = v ? strtod(v, &end) : -1;
        if (v && x >= 0 && x <= 100 && *end == ' ')
            rp_put_real(group, names[i][0], x, path, "%");
        else if (v)
            rp_put(group, names[i][0], RP_STATE_ERROR, NULL, path, "%", "not a share");
        else if (t.state == RP_STATE_ERROR && strcmp(t.detail, "cannot be read") == 0) /* switched off with psi=0 */
            rp_put_absent(group, names[i][0], path);
        else
            rp_put_state(group, names[i][0], &t);
    }
    json_object_set_new(p->out, "pressure", group);
}

void rp_probe_kernel(struct rp_probe *p)
{
    put_release(p);
    put_command_line(p);
    put_load(p);
    put_uptime(p);
    put_settings(p);
    put_pressure(p);
}
