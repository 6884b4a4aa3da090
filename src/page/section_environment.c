/* The environment of the run, what changed during the run, its settings, and how to check and repeat it. */
#include "page/section.h"

#include "base/json.h"
#include "capture/value.h"
#include "report/tables.h"

#include <string.h>

/* ---- environment ---- */

static const char *const environment[][3] = {
    {"host", "machine", "/probes/host/product"},
    {"host", "vendor", "/probes/host/vendor"},
    {"host", "system", "/probes/distribution/name"},
    {"host", "C library", "/probes/distribution/libc"},
    {"host", "kernel", "/probes/kernel/release"},
    {"host", "hypervisor", "/probes/cpu/hypervisor"},
    {"host", "load average, 1 minute", "/probes/kernel/load_1min"},
    {"host", "clock source", "/probes/clock/source"},
    {"container", "engine", "/probes/container/engine"},
    {"container", "image", "/probes/container/image"},
    {"container", "CPU limit", "/probes/container/cpu_limit"},
    {"container", "memory limit", "/probes/container/memory_limit"},
    {"container", "privileged", "/probes/security/privileged"},
    {"container", "started with a command like", "/probes/launch/command"},
    {"processor", "model", "/probes/cpu/model_name"},
    {"processor", "microcode", "/probes/cpu/microcode"},
    {"processor", "sockets", "/probes/cpu/sockets"},
    {"processor", "cores", "/probes/cpu/cores"},
    {"processor", "threads", "/probes/cpu/threads"},
    {"processor", "governor", "/probes/frequency/governor"},
    {"processor", "highest clock now", "/probes/cpu/clock_max"},
    {"memory", "size", "/probes/memory/total"},
    {"memory", "available", "/probes/memory/available"},
    {"memory", "NUMA balancing", "/probes/memory/numa_balancing"},
    {"memory", "transparent huge pages", "/probes/memory/transparent_huge_pages"},
    {"GPU", "count", "/probes/gpu/count"},
    {"GPU", "first", "/probes/gpu/devices/gpu0/name"},
    {"GPU", "memory of the first", "/probes/gpu/devices/gpu0/memory_total"},
    {"GPU", "power limit of the first", "/probes/gpu/devices/gpu0/power_limit_enforced"},
    {"GPU", "ECC of the first", "/probes/gpu/devices/gpu0/ecc_mode"},
    {"GPU", "MIG of the first", "/probes/gpu/devices/gpu0/mig_mode"},
    {"GPU", "driver", "/probes/nvidia/version"},
    {"GPU", "CUDA of the driver", "/probes/gpu/cuda_driver_version"},
    {"GPU", "NCCL", "/probes/gpu/nccl_version"},
    {"sources", "commit of the working directory", "/probes/git/workdir/commit"},
    {"sources", "branch", "/probes/git/workdir/branch"},
    {"program", "version", "/probes/program/version"},
    {"program", "SHA-256", "/probes/program/sha256"},
};

void rp_section_environment(struct rp_section *s)
{
    const char *group = "";
    rp_html_table(s->out,
                  s->b->kept->run.nodes > 1 ? "Node 0 before the run; values that are unknown or absent are left out"
                                            : "Before the run; values that are unknown or absent are left out",
                  "part|what|value");
    for (size_t i = 0; i < sizeof environment / sizeof *environment; i++) {
        if (rp_leaf(rp_pointer(s->before, environment[i][2])).kind != RP_LEAF_KNOWN)
            continue;
        rp_buf_printf(s->out, "<tr><td>%s</td><th scope=\"row\">%s</th><td>",
                      strcmp(group, environment[i][0]) ? environment[i][0] : "", environment[i][1]);
        rp_before_figure(s, environment[i][2], "u");
        rp_buf_puts(s->out, "</td></tr>\n");
        group = environment[i][0];
    }
    rp_html_table_end(s->out);
    rp_buf_printf(s->out, "<p>Everything that was captured: <code>repro inspect BUNDLE %s</code></p>\n", RP_BEFORE);
    RP_DOC findings = {.as = RP_FILL_HTML};
    rp_table_findings(&findings, &s->b->kept->run);
    rp_doc_write(s->out, &findings, RP_DOC_HTML);
    rp_section_table(s, rp_table_changes);
}

/* ---- settings ---- */

void rp_section_settings(struct rp_section *s)
{
    const struct rp_member *recipe = rp_bundle_find(&s->b->kept->bundle, "recipe.yaml");
    RP_DOC d = {.as = RP_FILL_HTML};
    rp_table_overrides(&d, s->b->v->run);
    if (!d.n)
        rp_doc_line(&d, "All settings are those of the recipe.");
    rp_doc_write(s->out, &d, RP_DOC_HTML);
    rp_buf_puts(s->out,
                "<details><summary>The recipe</summary><pre tabindex=\"0\" role=\"region\" aria-label=\"The recipe\">");
    rp_html_lines(s->out, rp_buf_text(&recipe->bytes), recipe->bytes.size);
    rp_buf_puts(s->out, "</pre></details>\n");
}

/* ---- how to check and repeat ---- */

/* The name that `run` gives the bundle, without characters that a shell would act on. */
static void put_file_name(struct rp_buf *out, const struct rp_section *s)
{
    const char *recipe = s->facts->recipe_name, *when = s->facts->started_at;
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

static void put_command_repeat(struct rp_section *s, const char *file)
{
    rp_buf_printf(
        s->out,
        "<p>This page is a rendering and proves nothing by itself; the bundle does. These commands check the "
        "bundle:</p>\n"
        "<pre tabindex=\"0\" role=\"region\" aria-label=\"Commands\"># signature, digests, every figure again from the "
        "log\nrepro verify %s --trust KEY\n\n"
        "# what the command wrote\nrepro inspect %s " RP_LOG_STDOUT "\n\n"
        "# make this page again\nrepro report %s -o page.html\n\n"
        "# with stock tools only\ntar --zstd -xOf %s verify.sh &gt; verify.sh\nsh verify.sh %s KEY.pem\n</pre>\n"
        "<p>KEY is the signer's public key or fingerprint, obtained by other means than the bundle: the key inside "
        "shows that nothing changed since it was signed, not who signed it. The command itself is not in the bundle, "
        "and repro cannot repeat it.</p>\n",
        file, file, file, file, file);
}

void rp_section_repeat(struct rp_section *s)
{
    RP_BUF name = {0};
    put_file_name(&name, s);
    const char *file = rp_buf_text(&name);
    if (s->b->v->run->command) {
        put_command_repeat(s, file);
        return;
    }
    rp_buf_printf(
        s->out,
        "<p>This page is a rendering and proves nothing by itself; the bundle does. These commands check the "
        "bundle:</p>\n"
        "<pre tabindex=\"0\" role=\"region\" aria-label=\"Commands\"># signature, digests, every figure\nrepro verify "
        "%s --trust KEY\n\n"
        "# train the first step again here, compare bits\nrepro verify %s --replay 1\n\n"
        "# make this page again\nrepro report %s -o page.html\n\n"
        "# with stock tools only\ntar --zstd -xOf %s verify.sh &gt; verify.sh\nsh verify.sh %s KEY.pem\n\n"
        "# repeat the run on your machine, compare bits and speed, and seal the result\nrepro replicate %s\n</pre>\n"
        "<p>KEY is the signer's public key or fingerprint, obtained by other means than the bundle: the key inside "
        "shows that nothing changed since it was signed, not who signed it. If your copy of the bundle has another "
        "name, use that name.</p>\n",
        file, file, file, file, file, file);
    rp_section_fill(s, s->facts->data.pinned
                           ? "<p>The data are pinned: archive {/data/archive t} with SHA-256 "
                             "<code>{/data/archive_sha256 t}</code>.</p>\n"
                           : "<p>The data are private and not pinned: this run cannot be repeated without them.</p>\n");
}
