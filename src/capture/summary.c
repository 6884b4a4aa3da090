/* The environment document in about twenty lines. Unknown values say why they are unknown. */
#include "capture/capture.h"
#include "capture/topo_matrix.h"

#include <stdio.h>
#include <string.h>

/* The value at "probe.name" or "probe.object.name" */
static const json_t *find(const json_t *env, const char *path)
{
    const json_t *at = json_object_get(env, "probes");
    char word[64];
    while (*path) {
        size_t n = strcspn(path, ".");
        snprintf(word, sizeof word, "%.*s", (int)n, path);
        at = json_object_get(at, word);
        path += n + (path[n] == '.');
    }
    return at;
}

/* The text of a value; of a number with its unit; "?absent" and so on when it is not known. */
static const char *text(const json_t *env, const char *path, char *out, size_t size)
{
    const json_t *leaf = find(env, path), *v = json_object_get(leaf, "value");
    const char *state = json_string_value(json_object_get(leaf, "state")), *unit = json_string_value(json_object_get(leaf, "unit"));
    if (!state || strcmp(state, "ok") != 0)
        snprintf(out, size, "(%s)", state ? state : "absent");
    else if (json_is_string(v) && strncmp(json_string_value(v), "sha256:", 7) == 0)
        snprintf(out, size, "(hidden, %.8s)", json_string_value(v) + 7);
    else if (json_is_string(v))
        snprintf(out, size, "%.160s", json_string_value(v));
    else if (json_is_integer(v) && unit && strcmp(unit, "B") == 0)
        snprintf(out, size, "%.1f GiB", (double)json_integer_value(v) / (1u << 30));
    else if (json_is_integer(v) && unit && strcmp(unit, "Hz") == 0)
        snprintf(out, size, "%.2f GHz", (double)json_integer_value(v) * 1e-9);
    else if (json_is_integer(v))
        snprintf(out, size, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        snprintf(out, size, "%.2f", json_real_value(v));
    else
        snprintf(out, size, "(error)");
    return out;
}

/* One line: words in between are kept, "{cpu.model_name}" is replaced. */
static void line(struct rp_buf *out, const json_t *env, const char *label, const char *form)
{
    char path[64], value[200];
    rp_buf_printf(out, "%-13s", label);
    while (*form) {
        size_t n = strcspn(form, "{");
        rp_buf_add(out, form, n);
        form += n;
        if (*form != '{')
            break;
        n = strcspn(form, "}");
        snprintf(path, sizeof path, "%.*s", (int)n - 1, form + 1);
        rp_buf_puts(out, text(env, path, value, sizeof value));
        form += n + 1;
    }
    rp_buf_puts(out, "\n");
}

static int has_flag(const json_t *env, const char *flag)
{
    const json_t *flags = json_object_get(find(env, "cpu.flags"), "value");
    for (size_t i = 0; i < json_array_size(flags); i++)
        if (strcmp(json_string_value(json_array_get(flags, i)), flag) == 0)
            return 1;
    return 0;
}

static void vectors(struct rp_buf *out, const json_t *env)
{
    static const char *const seen[] = {"avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512_bf16", "amx_tile", "sha_ni"};
    char state[64];
    int n = 0;
    if (!json_is_array(json_object_get(find(env, "cpu.flags"), "value"))) {
        rp_buf_printf(out, "%-13s%s\n", "instructions", text(env, "cpu.flags", state, sizeof state));
        return;
    }
    rp_buf_printf(out, "%-13s", "instructions");
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++)
        if (has_flag(env, seen[i]))
            rp_buf_printf(out, "%s%s", n++ ? " " : "", seen[i]);
    rp_buf_puts(out, n ? "\n" : "none of note\n");
}

static void caches(struct rp_buf *out, const json_t *env)
{
    static const char *const levels[] = {"l1d", "l1i", "l2", "l3"};
    const json_t *all = find(env, "cpu.caches");
    int n = 0;
    rp_buf_printf(out, "%-13s", "caches");
    for (int i = 0; i < 4; i++) {
        const json_t *size = json_object_get(json_object_get(json_object_get(all, levels[i]), "size"), "value");
        if (json_is_integer(size))
            rp_buf_printf(out, "%s%s %lld KiB", n++ ? ", " : "", levels[i], (long long)json_integer_value(size) / 1024);
    }
    rp_buf_puts(out, n ? "\n" : "(absent)\n");
}

/* Values below `at`: an object with a state is one, any other is a group of them. */
static void count(const json_t *at, int known[4], int depth)
{
    static const char *const states[] = {"ok", "absent", "denied", "error"};
    const char *name, *state = json_string_value(json_object_get(at, "state"));
    json_t *child;
    for (int i = 0; state && i < 4; i++)
        known[i] += strcmp(state, states[i]) == 0;
    if (state || !json_is_object(at) || depth > 8)
        return;
    json_object_foreach ((json_t *)at, name, child) { /* jansson iterates over non-const objects only */
        count(child, known, depth + 1);
    }
}

static void counts(struct rp_buf *out, const json_t *env)
{
    int known[4] = {0};
    count(json_object_get(env, "probes"), known, 0);
    rp_buf_printf(out, "%-13s%d known, %d absent, %d denied, %d in error\n", "values", known[0], known[1], known[2], known[3]);
}

void rp_capture_summary(struct rp_buf *out, const json_t *env)
{
    line(out, env, "host", "{host.hostname}, {host.vendor} {host.product}");
    line(out, env, "system", "{distribution.name}, kernel {kernel.release} {kernel.machine}");
    line(out, env, "container", "{container.engine}, cgroup v{container.cgroup_version}");
    line(out, env, "limits", "CPUs {container.cpu_limit}, memory {container.memory_limit}, cpuset {container.cpuset}");
    line(out, env, "processor", "{cpu.model_name}");
    line(out, env, "", "{cpu.vendor} family {cpu.family} model {cpu.model} stepping {cpu.stepping}, microcode {cpu.microcode}");
    line(out, env, "topology", "{cpu.sockets} sockets, {cpu.cores} cores, {cpu.threads} threads; this process: {cpu.allowed}");
    vectors(out, env);
    caches(out, env);
    line(out, env, "frequency",
         "{frequency.hardware_min} to {frequency.hardware_max}, driver {frequency.driver}, governor {frequency.governor}");
    line(out, env, "clock now",
         "{cpu.clock_min} to {cpu.clock_max} MHz; boost {frequency.boost}, no_turbo {frequency.no_turbo}, SMT {frequency.smt_control}");
    line(out, env, "memory", "{memory.total}, available {memory.available}, swap {memory.swap_total}");
    line(out, env, "pages", "transparent {memory.transparent_huge_pages}, huge {memory.huge_pages}; NUMA nodes {memory.numa_nodes}");
    line(out, env, "clock source", "{clock.source}");
    line(out, env, "load",
         "{kernel.load_1min} {kernel.load_5min} {kernel.load_15min}, {kernel.tasks_running} of {kernel.tasks} tasks running");
    line(out, env, "program", "{program.version}, sha256 {program.sha256}");
    line(out, env, "git", "{git.workdir.commit} on {git.workdir.branch}, {git.workdir.modified} modified, {git.workdir.untracked} untracked");
    rp_buf_printf(out, "%-13s%zu variables\n", "environment",
                  json_object_size(json_object_get(json_object_get(env, "probes"), "environment")));
    counts(out, env);
    rp_topo_matrix_text(out, env);
}
