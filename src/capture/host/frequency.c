/* What sets the clock: governor, driver, limits, turbo, SMT, idle states, power limits, throttling, mains; and what the
 * kernel does against speculation. */
#include "capture/host/device.h"

#include <stdio.h>
#include <string.h>

#define CPUFREQ "/sys/devices/system/cpu/cpufreq"

/* The same file of every policy: one word when they agree, else all of them: "performance, powersave". */
static void put_distinct(struct rp_probe *p, const struct rp_dirlist *policies, const char *name, const char *file)
{
    RP_BUF words = {0};
    char path[160], source[80];
    json_t *seen = json_object(), *one = json_object();
    snprintf(source, sizeof source, CPUFREQ "/policy*/%s", file);
    const json_t *last = NULL;
    for (int i = 0; i < policies->n; i++) {
        if (strncmp(policies->name[i], "policy", 6) != 0 || strlen(policies->name[i]) > 20)
            continue;
        rp_put_line(p, one, "value", RP_FORMAT(path, CPUFREQ "/%s/%s", policies->name[i], file));
        last = json_object_get(one, "value");
        const char *v = json_string_value(rp_leaf(last).value);
        if (v && !json_object_get(seen, v)) {
            rp_buf_printf(&words, "%s%s", words.size ? ", " : "", v);
            json_object_set_new(seen, v, json_true());
        }
    }
    if (words.size)
        rp_put_str(p->out, name, words.data, source);
    else if (last)
        json_object_set(p->out, name, (json_t *)last);
    else
        rp_put(p->out, name, policies->state == RP_STATE_OK ? RP_STATE_ABSENT : policies->state, NULL, source, NULL,
               policies->state == RP_STATE_ERROR ? "cannot be listed" : NULL);
    json_decref(seen);
    json_decref(one);
}

/* In kHz; the highest of all policies: processors may be of two kinds, and of one kind some are faster. */
static void put_highest(struct rp_probe *p, const struct rp_dirlist *policies, const char *name, const char *file)
{
    char path[160];
    const char *highest = "policy0";
    int64_t most = -1, khz;
    for (int i = 0; i < policies->n; i++) {
        if (strncmp(policies->name[i], "policy", 6) != 0 || strlen(policies->name[i]) > 20)
            continue;
        RP_TEXT t;
        rp_text_read(&t, p, RP_FORMAT(path, CPUFREQ "/%s/%s", policies->name[i], file));
        if (t.state == RP_STATE_OK && rp_parse_count(t.bytes.data, &khz) == 0 && khz > most) {
            most = khz;
            highest = policies->name[i];
        }
    }
    rp_put_number(p, p->out, name, RP_FORMAT(path, CPUFREQ "/%s/%s", highest, file), 1000, "Hz");
}

static void put_limits(struct rp_probe *p, const struct rp_dirlist *policies)
{
    static const char *const files[][2] = {{"hardware_min", "cpuinfo_min_freq"},
                                           {"base", "base_frequency"},
                                           {"allowed_min", "scaling_min_freq"}};
    char path[100];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) /* in kHz; of the first policy */
        rp_put_number(p, p->out, files[i][0], RP_FORMAT(path, CPUFREQ "/policy0/%s", files[i][1]), 1000, "Hz");
    put_highest(p, policies, "hardware_max", "cpuinfo_max_freq");
    put_highest(p, policies, "allowed_max", "scaling_max_freq");
}

static void put_mitigation(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    char path[RP_PATH];
    rp_put_line(p, group, name, rp_join(path, dir, name));
}

/* latency: the time to leave the state */
static void put_idle_state(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    char path[RP_PATH];
    json_t *one = json_object();
    rp_put_line(p, one, "name", RP_FORMAT(path, "%s/%s/name", dir, name));
    rp_put_number(p, one, "latency", RP_FORMAT(path, "%s/%s/latency", dir, name), 1, "us");
    rp_put_number(p, one, "disabled", RP_FORMAT(path, "%s/%s/disable", dir, name), 1, NULL);
    json_object_set_new(group, name, one);
}

/* Thermal throttling events since boot: of cores (sum), and of packages (each core reports that of its package). */
static void put_throttling(struct rp_probe *p)
{
    static const char *const files[][2] = {{"core_throttles", "core_throttle_count"},
                                           {"package_throttles", "package_throttle_count"}};
    static int cpu[RP_MAX_CPUS];
    RP_TEXT online;
    rp_text_read(&online, p, "/sys/devices/system/cpu/online");
    int n = online.state == RP_STATE_OK ? rp_parse_cpus(online.bytes.data, cpu, RP_MAX_CPUS) : 0;
    for (int k = 0; k < 2; k++) {
        char path[120], source[120];
        int64_t all = 0, one;
        int known = 0;
        snprintf(source, sizeof source, "/sys/devices/system/cpu/cpu*/thermal_throttle/%s", files[k][1]);
        for (int i = 0; i < n && known == i; i++) {
            RP_TEXT t;
            rp_text_read(&t, p,
                         RP_FORMAT(path, "/sys/devices/system/cpu/cpu%d/thermal_throttle/%s", cpu[i], files[k][1]));
            known += t.state == RP_STATE_OK && rp_parse_count(t.bytes.data, &one) == 0;
            if (known > i)
                all = k == 0 ? all + one : one > all ? one : all;
        }
        if (n > 0 && known == n)
            rp_put_int(p->out, files[k][0], all, source, NULL);
        else
            rp_put_absent(p->out, files[k][0], source);
    }
}

/* The power limits of a package ("intel-rapl:0"), but not of its parts ("intel-rapl:0:1"). */
static void put_power_limit(const struct rp_probe *p, json_t *group, const char *dir, const char *name)
{
    static const char *const terms[] = {"long_term", "short_term"};
    char path[RP_PATH];
    if (strchr(strchr(name, ':') + 1, ':'))
        return;
    json_t *one = json_object();
    rp_put_line(p, one, "name", RP_FORMAT(path, "%s/%s/name", dir, name));
    for (int k = 0; k < 2; k++)
        rp_put_number(p, one, terms[k], RP_FORMAT(path, "%s/%s/constraint_%d_power_limit_uw", dir, name, k), 1, "uW");
    json_object_set_new(group, name + strlen("intel-"), one);
}

/* A laptop on its battery is slower. */
static void put_mains(struct rp_probe *p)
{
    static const char dir[] = "/sys/class/power_supply";
    RP_DIRLIST d = {0};
    rp_dirlist_read(&d, p, dir, 64);
    for (int i = 0; i < d.n; i++) {
        char path[RP_PATH];
        if (!rp_is_plain_name(d.name[i]))
            continue;
        RP_TEXT t;
        rp_text_read(&t, p, RP_FORMAT(path, "%s/%s/type", dir, d.name[i]));
        if (t.state != RP_STATE_OK || strncmp(t.bytes.data, "Mains", 5) != 0)
            continue;
        rp_put_number(p, p->out, "mains_online", RP_FORMAT(path, "%s/%s/online", dir, d.name[i]), 1, NULL);
    }
    if (!json_object_get(p->out, "mains_online"))
        rp_put_unlisted(p->out, "mains_online", &d, dir);
}

void rp_probe_frequency(struct rp_probe *p)
{
    RP_DIRLIST policies = {0};
    rp_dirlist_read(&policies, p, CPUFREQ, RP_MAX_CPUS);
    put_distinct(p, &policies, "driver", "scaling_driver");
    put_distinct(p, &policies, "governor", "scaling_governor");
    put_distinct(p, &policies, "energy_preference", "energy_performance_preference");
    put_limits(p, &policies);
    rp_put_number(p, p->out, "boost", CPUFREQ "/boost", 1, NULL);
    rp_put_number(p, p->out, "no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo", 1, NULL);
    rp_put_line(p, p->out, "pstate_status", "/sys/devices/system/cpu/intel_pstate/status");
    rp_put_line(p, p->out, "amd_pstate_status", "/sys/devices/system/cpu/amd_pstate/status");
    rp_put_number(p, p->out, "performance_max", "/sys/devices/system/cpu/intel_pstate/max_perf_pct", 1, "%");
    rp_put_number(p, p->out, "performance_min", "/sys/devices/system/cpu/intel_pstate/min_perf_pct", 1, "%");
    rp_put_number(p, p->out, "energy_bias", "/sys/devices/system/cpu/cpu0/power/energy_perf_bias", 1, NULL);
    rp_put_line(p, p->out, "platform_profile", "/sys/firmware/acpi/platform_profile");
    rp_put_line(p, p->out, "idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver");
    rp_put_line(p, p->out, "idle_governor", "/sys/devices/system/cpu/cpuidle/current_governor_ro");
    rp_put_each(p, p->out, "idle_states", "/sys/devices/system/cpu/cpu0/cpuidle", "state", 32, put_idle_state);
    put_throttling(p);
    rp_put_each(p, p->out, "power_limits", "/sys/class/powercap", "intel-rapl:", 64, put_power_limit);
    put_mains(p);
    rp_put_number(p, p->out, "smt_active", "/sys/devices/system/cpu/smt/active", 1, NULL);
    rp_put_line(p, p->out, "smt_control", "/sys/devices/system/cpu/smt/control");
    rp_put_each(p, p->out, "mitigations", "/sys/devices/system/cpu/vulnerabilities", "", 64, put_mitigation);
}
