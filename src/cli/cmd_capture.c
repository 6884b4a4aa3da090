/* `repro capture`: the environment document on its own. */
#include "base/json.h"
#include "capture/capture.h"
#include "capture/value.h"
#include "cli/opts.h"
#include "cli/explain.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct capture_opts {
    const char *output, *probe, *root, *record, *explain;
    struct rp_opt_list repo;
    int force, identify, digests;
};

#define AT(field) offsetof(struct capture_opts, field)
static const struct rp_opt opts[] = {
    RP_OPT_OUTPUT(output, "write the JSON document to this file; - is standard output"),
    RP_OPT_FORCE(force),
    RP_OPT_IDENTIFY(identify),
    RP_OPTION_TEXT(probe, "probe", 0, "LIST", "only these probes, as in cpu,memory,kernel"),
    RP_OPT_ROOT(root),
    RP_OPTION_TEXT(record, "record", 0, "DIR", "also write the files that were read, redacted, to this new directory"),
    RP_OPTION_FLAG(digests, "digests", 0, "SHA-256 of every CUDA library found; otherwise only of the small ones"),
    RP_OPTION_LIST(repo, "repo", "PATH", "another git repository to describe; may be repeated"),
    RP_OPTION_TEXT(explain, "explain", 0, "FIELD",
                   "explain the meaning, source and impact of a field; captures nothing"),
    {0},
};

static int is_record(const char *root)
{
    RP_FREE char *path = rp_asprintf("%s/.repro", root ? root : "");
    struct stat st;
    return root && stat(path, &st) == 0;
}

static int check_repos(const struct capture_opts *o, struct rp_err *err)
{
    struct stat st;
    for (int i = 0; i < o->repo.n; i++)
        if (stat(o->repo.item[i], &st) < 0 || !S_ISDIR(st.st_mode))
            return rp_fail(err, RP_IO, "--repo: '%s' is not a directory", o->repo.item[i]);
    return 0;
}

/* A warning for each --repo of which nothing is known. */
static void warn_of_repos(const json_t *env)
{
    const char *name;
    json_t *one;
    json_object_foreach((json_t *)rp_group(env, "probes.git"), name, one) {
        const char *why = rp_detail_at(one, "commit");
        if (strcmp(name, "workdir") != 0 && !rp_known(one, "layout"))
            fprintf(stderr, "repro: --repo: no state of git.%s: %s\n", name, *why ? why : "no git repository");
    }
}

static int cmd_capture(struct rp_cli *cli, struct rp_err *err)
{
    const struct capture_opts *o = cli->opts;
    struct rp_capture_opts c = {.root = o->root ? o->root : "/",
                                .record = o->record,
                                .identify = o->identify,
                                .digests = o->digests,
                                .repos = o->repo.item,
                                .n_repos = o->repo.n};
    if (o->explain)
        return rp_explain(cli, o->explain, err);
    if (o->record && o->identify)
        return rp_fail(err, RP_USAGE, "--record and --identify exclude each other: a record is always redacted");
    if (o->root && (o->repo.n || o->digests))
        return rp_fail(err, RP_USAGE,
                       "--root and --%s exclude each other: a recorded machine is read as it was recorded",
                       o->repo.n ? "repo" : "digests");
    if (o->identify && is_record(o->root))
        return rp_fail(err, RP_USAGE, "--identify: '%s' is a record, and a record is always redacted", o->root);
    if (check_repos(o, err) < 0)
        return -1;
    int to_stdout = o->output && strcmp(o->output, "-") == 0, to_file = o->output && !to_stdout;
    if (to_file && rp_cli_check_output(o->output, o->force, err) < 0)
        return -1;
    if (o->probe && rp_capture_select(&c, o->probe, err) < 0)
        return -1;
    RP_JSON *env = rp_capture(&c, err);
    if (!env)
        return -1;
    RP_BUF text = {0}, summary = {0};
    rp_json_write(&text, env);
    if ((to_file || to_stdout) && rp_cli_write_output(cli, to_file ? o->output : NULL, o->force, &text, err) < 0)
        return -1;
    if (cli->json) {
        cli->result = json_incref(env);
    } else if (!o->output ||
               (to_file && !cli->quiet && rp_cli_has_stdout())) { /* with -o FILE the summary is printed as well */
        rp_capture_summary(&summary, env);
        rp_cli_print(&summary);
        return 0;
    }
    if (o->repo.n)
        warn_of_repos(env);
    return 0;
}

const struct rp_command rp_cmd_capture = {
    .name = "capture", .operands = "", .summary = "describe this machine", .details =
        "Prints a summary, warnings first; the full document (schema repro-env/1) goes to a file with -o, or to "
        "standard output with --json. With -o FILE, --quiet omits the summary. 'repro run' captures before and after a "
        "run by itself. If the system forbids programs in memory (vm.memfd_noexec=2), the program that queries GPU "
        "libraries is written to ~/.cache/repro once.\n"
        "\n"
        "Every value has a state: ok, absent, denied or error. Absent: the machine does not have it; values hidden by "
        "a missing /proc or /sys are denied. Environment variables are recorded by an allow-list; host name and serial "
        "numbers are salted hashes unless --identify is given, and so are names of network interfaces other than those "
        "that the kernel, systemd or container tools give (eth0, enp3s0, docker0): vpn-customer becomes if- and 12 "
        "digits. A GPU library or driver that does not answer in 10 s is an error; RP_GPU_TIMEOUT_MS=60000 in the "
        "environment waits longer.\n"
        "\n"
        "Only Podman shows the image of a container inside it. Under other engines REPRO_IMAGE in the environment "
        "names it: docker run -e REPRO_IMAGE=IMAGE@sha256:..., with the digest that 'docker image inspect' lists as "
        "RepoDigests. The scripts and manifests of 'repro launch' set it. A registry that is not a public one is left "
        "out.\n"
        "\n"
        "--record DIR writes every file, listing and link that the probes read, redacted like the document; --root DIR "
        "reads such a directory instead of / and gives the same document. --repo and --digests apply to the recording. "
        "Review a record before you publish it.\n"
        "\n"
        "--explain takes a field of the document (gpu.devices.gpu0.clock_sm), a name (clock_sm), stars for any names, "
        "or the beginning of names, whose fields it lists (gpu.devices).\n"
        "\n"
        "Examples:\n"
        "  repro capture -o env.json\n"
        "  repro capture --probe cpu,memory --json | jq .probes.memory\n"
        "  repro capture --record machine && repro capture --root machine\n"
        "  repro capture --explain clock_sm_application\n",
    .opts = opts, .opts_size = sizeof(struct capture_opts), .run = cmd_capture,
};
