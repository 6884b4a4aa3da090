/* `repro version`: what this binary is. Starts no library: it has to answer in two milliseconds. */
#include "backend/backend.h"
#include "base/build.h"
#include "base/embed.h"
#include "base/json.h"
#include "cli/opts.h"
#include "ops/numerics.h"
#include "recipe/choices.h"

#include <stdio.h>
#include <string.h>

#define FORWARD "fell-forward: "

struct version_opts {
    int licenses;
};

#define AT(field) offsetof(struct version_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_FLAG(licenses, "licenses", 0, "print the notices of everything linked in"), {0}};

/* true, false, or null: an archive of the sources does not know. */
static json_t *dirty_json(const struct rp_build *b)
{
    return strcmp(b->dirty, "unknown") == 0 ? json_null() : json_boolean(strcmp(b->dirty, "dirty") == 0);
}

static int print_licenses(struct rp_cli *cli, struct rp_err *err)
{
    static const char *const names[] = {"LICENSE", "LICENSES.txt", "results/published/tensor_core/LICENSE"};
    RP_BUF text = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct rp_embed *e = rp_embed_find(names[i]);
        if (!e)
            return rp_fail(err, RP_UNAVAILABLE, "this build carries no '%s'", names[i]);
        rp_buf_add(&text, e->data, e->size);
        rp_buf_puts(&text, "\n");
    }
    cli->result = json_pack("{s:s}", "licenses", text.data);
    return rp_cli_write_output(cli, NULL, 0, &text, err);
}

/* The packages in the build record, each once: [{"name", "version", "files": [{"file", "sha256"}]}] */
static json_t *dependencies_json(const char *lines, json_t *forward)
{
    json_t *list = json_array(), *last = NULL;
    for (const char *line = lines, *end; *line; line = end + (*end == '\n')) {
        char name[64], version[64], digest[72], file[128];
        end = line + strcspn(line, "\n");
        if (strncmp(line, FORWARD, strlen(FORWARD)) == 0) {
            line += strlen(FORWARD);
            json_array_append_new(forward, json_stringn(line, (size_t)(end - line)));
            continue;
        }
        if (sscanf(line, "%63s %63s %71s %127s", name, version, digest, file) != 4)
            continue;
        if (!last || strcmp(json_string_value(json_object_get(last, "name")), name) != 0) {
            last = json_pack("{s:s, s:s, s:[]}", "name", name, "version", version, "files");
            json_array_append_new(list, last);
        }
        json_array_append_new(json_object_get(last, "files"), json_pack("{s:s, s:s}", "file", file, "sha256", digest));
    }
    return list;
}

/* The kernels in the GPU worker: [{"arch": "sm_90", "sha256", "bytes"}]. What the driver loads is these bytes. */
static json_t *device_code_json(const char *lines)
{
    json_t *list = json_array();
    char arch[32], digest[72];
    long bytes;
    while (*lines) {
        if (sscanf(lines, "%31s %71s %ld", arch, digest, &bytes) == 3)
            json_array_append_new(
                list, json_pack("{s:s, s:s, s:I}", "arch", arch, "sha256", digest, "bytes", (json_int_t)bytes));
        lines += strcspn(lines, "\n");
        lines += *lines == '\n';
    }
    return list;
}

/* The GPU worker inside: {"cuda", "sha256", "bytes", "device_compiler", "device_code"}, or null. */
static json_t *gpu_worker_json(const struct rp_build *b)
{
    char cuda[32], digest[72];
    long bytes;
    if (sscanf(b->gpu_worker, "%31s %71s %ld", cuda, digest, &bytes) != 3)
        return json_null();
    const char *code = b->device_code, *end = strchr(code, '\n');
    return json_pack("{s:s, s:s, s:I, s:s%, s:o}", "cuda", cuda, "sha256", digest, "bytes", (json_int_t)bytes,
                     "device_compiler", code, end ? (size_t)(end - code) : strlen(code), "device_code",
                     device_code_json(end ? end + 1 : ""));
}

/* Instruction sets of the CPU backend that work here, best last. */
static json_t *usable_isa_json(void)
{
    const struct rp_backend *cpu = &rp_backend_cpu;
    json_t *list = json_array();
    for (int isa = RP_ISA_auto + 1; isa < RP_ISA_COUNT; isa++) {
        struct rp_device_opts o = {.isa = rp_choice_name(RP_ISAS, isa)};
        if (!cpu->unavailable(&o))
            json_array_append_new(list, json_string(o.isa));
    }
    return list;
}

static const char text[] =
    "repro {/version t}\n"
    "commit\t{/commit t}[/dirty:, with local changes]\n"
    "arithmetic\t{/numerics t}\n"
    "compiler\t{/compiler t}\n"
    "usable here\t{/isa t}\n"
    "[!/gpu_worker:GPU worker\tnone: built without CUDA=1, so that GPUs are not seen\n]"
    "[/gpu_worker/cuda:GPU worker\tCUDA {/gpu_worker/cuda t}, sha256 {/gpu_worker/sha256 t}\n"
    "\tby {/gpu_worker/device_compiler t} for[/gpu_worker/device_code: {/arch t}]\n]"
    "[/dependencies:[!#:linked in]\t{/name t} {/version t}\n]"
    "[/fell_forward:[!#:fell forward]\t{ t} (the pinned version had left the archive)\n]";

static int cmd_version(struct rp_cli *cli, struct rp_err *err)
{
    const struct version_opts *o = cli->opts;
    if (o->licenses)
        return print_licenses(cli, err);
    const struct rp_build *b = rp_build_record();
    json_t *numerics = json_array(), *forward = json_array(), *linked = dependencies_json(b->deps, forward);
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        json_array_append_new(numerics, json_string(rp_numerics_name((enum rp_numerics)n)));
    rp_cli_return(cli,
                  json_pack("{s:s, s:s, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o}", "version", b->version, "commit",
                            b->commit, "dirty", dirty_json(b), "numerics", numerics, "compiler", b->compiler, "flags",
                            b->flags, "isa", usable_isa_json(), "gpu_worker", gpu_worker_json(b), "dependencies",
                            linked, "fell_forward", forward),
                  text);
    return 0;
}

const struct rp_command rp_cmd_version = {
    .name = "version",
    .operands = "",
    .summary = "print version, commit, compiler and linked libraries",
    .details =
        "A dependency whose pinned version had left the archive when this was built is shown as fallen forward.\n"
               "\n"
               "Examples:\n"
               "  repro version\n"
               "  repro version --licenses\n"
               "  repro version --json\n",
    .opts = opts,
    .opts_size = sizeof(struct version_opts),
    .run = cmd_version,
};
