/* `repro launch`: how to start a job of several processes with a launcher, a key for it, and what a launcher made of
 * this process. */
#include "base/build.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/opts.h"
#include "launch/form.h"
#include "recipe/recipe.h"
#include "supervise/joining.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct launch_opts {
    struct rp_joining_opts joining;
    const char *name, *image, *recipe, *gpus;
    int meet;
};

#define AT(field) offsetof(struct launch_opts, field)
static const struct rp_opt opts[] = {
    RP_OPTION_TEXT(name, "name", 'n', "NAME", "name of the job and of its bundle; default repro"),
    RP_OPTION_TEXT(recipe, "recipe", 'r', "RECIPE", "what every rank runs; default bert_fp32"),
    RP_OPTION_TEXT(image, "image", 'i', "IMAGE", "container image, where the form needs one"),
    RP_OPTION_TEXT(gpus, "gpus-per-node", 0, "N", "GPUs of each node; default as many as ranks, 0: none"),
    RP_OPTION_FLAG(meet, "meet", 0, "whoami: join the other processes, and show what they agreed on"),
    RP_JOINING_ROWS(joining),
    {0},
};

/* ---- key ---- */

static int print_key(struct rp_cli *cli, struct rp_err *err)
{
    RP_JOB_KEY key;
    char hex[RP_JOB_KEY_HEX];
    if (rp_job_key_new(&key, err) < 0)
        return -1;
    rp_job_key_hex(hex, &key);
    rp_cli_return(cli, json_pack("{s:s}", "key", hex), "{/key t}\n");
    explicit_bzero(hex, sizeof hex);
    return 0;
}

/* ---- whoami ---- */

/* Every process sends a message to the leader and gets it back, as a test of what a run does. */
static int exchange_words(struct rp_join *j, struct rp_err *err)
{
    enum { ANSWER_MS = 20000 };
    const int lead = j->own == 0;
    int heard = 0, member, got = 1;
    RP_JSON *hello = json_pack("{s:i}", "from", j->own);
    if (!lead && rp_join_send(j, 0, RP_FRAME_HELLO, hello, err) < 0)
        return -1;
    for (const uint64_t until = rp_now_ns() + ANSWER_MS * 1000000ull;
         heard < (lead ? j->members - 1 : j->members > 1) && rp_now_ns() < until;) {
        enum rp_frame type;
        RP_JSON *body = NULL;
        got = rp_join_next(j, 200, &member, &type, &body, err);
        if (got < 0)
            return -1;
        if (!got || type != RP_FRAME_HELLO)
            continue;
        if (rp_json_integer_at(body, "from") != (lead ? member : j->own))
            return rp_fail(err, RP_BUG, "a message of process %d came from another one", member);
        if (lead && rp_join_send(j, member, RP_FRAME_HELLO, body, err) < 0)
            return -1;
        heard++;
    }
    if (heard < (lead ? j->members - 1 : j->members > 1))
        return rp_fail(err, RP_UNAVAILABLE, "not all processes answered within %d s", ANSWER_MS / 1000);
    return rp_join_close(j, ANSWER_MS, err);
}

/* What the processes agreed on, as this one sees it; its last rank if it has several. */
static void add_met(json_t *result, const struct rp_join *j)
{
    const struct rp_job_member *own = &j->member[j->own];
    int hosts = 0;
    for (int i = 0; i < j->members; i++)
        hosts = j->member[i].host >= hosts ? j->member[i].host + 1 : hosts;
    json_object_update_new(result, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "index", j->own, "world", j->world,
                                             "first_rank", own->first_rank, "local_rank", own->local_rank, "host",
                                             own->host, "hosts", hosts, "members", rp_join_to_json(j)));
    if (own->ranks > 1)
        json_object_set_new(result, "last_rank", json_integer(own->first_rank + own->ranks - 1));
    if (j->own && own->clock.error_ns >= 0)
        json_object_update_new(result, json_pack("{s:f, s:f}", "clock_ms", (double)own->clock.wall_ns * 1e-6,
                                                 "clock_error_ms", (double)own->clock.error_ns * 1e-6));
}

static int meet_others(struct rp_cli *cli, struct rp_joining *j, json_t *result, struct rp_err *err)
{
    const struct launch_opts *o = cli->opts;
    struct rp_progress progress;
    RP_JSON *facts = json_pack("{s:s}", "commit of repro", rp_build_record()->commit);
    if (o->recipe)
        json_object_set_new(facts, "recipe", json_string(o->recipe));
    const int ranks =
        j->launch.kind == RP_LAUNCH_NODES && j->launch.ranks_per_node > 0 ? (int)j->launch.ranks_per_node : 1;
    rp_progress_init(&progress, STDERR_FILENO, cli->quiet);
    int failed = rp_joining_open(j, &o->joining, ranks, facts, NULL, &progress, err) < 0;
    rp_progress_end(&progress);
    if (failed)
        return -1;
    json_t *where =
        j->launch.size > 1 ? json_pack("{s:s, s:i}", "source", j->where.source, "port", j->where.port) : json_null();
    json_object_set_new(result, "rendezvous", where);
    add_met(result, &j->join); /* members are gone once the job is closed */
    return exchange_words(&j->join, err);
}

static const char whoami_text[] =
    "[/launcher:process {/rank t}[/size: of {/size t}], started by {/launcher_name t} ({/decided_by/0 t})"
    "[!/size:, which gives the number of processes later]][!/launcher:one process, started by no launcher]"
    "; key of the job: [/key_source:{/key_source p}][!/key_source:none]"
    "[/world:; rank[/last_rank:s {/first_rank t} to {/last_rank t}][!/last_rank: {/first_rank t}] of {/world t}, "
    "local rank {/local_rank t}, host {/host t} of {/hosts t}]"
    "[/clock_error_ms:; wall clock {/clock_ms d3} ms from that of rank 0, to within {/clock_error_ms d3} ms]"
    "[/note:\nnote: {/note p}]\n";

static int print_place(struct rp_cli *cli, struct rp_err *err)
{
    const struct launch_opts *o = cli->opts;
    __attribute__((cleanup(rp_joining_fini))) struct rp_joining j;
    if (rp_joining_detect(&j, &o->joining, err) < 0)
        return -1;
    RP_JSON *result = rp_launch_to_json(&j.launch);
    json_object_set_new(result, "key_source", rp_cli_path(j.key.source));
    json_object_update_new(result, json_pack("{s:s*, s:o}", "launcher_name", j.launch.launcher ? j.launch.name : NULL,
                                             "note", rp_cli_path(j.launch.note)));
    const int failed = o->meet && meet_others(cli, &j, result, err) < 0;
    rp_cli_return(cli, json_incref(result), failed ? "" : whoami_text); /* at once: lines of processes must not mix */
    return failed ? -1 : 0;
}

/* ---- forms ---- */

/* Steps of accumulation that give every rank a micro-batch; 0: those of the recipe do. -1: it cannot be read here, but
 * perhaps where the job runs. */
static long accumulation_for(const char *recipe, long ranks, struct rp_err *why)
{
    struct rp_recipe r;
    if (rp_recipe_load(&r, recipe, NULL, NULL, 0, why) < 0)
        return -1;
    const int64_t parts = r.parallel_tensor * r.parallel_pipeline,
                  data = parts > 0 && ranks % parts == 0 ? ranks / parts : 0;
    const int64_t steps = data > rp_recipe_micro_batches(&r) ? (data + r.parallel_data - 1) / r.parallel_data : 0;
    rp_recipe_fini(&r);
    return (long)steps;
}

static int print_form(struct rp_cli *cli, struct rp_err *err)
{
    const struct launch_opts *o = cli->opts;
    RP_BUF text = {0};
    struct rp_form_opts f = {.name = o->name ? o->name : "repro",
                             .image = o->image,
                             .recipe = o->recipe ? o->recipe : "bert_fp32",
                             .nodes = o->joining.nodes ? o->joining.nodes : 2,
                             .ranks_per_node = o->joining.ranks_per_node ? o->joining.ranks_per_node : 8};
    int64_t gpus = f.ranks_per_node;
    if (o->gpus && rp_parse_count(o->gpus, &gpus) < 0)
        return rp_fail(err, RP_USAGE, "--gpus-per-node: expected a number");
    f.gpus_per_node = (long)gpus;
    struct rp_err why;
    const long ranks = f.nodes * f.ranks_per_node, steps = accumulation_for(f.recipe, ranks, &why);
    f.accumulation = steps > 0 ? steps : 0;
    if (rp_form_write(&text, cli->argv[0], &f, err) < 0)
        return -1;
    if (steps < 0 && !cli->quiet)
        fprintf(
            stderr,
            "repro: note: the recipe cannot be read here, so nothing is set to give each of %ld ranks a micro-batch: "
            "%s\n",
            ranks, why.msg);
    rp_cli_return(cli, json_pack("{s:s, s:s}", "kind", cli->argv[0], "text", text.data), "{/text l}");
    return 0;
}

static int cmd_launch(struct rp_cli *cli, struct rp_err *err)
{
    if (strcmp(cli->argv[0], "key") == 0)
        return print_key(cli, err);
    return strcmp(cli->argv[0], "whoami") == 0 ? print_place(cli, err) : print_form(cli, err);
}

const struct rp_command rp_cmd_launch = {
    .name = "launch",
    .operands = "KIND",
    .summary = "print a script or manifest that starts many ranks, or a new key of a job",
    .details = "KIND is a form to be printed, with --name, --nodes, --ranks-per-node, --gpus-per-node, --recipe and "
               "--image filled in:\n"
#define FORM(id, file, what) "  " id ": " what "\n"
#include "launch/forms.def"
#undef FORM
               "or key, or whoami.\n"
               "\n"
               "key prints 32 random bytes as 64 hex digits. All processes of a job need the same key, which must stay "
               "secret: it authenticates and encrypts everything that they send. It is read from --job-key-fd, "
               "--job-key, REPRO_JOB_KEY or the file that REPRO_JOB_KEY_FILE names, and is never recorded. A key file "
               "has mode 600; a file of root in memory, as a Secret of Kubernetes is mounted, may be readable by "
               "others. mpirun, srun and mpiexec carry the environment over the network in clear unless the site "
               "protects it: use a key file on a shared file system where that matters.\n"
               "\n"
               "Each launcher in short, for a recipe with at least as many micro-batches (train.accumulation_steps * "
               "parallel.data) as ranks. All but the first two need the key of the job: in the environment (export "
               "REPRO_JOB_KEY=$(repro launch key), the same on every node), in Kubernetes as a Secret, as the manifest "
               "shows. The program has to be at the same path on every host, except with --hosts.\n"
               "  this machine      repro run RECIPE --ranks 4\n"
               "  hosts over ssh    repro run RECIPE --hosts localhost:4,node2:4\n"
               "  Open MPI          mpirun -n 8 -x REPRO_JOB_KEY --bind-to none repro run RECIPE\n"
               "  MPICH, Intel MPI  mpiexec -n 8 repro run RECIPE\n"
               "  Slurm             srun -N 2 -n 8 --export=ALL repro run RECIPE\n"
               "  torchrun          torchrun --no-python --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d\n"
               "   (on each node)     --rdzv-endpoint NODE0:29400 --rdzv-id JOB repro run RECIPE\n"
               "  Kubernetes        repro launch k8s-indexed-job --image IMAGE -r RECIPE | kubectl apply -f -\n"
               "  others            LAUNCHER repro run RECIPE --rank-from VAR --size-from VAR --join HOST_OF_RANK_0\n"
               "  none, on node 1   repro run RECIPE --nodes 2 --node-rank 1 --ranks-per-node 4 --join NODE0\n"
               "\n"
               "whoami shows which of several processes this one is, and by which variables. Started in the place of "
               "'repro run', with --meet, it joins the other processes and shows what they agreed on: ranks, hosts and "
               "the offsets of their clocks. Two launchers that disagree are refused; --launcher chooses one. Without "
               "any, give --nodes, --node-rank and --join; where another launcher sets variables, --rank-from and "
               "--size-from with their names. A key of the job without either is refused. Launchers, in the order in "
               "which they win:\n"
#define LAUNCHER(row, id, name, ...) "  " id " (" name ")\n"
#define LAUNCHER_ALSO(...)
#include "launch/launchers.def"
#undef LAUNCHER
               "\n"
               "Rank 0 listens on --port, else on the port of --join, else on 61440 + N % 4096, where N follows from "
               "the job's id; under mpiexec of MPICH on any port. The others find it by --join, else as the launcher "
               "offers. With Open MPI that is the host of mpirun or the first node of an allocation: where rank 0 runs "
               "on another one, give --join, as the form kubeflow-mpijob does.\n"
               "\n"
               "Examples:\n"
               "  repro launch sbatch --nodes 4 --recipe bert_fp32 > job.sh && sbatch job.sh\n"
               "  repro launch k8s-indexed-job --image registry.example/repro:1 --nodes 2 | kubectl apply -f -\n"
               "  export REPRO_JOB_KEY=$(repro launch key); mpirun -n 4 -x REPRO_JOB_KEY repro launch whoami --meet\n",
    .opts = opts, .opts_size = sizeof(struct launch_opts), .run = cmd_launch,
};
