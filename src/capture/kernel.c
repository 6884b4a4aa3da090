/* The kernel: release, the part of its command line that changes how programs run, clock source, load. */
#include "base/json.h"
#include "capture/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Parameters that change speed or arithmetic. All others (disks, consoles, addresses, keys) are only counted. */
static const char *const kept[] = {
    "amd_iommu",     "amd_pstate",      "audit",
    "cgroup_no_v1",  "clocksource",     "default_hugepagesz",
    "elevator",      "hugepages",       "hugepagesz",
    "idle",          "init_on_alloc",   "init_on_free",
    "intel_idle.max_cstate",            "intel_iommu",
    "intel_pstate",  "iommu",           "irqaffinity",
    "isolcpus",      "kpti",            "l1tf",
    "maxcpus",       "mds",             "mem",
    "mitigations",   "nmi_watchdog",    "no_timer_check",
    "nohz",          "nohz_full",       "nopti",
    "nosmt",         "nospectre_v1",    "nospectre_v2",
    "nowatchdog",    "nr_cpus",         "numa",
    "numa_balancing", "pcie_aspm",      "preempt",
    "processor.max_cstate",             "pti",
    "rcu_nocbs",     "retbleed",        "skew_tick",
    "spec_store_bypass_disable",        "spectre_v2",
    "srbds",         "swapaccount",     "systemd.unified_cgroup_hierarchy",
    "threadirqs",    "transparent_hugepage",
    "tsc",           "tsx",             "vsyscall",
};

static int is_kept(const char *word)
{
    size_t n = strcspn(word, "=");
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strlen(kept[i]) == n && memcmp(kept[i], word, n) == 0)
            return 1;
    return 0;
}

static void command_line(struct rp_probe *p)
{
    RP_TEXT t;
    RP_BUF words = {0};
    int withheld = 0;
    rp_text_read(&t, p, "/proc/cmdline");
    if (t.state != RP_STATE_OK || t.bytes.size > RP_LINE_MAX) {
        if (t.state == RP_STATE_OK) {
            t.state = RP_STATE_ERROR;
            t.detail = "too long";
        }
        rp_put_state(p->out, "command_line", &t);
        rp_put_state(p->out, "command_line_withheld", &t);
        return;
    }
    char *save = NULL;
    for (char *w = strtok_r(t.bytes.data, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
        if (is_kept(w))
            rp_buf_printf(&words, "%s%s", words.size ? " " : "", w);
        else
            withheld++;
    rp_put_str(p->out, "command_line", words.size ? words.data : "", t.path);
    rp_put_int(p->out, "command_line_withheld", withheld, t.path, "parameters");
}

/* Fields 1-3 of "0.31 0.40 0.35 2/180 12345"; 4: running, 5: total of the fourth word. */
static void load(struct rp_probe *p)
{
    RP_TEXT t;
    double avg[3];
    int running, total;
    rp_text_read(&t, p, "/proc/loadavg");
    int n = t.state == RP_STATE_OK ? sscanf(t.bytes.data, "%lf %lf %lf %d/%d", &avg[0], &avg[1], &avg[2], &running, &total) : 0;
    if (n == 5) {
        rp_put_real(p->out, "load_1min", avg[0], t.path, "tasks");
        rp_put_real(p->out, "load_5min", avg[1], t.path, "tasks");
        rp_put_real(p->out, "load_15min", avg[2], t.path, "tasks");
        rp_put_int(p->out, "tasks_running", running, t.path, "tasks");
        rp_put_int(p->out, "tasks", total, t.path, "tasks");
        return;
    }
    if (t.state == RP_STATE_OK) {
        t.state = RP_STATE_ERROR;
        t.detail = "not five numbers";
    }
    static const char *const names[] = {"load_1min", "load_5min", "load_15min", "tasks_running", "tasks"};
    for (int i = 0; i < 5; i++)
        rp_put_state(p->out, names[i], &t);
}

static void uptime(struct rp_probe *p)
{
    RP_TEXT t;
    double seconds;
    rp_text_read(&t, p, "/proc/uptime");
    if (t.state == RP_STATE_OK && sscanf(t.bytes.data, "%lf", &seconds) == 1 && seconds >= 0 && seconds < 1e12) {
        rp_put_real(p->out, "uptime", seconds, t.path, "s");
        return;
    }
    if (t.state == RP_STATE_OK) {
        t.state = RP_STATE_ERROR;
        t.detail = "not a number";
    }
    rp_put_state(p->out, "uptime", &t);
}

static json_t *ask_uname(const struct rp_probe *p, const char *arg)
{
    struct utsname u;
    (void)p, (void)arg;
    return uname(&u) < 0 ? NULL : json_pack("{s:s, s:s, s:s}", "release", u.release, "version", u.version, "machine", u.machine);
}

/* uname(2) answers even in an empty root. */
static void release(struct rp_probe *p)
{
    rp_put_line(p, p->out, "release", "/proc/sys/kernel/osrelease");
    rp_put_line(p, p->out, "version", "/proc/sys/kernel/version");
    rp_put_line(p, p->out, "machine", "/proc/sys/kernel/arch");
    RP_JSON *u = rp_live(p, "uname", NULL, ask_uname);
    const char *name;
    json_t *value;
    json_object_foreach (u, name, value) {
        const char *state = json_string_value(json_object_get(json_object_get(p->out, name), "state"));
        if (state && strcmp(state, "absent") == 0 && json_is_string(value))
            rp_put_str(p->out, name, json_string_value(value), "uname(2)");
    }
}

void rp_probe_kernel(struct rp_probe *p)
{
    release(p);
    command_line(p);
    rp_put_line(p, p->out, "clock_source", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    rp_put_line(p, p->out, "clock_sources", "/sys/devices/system/clocksource/clocksource0/available_clocksource");
    load(p);
    uptime(p);
}
