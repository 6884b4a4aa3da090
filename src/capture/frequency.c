/* What sets the clock: governor, driver, limits, turbo, SMT; and what the kernel does against speculation. */
#include "capture/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUFREQ "/sys/devices/system/cpu/cpufreq"

/* The same file of every policy: one word when they agree, else all of them: "performance, powersave". */
static void distinct(struct rp_probe *p, const struct rp_names *policies, const char *name, const char *file)
{
    RP_BUF words = {0};
    char path[160], source[80];
    json_t *seen = json_object(), *one = json_object();
    snprintf(source, sizeof source, CPUFREQ "/policy*/%s", file);
    const json_t *last = NULL;
    for (int i = 0; i < policies->n; i++) {
        if (strncmp(policies->name[i], "policy", 6) != 0 || strlen(policies->name[i]) > 20)
            continue;
        snprintf(path, sizeof path, CPUFREQ "/%s/%s", policies->name[i], file);
        rp_put_line(p, one, "value", path);
        last = json_object_get(one, "value");
        const char *v = json_string_value(json_object_get(last, "value"));
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

static void limits(struct rp_probe *p)
{
    static const char *const files[][2] = {{"hardware_min", "cpuinfo_min_freq"},
                                           {"hardware_max", "cpuinfo_max_freq"},
                                           {"base", "base_frequency"},
                                           {"allowed_min", "scaling_min_freq"},
                                           {"allowed_max", "scaling_max_freq"}};
    char path[100];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) { /* in kHz; of the first policy */
        snprintf(path, sizeof path, CPUFREQ "/policy0/%s", files[i][1]);
        rp_put_number(p, p->out, files[i][0], path, 1000, "Hz");
    }
}

static void vulnerabilities(struct rp_probe *p)
{
    static const char dir[] = "/sys/devices/system/cpu/vulnerabilities";
    struct rp_names d;
    rp_names_read(&d, p, dir, 64);
    if (d.state != RP_STATE_OK) {
        rp_put(p->out, "mitigations", d.state, NULL, dir, NULL, d.state == RP_STATE_ERROR ? "cannot be listed" : NULL);
        return;
    }
    json_t *all = json_object();
    for (int i = 0; i < d.n; i++) {
        char path[160];
        if (strlen(d.name[i]) > 60)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, d.name[i]);
        rp_put_line(p, all, d.name[i], path);
    }
    rp_names_free(&d);
    json_object_set_new(p->out, "mitigations", all);
}

void rp_probe_frequency(struct rp_probe *p)
{
    struct rp_names policies;
    rp_names_read(&policies, p, CPUFREQ, RP_MAX_CPUS);
    distinct(p, &policies, "driver", "scaling_driver");
    distinct(p, &policies, "governor", "scaling_governor");
    distinct(p, &policies, "energy_preference", "energy_performance_preference");
    rp_names_free(&policies);
    limits(p);
    rp_put_number(p, p->out, "boost", CPUFREQ "/boost", 1, NULL);
    rp_put_number(p, p->out, "no_turbo", "/sys/devices/system/cpu/intel_pstate/no_turbo", 1, NULL);
    rp_put_line(p, p->out, "pstate_status", "/sys/devices/system/cpu/intel_pstate/status");
    rp_put_line(p, p->out, "idle_driver", "/sys/devices/system/cpu/cpuidle/current_driver");
    rp_put_number(p, p->out, "smt_active", "/sys/devices/system/cpu/smt/active", 1, NULL);
    rp_put_line(p, p->out, "smt_control", "/sys/devices/system/cpu/smt/control");
    vulnerabilities(p);
}
