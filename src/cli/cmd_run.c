/* `repro run`: where its recipe comes from, and its help. */
#include "cli/run.h"
#include "cli/run_scan.h"

#include <string.h>

static int load_operand(const struct rp_run_from *from, struct rp_recipe *r, const char *backend,
                        const char *const *set, int n, struct rp_err *err)
{
    if (from->text)
        return rp_recipe_parse(r, rp_buf_text(from->text), from->text->size, RP_CLI_INPUT, backend, set, n, err);
    return rp_recipe_load(r, from->where, backend, set, n, err);
}

/* A recipe with several mistakes: the message has one, and where the others are. */
static void count_mistakes(const struct rp_run_from *from, struct rp_err *err)
{
    struct rp_recipe r = {0};
    struct rp_mistakes m = {.n = 0};
    struct rp_err ignored;
    if (err->code != RP_USAGE || from->text || rp_recipe_load_all(&r, &m, from->where, &ignored) == 0)
        rp_recipe_fini(&r);
    else if (m.n > 1) {
        const struct rp_err first = *err;
        (void)rp_fail(err, RP_USAGE, "%s; %d mistakes in all: repro recipes check %s", first.msg, m.n, from->where);
    }
}

static int cmd_run(struct rp_cli *cli, struct rp_err *err)
{
    RP_BUF text = {0};
    const int piped = strcmp(cli->argv[0], "-") == 0;
    if (piped && rp_cli_read_input(&text, RP_RECIPE_MAX, err) < 0)
        return rp_wrap(err, "recipe");
    const struct rp_run_from from = {.load = load_operand, .where = cli->argv[0], .text = piped ? &text : NULL};
    const int scan = rp_run_is_scan(cli->opts);
    if ((scan ? rp_run_scan : rp_run)(cli, cli->opts, &from, err) == 0)
        return 0;
    count_mistakes(&from, err);
    return -1;
}

const struct rp_command rp_cmd_run = {
    .name = "run", .operands = "RECIPE", .summary = "train a recipe, measure it, and seal a signed bundle", .details =
        "RECIPE is a file, with or without .yaml, the name of an embedded recipe ('repro recipes' lists them), or - "
        "for standard input. Any other name is reported as missing (status 3). Standard output ends in the path of the "
        "bundle (with -o - it is the bundle), and begins with the reason if a run did not reach its end.\n"
        "\n"
        "Interrupting: Ctrl-C ends the run within a second and seals the measurements, marked incomplete; before "
        "training begins there is nothing to seal. A second Ctrl-C exits at once and writes nothing. If the worker "
        "crashes, hangs or is killed, the bundle is marked failed, and the exit status shows the reason.\n"
        "\n"
        "Several ranks:\n"
        "- --ranks N starts N processes on this machine. Each uses a GPU of its own, or its share of the CPUs. If a "
        "step has fewer micro-batches than ranks, each rank keeps the batch of the recipe, and the step grows.\n"
        "- Under mpirun, mpiexec, srun, torchrun or in a Kubernetes Job, and with --nodes, --node-rank and --join, "
        "every process is one rank; with --ranks-per-node M it starts M. 'repro help launch' shows a command line for "
        "each.\n"
        "- All processes need the key of the job in REPRO_JOB_KEY ('repro launch key' makes one). Without it, repro "
        "neither listens nor connects.\n"
        "- Process 0 captures all hosts, collects the records of every rank and seals one bundle.\n"
        "- The result has the bits of one rank, whatever the number of ranks, their layout and hosts; 'verify "
        "--replay' replays any run on one rank.\n"
        "- --layout DxTxP divides the micro-batches of a step (train.accumulation_steps * parallel.data), the tensors "
        "of gpt (T divides parallel.tensor) and its layers. The default follows the recipe's degrees if the number of "
        "ranks allows it.\n"
        "- A rank that crashes, hangs (run.hang_seconds) or loses its network ends the run on all hosts. The bundle is "
        "marked failed and names the rank.\n"
        "- All processes must run the same program, compared by SHA-256. --allow-different-programs, given to all of "
        "them, accepts other builds of the same commit and records their digests.\n"
        "- REPRO_HOST=NAME: for tests, processes of one machine count as different hosts.\n"
        "\n"
        "Communication:\n"
        "- Connections between hosts are encrypted and authenticated with the key of the job.\n"
        "- On GPUs, NCCL carries gradients, weights and activations, and does not encrypt them. Use a trusted network, "
        "or --set run.transport=sockets.\n"
        "- run.transport=sockets copies through host memory: slower, encrypted, without NCCL. It also connects ranks "
        "on GPUs with ranks on CPUs (--backend of each process), and lets ranks of a host share a GPU.\n"
        "- Data-parallel ranks exchange gradients during the backward pass, unless GPUs divide tensors or use sockets. "
        "run.overlap_kib sets the size of the buckets, or turns this off.\n"
        "- Each rank keeps the optimizer state of its share of the weights; with parallel.optimizer_state replicated, "
        "each keeps all of it.\n"
        "\n"
        "Hosts: --hosts NAME[:N],... starts the processes over ssh.\n"
        "- NAME is what ssh accepts: an alias of ssh_config, user@name or [IPv6]. N is the number of ranks there; "
        "default --ranks-per-node, else 1.\n"
        "- One of the hosts is this machine, as localhost, by name or by address. Its process leads, has the first "
        "ranks and seals the bundle.\n"
        "- ssh must not ask questions: try 'ssh -o BatchMode=yes NAME true'. --ssh or REPRO_SSH replaces the command.\n"
        "- The program copies itself to every other host and removes the copy once it runs. Nothing is copied if the "
        "same bytes are there as 'repro' in PATH, or in the cache, where --keep-program leaves them.\n"
        "- Recipe, options and the key of the job travel through ssh. The key is a new one unless one is given.\n"
        "- Data do not travel. Embedded samples are in the program; a pinned archive must be next to the recipe at the "
        "same path, on a shared file system, or in the store of each host ('repro data unpack'). The paths of "
        "data.path and --init must exist on every host.\n"
        "- Process 0 listens on any port, or on --port. The others try the address from which ssh came, then the other "
        "addresses of this machine, or only the one of --join.\n"
        "- The job ends when a host, its process or its ssh ends.\n"
        "\n"
        "Progress: --progress json writes one object a line to standard error: {\"event\": \"phase\", \"phase\"}, "
        "{\"event\": \"step\", \"phase\", \"step\", \"steps\", \"loss\", \"rate\", \"unit\", \"left_s\"}, {\"event\": "
        "\"note\", \"text\"} and, if the run fails, {\"event\": \"error\", \"code\", \"exit\", \"message\"}. What is "
        "unknown is null. Steps follow at most every 0.1 s; --quiet leaves only the error. With --json standard output "
        "has the result.\n"
        "\n"
        "Series: --scan KEY=V1,V2,... makes a run for each value, several --scan one for each combination; --runs N "
        "repeats them in turn. Each run seals a bundle. The table has medians, and spread: highest minus lowest over "
        "median. If a run fails, the others follow, and the exit status is that of the worst.\n"
        "\n"
        "Planning: --plan estimates how long training takes on the CPUs here, and sizes one rank here and on GPUs of "
        "16, 32, 80 and 141 GB; no GPU is needed. A recipe with more degrees of parallelism than ranks keeps the "
        "arithmetic, and the bits, of all of them; its speed is that of the ranks that run. For each thread that "
        "decodes images the plan reserves memory for one image of 2000 x 1500 pixels in a single scan; progressive "
        "images need up to 3 more bytes per pixel.\n"
        "\n"
        "Challenges: --challenge takes a file of 'repro challenge new' from a skeptic, or a public value (a drand "
        "round or a Bitcoin block header). The seeds follow from it, so that no bit of the run can be older. 'repro "
        "help challenge' describes the protocol.\n"
        "\n"
        "Checkpoints:\n"
        "- --init reads safetensors or torch.save files or directories of transformers: model.safetensors or "
        "pytorch_model.bin, config.json, optimizer.safetensors.\n"
        "- Tensors are named as in BertForPreTraining, GPT2LMHeadModel and torchvision's ResNet. The first part of a "
        "name may be missing, and layer norms may have gamma and beta. F16 and BF16 are widened exactly.\n"
        "- Files of BertForMaskedLM, BertModel and BertForNextSentencePrediction lack heads. These are initialised "
        "from seed.init, and listed in run.json.\n"
        "- Any other missing or unknown tensor is refused, and so is a setting of config.json that affects the "
        "arithmetic and differs from the recipe.\n"
        "- --save writes one file. If its argument is an existing directory or ends in '/', it writes the three files "
        "(ResNet: no config.json), which from_pretrained() reads and --init continues.\n"
        "\n"
        "Times in step records: input_ns is the time a step waited for its samples before it began. On CPUs that is "
        "all of reading, decoding and preparing; on a GPU, which prepares the next step during a step, it is the rest. "
        "A run whose timed steps waited 10 % or more of their time is reported as limited by its input, else by its "
        "device. With several ranks, exchange_ns is the time it waited for exchanges, overlap_ns that of those during "
        "the backward pass.\n"
        "\n"
        "Examples:\n"
        "  repro run bert_tiny_fp32\n"
        "  repro run recipes/bert_fp32 --set train.batch_size=8 --steps 3\n"
        "  repro run bert_fp32 --scan train.batch_size=8,16,32 --runs 3\n"
        "  repro run bert_fp32 --plan\n"
        "  repro run bert_fp32 --hosts localhost:4,node2:4 --set train.accumulation_steps=8\n",
    .opts = rp_run_opt_table,
    .opts_size = sizeof(struct rp_run_opts),
    .more = "store",
    .more_are = "rare options and those of jobs",
    .run = cmd_run,
};
