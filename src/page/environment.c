/* What the run ran on, what changed meanwhile, what was set, and how anybody can check and repeat it. */
#include "page/section.h"

#include "recipe/recipe.h"

#include <stdio.h>
#include <string.h>

#define CHANGES_MAX 100

/* ---- environment ---- */

static const char *const environment[][3] = {
    {"host", "machine", "/probes/host/product"},
    {"host", "vendor", "/probes/host/vendor"},
    {"host", "system", "/probes/distribution/name"},
    {"host", "C library", "/probes/distribution/libc"},
    {"host", "kernel", "/probes/kernel/release"},
    {"host", "hypervisor", "/probes/cpu/hypervisor"},
    {"host", "load in the last minute", "/probes/kernel/load_1min"},
    {"host", "clock", "/probes/clock/source"},
    {"container", "engine", "/probes/container/engine"},
    {"container", "image", "/probes/container/image"},
    {"container", "processors allowed", "/probes/container/cpu_limit"},
    {"container", "memory allowed", "/probes/container/memory_limit"},
    {"container", "privileged", "/probes/security/privileged"},
    {"container", "started like", "/probes/launch/command"},
    {"processor", "model", "/probes/cpu/model_name"},
    {"processor", "microcode", "/probes/cpu/microcode"},
    {"processor", "sockets", "/probes/cpu/sockets"},
    {"processor", "cores", "/probes/cpu/cores"},
    {"processor", "threads", "/probes/cpu/threads"},
    {"processor", "governor", "/probes/frequency/governor"},
    {"processor", "clock now, highest", "/probes/cpu/clock_max"},
    {"memory", "size", "/probes/memory/total"},
    {"memory", "available", "/probes/memory/available"},
    {"memory", "NUMA balancing", "/probes/memory/numa_balancing"},
    {"memory", "transparent huge pages", "/probes/memory/transparent_huge_pages"},
    {"GPU", "how many", "/probes/gpu/count"},
    {"GPU", "first", "/probes/gpu/devices/gpu0/name"},
    {"GPU", "memory of the first", "/probes/gpu/devices/gpu0/memory_total"},
    {"GPU", "power limit of the first", "/probes/gpu/devices/gpu0/power_limit_enforced"},
    {"GPU", "ECC of the first", "/probes/gpu/devices/gpu0/ecc_mode"},
    {"GPU", "MIG of the first", "/probes/gpu/devices/gpu0/mig_mode"},
    {"GPU", "driver", "/probes/gpu/driver_version"},
    {"GPU", "CUDA of the driver", "/probes/gpu/cuda_driver_version"},
    {"GPU", "NCCL", "/probes/gpu/nccl_version"},
    {"sources", "commit of the working directory", "/probes/git/workdir/commit"},
    {"sources", "branch", "/probes/git/workdir/branch"},
    {"program", "version", "/probes/program/version"},
    {"program", "SHA-256", "/probes/program/sha256"},
};

static int is_known(const struct rp_section *s, const char *pointer)
{
    const char *state = json_string_value(json_object_get(rp_pointer(s->before, pointer), "state"));
    return state && strcmp(state, "ok") == 0;
}

static int side_is_shown(const json_t *side)
{
    const json_t *v = json_object_get(side, "value");
    return json_is_string(v) || json_is_number(v) || json_is_array(v);
}

/* What moves throughput and was not the same after the run as before. */
static void changes(struct rp_section *s)
{
    static const char *const impacts[] = {"high", "medium", "low"}, *const sides[] = {"before", "after"};
    const json_t *list = json_object_get(s->run, "environment_changes");
    size_t shown = 0;
    char pointer[64];
    for (int k = 0; k < 3; k++)
        for (size_t i = 0; i < json_array_size(list) && shown < CHANGES_MAX; i++) {
            const json_t *c = json_array_get(list, i);
            const char *impact = json_string_value(json_object_get(c, "impact")), *field = json_string_value(json_object_get(c, "field"));
            if (!impact || !field || strcmp(impact, impacts[k]) != 0)
                continue;
            if (!shown++)
                rp_table_open(s->out, "What changed during the run", "field|impact|before|after");
            rp_buf_puts(s->out, "<tr><th scope=\"row\">");
            rp_html_text(s->out, field);
            rp_buf_printf(s->out, "</th><td>%s%s</td>", impacts[k], json_is_true(json_object_get(c, "moment")) ? ", of the moment" : "");
            for (int side = 0; side < 2; side++) {
                rp_buf_puts(s->out, "<td>");
                snprintf(pointer, sizeof pointer, "/environment_changes/%zu/%s", i, sides[side]);
                if (side_is_shown(json_object_get(c, sides[side])))
                    rp_run_figure(s, pointer, "u");
                else
                    rp_buf_puts(s->out, "not known");
                rp_buf_puts(s->out, "</td>");
            }
            rp_buf_puts(s->out, "</tr>\n");
        }
    if (shown)
        rp_table_close(s->out);
    else if (list)
        rp_buf_puts(s->out, "<p>Nothing that is known to move throughput changed between the captures before and after the run.</p>\n");
}

void rp_section_environment(struct rp_section *s)
{
    const char *group = "";
    rp_section_open(s, "environment", "Environment");
    rp_table_open(s->out, "Before the run; what is not listed is not known or not there", "part|what|value");
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        if (!is_known(s, environment[i][2]))
            continue;
        rp_buf_printf(s->out, "<tr><td>%s</td><th scope=\"row\">%s</th><td>", strcmp(group, environment[i][0]) ? environment[i][0] : "",
                      environment[i][1]);
        rp_before_figure(s, environment[i][2], "u");
        rp_buf_puts(s->out, "</td></tr>\n");
        group = environment[i][0];
    }
    rp_table_close(s->out);
    rp_buf_printf(s->out, "<p>Everything that was captured: <code>repro inspect BUNDLE %s</code></p>\n", RP_BEFORE);
    changes(s);
    rp_section_close(s);
}

/* ---- settings ---- */

void rp_section_settings(struct rp_section *s)
{
    const struct rp_member *recipe = rp_bundle_find(&s->b->kept->bundle, "recipe.yaml");
    int n = 0, shown = 0;
    const struct rp_key *k = rp_key_table(&n);
    rp_section_open(s, "settings", "Settings");
    for (int i = 0; i < n; i++) {
        const json_t *entry = json_object_get(json_object_get(s->run, "recipe"), k[i].name);
        const char *origin = json_string_value(json_object_get(entry, "origin"));
        RP_BUF pointer = {0};
        if (!origin || (strcmp(origin, "command line") != 0 && strcmp(origin, "backend section") != 0))
            continue;
        if (!shown++)
            rp_table_open(s->out, "Set otherwise than in the recipe", "key|value|by");
        rp_buf_puts(&pointer, "/recipe");
        rp_pointer_add(&pointer, k[i].name);
        rp_buf_puts(&pointer, "/value");
        rp_buf_printf(s->out, "<tr><th scope=\"row\"><code>%s</code></th><td>", k[i].name);
        rp_run_figure(s, rp_buf_text(&pointer), "t");
        rp_buf_printf(s->out, "</td><td>%s</td></tr>\n", origin);
    }
    if (shown)
        rp_table_close(s->out);
    else
        rp_buf_puts(s->out, "<p>Nothing was set otherwise than in the recipe.</p>\n");
    rp_buf_printf(s->out, "<details><summary>The recipe</summary><pre tabindex=\"0\" role=\"region\" aria-label=\"The recipe\">");
    rp_html_lines(s->out, rp_buf_text(&recipe->bytes), recipe->bytes.size);
    rp_buf_puts(s->out, "</pre></details>\n");
    rp_section_close(s);
}

/* ---- how to check and repeat ---- */

/* The name that `run` gives a bundle; only what no shell would act on. */
static void file_name(struct rp_buf *out, const struct rp_section *s)
{
    const char *recipe = json_string_value(json_object_get(s->run, "recipe_name")),
        *when = json_string_value(json_object_get(s->run, "started_at"));
    const char *slash = strrchr(recipe, '/'), *colon = strrchr(recipe, ':');
    recipe = slash ? slash + 1 : colon ? colon + 1 : recipe;
    size_t n = strcspn(recipe, ".");
    if (!n || strspn(recipe, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") < n || n > 80) {
        rp_buf_puts(out, "BUNDLE.repro.tar.zst");
        return;
    }
    rp_buf_printf(out, "%.*s-", (int)n, recipe);
    for (; *when; when++)
        if (strchr("0123456789TZ", *when))
            rp_buf_add(out, when, 1);
    rp_buf_puts(out, ".repro.tar.zst");
}

void rp_section_repeat(struct rp_section *s)
{
    RP_BUF name = {0};
    file_name(&name, s);
    const char *file = rp_buf_text(&name);
    rp_section_open(s, "repeat", "Verify and repeat it");
    rp_buf_puts(s->out, "<p>This page is a rendering and proves nothing by itself. The bundle does; these commands check it and this page "
                        "against it:</p>\n"
                        "<pre tabindex=\"0\" role=\"region\" aria-label=\"Commands\">");
    rp_buf_printf(s->out, "# signature, digests, every figure\nrepro verify %s --trust KEY\n\n", file);
    rp_buf_printf(s->out, "# train the first step again here, compare bits\nrepro verify %s --replay 1\n\n", file);
    rp_buf_printf(s->out, "# is all of this page but its box the bundle's?\nrepro verify %s --report THIS_PAGE.html\n\n", file);
    rp_buf_printf(s->out, "# with stock tools alone\ntar --zstd -xOf %s verify.sh &gt; verify.sh\nsh verify.sh %s KEY.pem\n\n", file, file);
    rp_buf_printf(s->out, "# repeat the run on your machine, compare bits and speed, and seal what comes of it\n"
                          "repro replicate %s\n</pre>\n", file);
    rp_buf_puts(s->out, "<p>KEY is the signer's public key or fingerprint from somewhere else than the bundle: the key inside shows that "
                        "nothing changed since it was signed, not who signed it. If your copy of the bundle has another name, use "
                        "that.</p>\n");
    if (json_is_true(rp_pointer(s->run, "/data/pinned"))) {
        rp_buf_puts(s->out, "<p>The data are pinned: archive ");
        rp_run_figure(s, "/data/archive", "t");
        rp_buf_puts(s->out, " with SHA-256 <code>");
        rp_run_figure(s, "/data/archive_sha256", "t");
        rp_buf_puts(s->out, "</code>.</p>\n");
    } else {
        rp_buf_puts(s->out, "<p>The data are the owner's own and not pinned: nobody can repeat this run without them.</p>\n");
    }
    rp_section_close(s);
}
