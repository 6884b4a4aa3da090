/* Which process of a job this is: environments of every launcher as they were seen, the traps among them, and where
 * rank 0 is looked for. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "launch/launcher.h"
#include "launch/prte.h"
#include "launch/rendezvous.h"
#include "tests/unit/scratch.h"

#include <stdlib.h>
#include <string.h>

/* "A=1 B=x" becomes the whole environment. */
static void set_environment(const char *words)
{
    RP_FREE char *copy = rp_strdup(words);
    char *save = NULL;
    clearenv();
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equal = strchr(word, '=');
        *equal = 0;
        setenv(word, equal + 1, 1);
    }
}

#define OMPI4                                                                                                          \
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 "         \
    "OMPI_COMM_WORLD_NODE_RANK=1 "                                                                                     \
    "PMIX_RANK=3 PMIX_NAMESPACE=1537081345 "                                                                           \
    "OMPI_MCA_orte_hnp_uri=1537081344.0;tcp://192.0.2.2,10.0.0.2:36961;tcp6://[2001:db8::2]:42791"
#define OMPI5                                                                                                          \
    "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 "         \
    "PRTE_LAUNCHED=1 PMIX_RANK=1 "                                                                                     \
    "PMIX_NAMESPACE=prterun-node1-77@1 PMIX_SERVER_URI41=prterun-node1-77@0.0;tcp4://192.0.2.7:41003"
#define TORCHRUN                                                                                                       \
    "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=8 GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=node1 "          \
    "MASTER_PORT=29400 "                                                                                               \
    "TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0 TORCHELASTIC_USE_AGENT_STORE=True"
#define HYDRA "PMI_RANK=1 PMI_SIZE=4 PMI_FD=6 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4"
#define SRUN                                                                                                           \
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=2 SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=8 SLURM_LOCALID=1 "          \
    "SLURM_NODEID=1 "                                                                                                  \
    "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=gpu[07-08] SLURM_STEP_TASKS_PER_NODE=4(x2) "                           \
    "SLURM_LAUNCH_NODE_IPADDR=192.0.2.99 "                                                                             \
    "SLURM_SRUN_COMM_HOST=192.0.2.99"
#define SBATCH                                                                                                         \
    "SLURM_JOB_ID=4711 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_NTASKS=8 SLURM_NPROCS=8 "                   \
    "SLURM_JOB_NUM_NODES=2 SLURM_NODELIST=gpu[07-08]"
#define PYTORCHJOB                                                                                                     \
    "RANK=1 WORLD_SIZE=16 MASTER_ADDR=job-master-0 MASTER_PORT=23456 PET_NPROC_PER_NODE=8 PET_NODE_RANK=1 "            \
    "PET_NNODES=2"
#define TRAINER                                                                                                        \
    "PET_NODE_RANK=1 PET_NNODES=4 PET_NPROC_PER_NODE=auto PET_MASTER_ADDR=job-node-0-0.job PET_MASTER_PORT=29400"
#define FLUX "FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=1 FLUX_JOB_ID=f23ReXsAaB"

static const struct {
    const char *name, *environment;
    struct rp_launch_opts o;
    const char *expected; /* launcher kind rank/size local/of node/of per node; NULL: refused */
} cases[] = {
    {"nothing", "HOME=/home/me", {0}, "- alone 0/1 -1/0 -1/0 0"},
    {"Open MPI 4", OMPI4, {0}, "openmpi ranks 3/8 1/2 -1/0 0"},
    {"Open MPI 5", OMPI5, {0}, "openmpi ranks 1/2 0/1 -1/0 0"},
    {"one process of mpirun", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", {0}, "openmpi ranks 0/1 -1/0 -1/0 0"},
    {"torchrun", TORCHRUN, {0}, "torchrun ranks 9/16 1/8 1/2 0"},
    {"virtual local rank of torchrun",
     "RANK=3 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4 CUDA_VISIBLE_DEVICES=3",
     {0},
     "torchrun ranks 3/4 0/4 -1/0 0"},
    {"Hydra", HYDRA, {0}, "mpich ranks 1/4 1/4 -1/0 0"},
    {"Hydra with a port",
     "PMI_ID=2 PMI_PORT=node1:34435 MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4",
     {0},
     "mpich ranks 2/0 2/4 -1/0 0"},
    {"Hydra with an id and a size", "PMI_ID=2 PMI_SIZE=3", {0}, "mpich ranks 2/3 -1/0 -1/0 0"},
    {"srun", SRUN, {0}, "srun ranks 5/8 1/0 1/2 0"},
    {"srun --mpi=pmi2", SRUN " PMI_RANK=5 PMI_SIZE=8 PMI_FD=11 PMI_JOBID=4711.2", {0}, "srun ranks 5/8 1/0 1/2 0"},
    {"srun --mpi=pmix", SRUN " PMIX_RANK=5 PMIX_NAMESPACE=slurm.pmix.4711.2", {0}, "srun ranks 5/8 1/0 1/2 0"},
    {"srun, but only SLURM_NTASKS_PER_NODE was given",
     "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     {0},
     "srun ranks 1/2 -1/0 -1/0 0"},
    {"one task of srun: a shell of salloc",
     "SLURM_JOB_ID=1 SLURM_STEP_ID=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=8",
     {0},
     "- alone 0/1 -1/0 -1/0 0"},
    {"a batch script", SBATCH, {0}, "- alone 0/1 -1/0 -1/0 0 note"},
    {"a batch script that means several", SBATCH, {.several = 1}, NULL},
    {"mpirun in an allocation", OMPI4 " " SBATCH, {.several = 1}, "openmpi ranks 3/8 1/2 -1/0 0"},
    {"mpirun whose daemons srun started",
     OMPI4 " SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4",
     {0},
     "openmpi ranks 3/8 1/2 -1/0 0"},
    {"mpiexec whose proxies srun started",
     HYDRA " SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     {0},
     "mpich ranks 1/4 1/4 -1/0 0"},
    {"torchrun whose agents srun started",
     TORCHRUN " SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2",
     {0},
     "torchrun ranks 9/16 1/8 1/2 0"},
    {"torchrun whose agents mpirun started",
     TORCHRUN " OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
     {0},
     "torchrun ranks 9/16 1/8 1/2 0"},
    {"a script that exports RANK for mpirun",
     OMPI4 " RANK=3 WORLD_SIZE=8 LOCAL_RANK=1",
     {0},
     "openmpi ranks 3/8 1/2 -1/0 0"},
    {"RANK of an outer job", OMPI4 " RANK=0 WORLD_SIZE=16 LOCAL_RANK=0", {0}, NULL},
    {"mpirun and mpiexec disagree", OMPI4 " " HYDRA, {0}, NULL},
    {"and one is chosen", OMPI4 " " HYDRA, {.launcher = "mpich"}, "mpich ranks 1/4 1/4 -1/0 0"},
    {"the chosen one is not here", OMPI4, {.launcher = "torchrun"}, NULL},
    {"a rank outside", "RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", {0}, NULL},
    {"a variable of another program", "PMI_RANK=secret PMI_SIZE=2", {0}, "- alone 0/1 -1/0 -1/0 0"},
    {"PyTorchJob", PYTORCHJOB, {0}, "pytorchjob nodes 1/2 -1/0 1/2 8"},
    {"PyTorchJob before PET_", "RANK=1 WORLD_SIZE=4 MASTER_ADDR=job-master-0", {0}, "pytorchjob nodes 1/4 -1/0 1/4 0"},
    {"PyTorchJob with a range of nodes",
     "RANK=1 WORLD_SIZE=8 PET_NNODES=1:4 PET_NPROC_PER_NODE=4",
     {0},
     "pytorchjob nodes 1/2 -1/0 1/2 4"},
    {"PyTorchJob with other ranks", PYTORCHJOB, {.ranks_per_node = 2}, "pytorchjob nodes 1/2 -1/0 1/2 2"},
    {"PyTorchJob whose variables disagree", "RANK=1 WORLD_SIZE=2 PET_NODE_RANK=0 PET_NNODES=2", {0}, NULL},
    {"torchrun in a PyTorchJob",
     TORCHRUN " PET_NPROC_PER_NODE=8 PET_NODE_RANK=1 PET_NNODES=2",
     {0},
     "torchrun ranks 9/16 1/8 1/2 0"},
    {"Trainer", TRAINER, {0}, "trainer nodes 1/4 -1/0 1/4 0"},
    {"Trainer is a JobSet", TRAINER " JOB_COMPLETION_INDEX=1", {0}, "trainer nodes 1/4 -1/0 1/4 0"},
    {"Indexed Job", "JOB_COMPLETION_INDEX=2", {.nodes = 4, .ranks_per_node = 8}, "indexed-job nodes 2/4 -1/0 2/4 8"},
    {"Indexed Job by REPRO_NODES", "JOB_COMPLETION_INDEX=2 REPRO_NODES=3", {0}, "indexed-job nodes 2/3 -1/0 2/3 0"},
    {"a pod that torchrun would number", "PET_NNODES=1:4 PET_NPROC_PER_NODE=4", {0}, "- alone 0/1 -1/0 -1/0 0 note"},
    {"a job of one pod", "PET_NNODES=1 PET_NPROC_PER_NODE=4", {0}, "- alone 0/1 -1/0 -1/0 0"},
    {"any pod of an Indexed Job", "JOB_COMPLETION_INDEX=2", {0}, "- alone 0/1 -1/0 -1/0 0 note"},
    {"Indexed Job without its size", "JOB_COMPLETION_INDEX=2", {.several = 1}, NULL},
    {"Indexed Job with an index outside", "JOB_COMPLETION_INDEX=4", {.nodes = 4}, NULL},
    {"JobSet",
     "JOB_COMPLETION_INDEX=1 REPRO_JOBSET_INDEX=2 REPRO_JOBSET_PODS=4",
     {.nodes = 12},
     "jobset nodes 9/12 -1/0 9/12 0"},
    {"torchrun in an Indexed Job", TORCHRUN " JOB_COMPLETION_INDEX=0", {.nodes = 2}, "torchrun ranks 9/16 1/8 1/2 0"},
    {"mpirun_rsh",
     "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=2",
     {0},
     "mvapich ranks 3/4 1/2 -1/0 0"},
    {"mpirun_rsh of MVAPICH 4", "MVP_COMM_WORLD_RANK=1 MVP_COMM_WORLD_SIZE=2", {0}, "mvapich ranks 1/2 -1/0 -1/0 0"},
    {"Flux without PMI", FLUX, {0}, "flux ranks 1/2 1/0 -1/1 0"},
    {"Flux with PMI", FLUX " PMI_RANK=1 PMI_SIZE=2 PMI_FD=5", {0}, "mpich ranks 1/2 -1/0 -1/0 0"},
    {"mpirun in a script that Flux started",
     OMPI4 " FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1",
     {0},
     "openmpi ranks 3/8 1/2 -1/0 0"},
    {"jsrun",
     "JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2 JSM_NAMESPACE_LOCAL_RANK=1 JSM_NAMESPACE_LOCAL_SIZE=2",
     {0},
     "jsrun ranks 1/2 1/2 -1/0 0"},
    {"PALS", "PALS_RANKID=5 PALS_LOCAL_RANKID=1 PMI_SIZE=8 PMI_LOCAL_SIZE=4", {0}, "pals ranks 5/8 1/4 -1/0 0"},
    {"PALS without a size", "PALS_RANKID=1 PALS_LOCAL_RANKID=1", {0}, NULL},
    {"PMIx", "PMIX_RANK=1 PMIX_NAMESPACE=prterun-x@1", {0}, NULL},
    {"rank 0 of PMIx, with a key", "PMIX_RANK=0 PMIX_NAMESPACE=prterun-x@1", {.several = 1}, NULL},
    {"rank 0 of PMIx, which may be all", "PMIX_RANK=0 PMIX_NAMESPACE=prterun-x@1", {0}, "- alone 0/1 -1/0 -1/0 0 note"},
    {"one task of srun --mpi=pmix",
     "SLURM_JOB_ID=1 SLURM_STEP_ID=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 PMIX_RANK=0 "
     "PMIX_NAMESPACE=slurm.pmix.1.4",
     {.several = 1},
     "- alone 0/1 -1/0 -1/0 0"},
    {"a key, and no launcher", "HOME=/", {.several = 1}, "- alone 0/1 -1/0 -1/0 0 note"},
    {"a key in a shell of salloc",
     "SLURM_JOB_ID=1 SLURM_STEP_ID=4 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=8",
     {.several = 1},
     "- alone 0/1 -1/0 -1/0 0 note"},
    {"named variables",
     "MY_RANK=1 MY_SIZE=3",
     {.rank_from = "MY_RANK", .size_from = "MY_SIZE"},
     "variables ranks 1/3 -1/0 -1/0 0"},
    {"named variables before others",
     OMPI4 " MY_SIZE=4",
     {.rank_from = "PMIX_RANK", .size_from = "MY_SIZE"},
     "variables ranks 3/4 -1/0 -1/0 0"},
    {"one of two named variables", "MY_RANK=1 MY_SIZE=3", {.rank_from = "MY_RANK"}, NULL},
    {"a named variable that is not set", "MY_SIZE=3", {.rank_from = "MY_RANK", .size_from = "MY_SIZE"}, NULL},
    {"a named variable that is a secret",
     "MY_RANK=hunter2 MY_SIZE=3",
     {.rank_from = "MY_RANK", .size_from = "MY_SIZE"},
     NULL},
    {"named variables with a rank outside",
     "MY_RANK=3 MY_SIZE=3",
     {.rank_from = "MY_RANK", .size_from = "MY_SIZE"},
     NULL},
    {"named variables and --node-rank",
     "MY_RANK=1 MY_SIZE=3",
     {.rank_from = "MY_RANK", .size_from = "MY_SIZE", .node_rank1 = 1, .nodes = 3},
     NULL},
    {"options", "HOME=/", {.nodes = 3, .node_rank1 = 3, .ranks_per_node = 2}, "options nodes 2/3 -1/0 2/3 2"},
    {"options before everything", OMPI4 " " TRAINER, {.nodes = 3, .node_rank1 = 1}, "options nodes 0/3 -1/0 0/3 0"},
    {"options without the number of nodes", "HOME=/", {.node_rank1 = 1}, NULL},
};

TEST(who)
{
    static const char *const kinds[] = {"alone", "ranks", "nodes"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_launch l;
        struct rp_err err = {0};
        char got[200];
        set_environment(cases[i].environment);
        int rc = rp_launch_detect(&l, &cases[i].o, &err);
        if (!cases[i].expected) {
            REFUSED(rc < 0 && err.code == RP_USAGE, err.msg);
            continue;
        }
        if (!CHECK(rc == 0, "%s: %s", cases[i].name, err.msg))
            continue;
        snprintf(got, sizeof got, "%s %s %d/%d %d/%d %d/%d %d%s", l.launcher ? l.launcher : "-", kinds[l.kind],
                 (int)l.rank, (int)l.size, (int)l.local_rank, (int)l.local_size, (int)l.node, (int)l.nodes,
                 (int)l.ranks_per_node, l.note ? " note" : "");
        CHECK(strcmp(got, cases[i].expected) == 0, "%s: %s, expected %s", cases[i].name, got, cases[i].expected);
        CHECK(!l.launcher || (l.key_remedy && *l.key_remedy && l.rank_variable), "%s: no remedy", cases[i].name);
    }
}

/* What a bundle records names variables, and no host. */
TEST(document)
{
    struct rp_launch l;
    struct rp_err err = {0};
    RP_BUF text = {0};
    set_environment(TORCHRUN);
    CHECK(rp_launch_detect(&l, NULL, &err) == 0, "%s", err.msg);
    RP_JSON *j = rp_launch_to_json(&l);
    rp_json_write_line(&text, j);
    CHECK_STR(text.data, "{\"decided_by\":[\"RANK\",\"WORLD_SIZE\"],\"kind\":\"ranks\",\"launcher\":\"torchrun\","
                         "\"local_rank\":1,\"local_size\":8,"
                         "\"node\":1,\"nodes\":2,\"rank\":9,\"size\":16}\n");
    CHECK(strcmp(rp_launch_ids(),
                 "openmpi|torchrun|mpich|srun|mvapich|flux|jsrun|pytorchjob|trainer|jobset|indexed-job|pals|pmix") == 0,
          "%s", rp_launch_ids());
}

/* ---- where rank 0 is ---- */

static const struct {
    const char *name, *environment;
    struct rp_launch_opts l;
    struct rp_rendezvous_opts o;
    const char *expected; /* source hosts port; NULL: refused */
} places[] = {
    /* 61440 + 1537081344 / 65536 % 4096 */
    /* 61440 + 4711 % 4096 + 2 * 257 */
    {"mpirun of release 4", OMPI4, {0}, {0}, "OMPI_MCA_orte_hnp_uri 192.0.2.2 10.0.0.2 2001:db8::2 port 64414"},
    {"mpirun of release 5", OMPI5, {0}, {0}, "PMIX_SERVER_URI41 192.0.2.7 port N"},
    {"mpirun of release 5 on another host",
     OMPI5 " PMIX_SERVER_URI41=prterun-node1-77@0.3;tcp4://127.0.0.1:41003",
     {0},
     {0},
     "PMIX_NAMESPACE node1 port N"},
    {"mpirun of release 4 in an allocation",
     OMPI4 " SLURM_JOB_NODELIST=gpu[3-4]",
     {0},
     {0},
     "SLURM_JOB_NODELIST gpu3 192.0.2.2 10.0.0.2 2001:db8::2 port 64414"},
    {"mpirun of release 5 on this host",
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=x@1 "
     "PMIX_SERVER_URI41=x@0.0;tcp4://127.0.0.1:1",
     {0},
     {0},
     "this host 127.0.0.1 port N"},
    {"mpirun of release 5 whose host nothing names",
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=x@1 PMIX_SERVER_URI41=x@0.1;tcp4://127.0.0.1:1",
     {0},
     {0},
     NULL},
    {"the same in an allocation",
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=x@1 PMIX_SERVER_URI41=x@0.1;tcp4://127.0.0.1:1 "
     "SLURM_JOB_NODELIST=gpu[3-4]",
     {0},
     {0},
     "SLURM_JOB_NODELIST gpu3 port N"},
    {"on mpirun's own host",
     "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=x@1 PMIX_SERVER_URI41=x@0.0;tcp4://127.0.0.1:1",
     {0},
     {0},
     "PMIX_SERVER_URI41 127.0.0.1 port N"},
    {"torchrun, and not its port", TORCHRUN, {0}, {0}, "MASTER_ADDR node1 port N"},
    {"torchrun after a restart", TORCHRUN " TORCHELASTIC_RESTART_COUNT=1", {0}, {0}, "MASTER_ADDR node1 port N"},
    {"srun, and not where srun ran", SRUN, {0}, {0}, "SLURM_STEP_NODELIST gpu07 port 62569"},
    {"srun with a list that is none", SRUN " SLURM_STEP_NODELIST=gpu[", {0}, {0}, NULL},
    {"PyTorchJob", PYTORCHJOB, {0}, {0}, "MASTER_ADDR job-master-0 port N"},
    {"Trainer", TRAINER, {0}, {0}, "PET_MASTER_ADDR job-node-0-0.job port N"},
    {"Indexed Job without a service", "JOB_COMPLETION_INDEX=1", {.nodes = 2}, {0}, NULL},
    {"Flux on one node", FLUX, {0}, {0}, "this host 127.0.0.1 port N"},
    {"Flux on two", FLUX " FLUX_JOB_NNODES=2", {0}, {0}, NULL},
    {"jsrun", "JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=2", {0}, {.join = "node1"}, "--join node1 port N"},
    {"named variables without --join", "A=0 B=2", {.rank_from = "A", .size_from = "B"}, {0}, NULL},
    {"named variables", "A=0 B=2", {.rank_from = "A", .size_from = "B"}, {.join = "node1:77"}, "--join node1 port 77"},
    {"--join", SRUN, {0}, {.join = "192.0.2.1:5000"}, "--join 192.0.2.1 port 5000"},
    {"--join without a port", SRUN, {0}, {.join = "node9"}, "--join node9 port 62569"},
    {"--join with IPv6", SRUN, {0}, {.join = "[2001:db8::9]:77"}, "--join 2001:db8::9 port 77"},
    {"--port", SRUN, {0}, {.port = 4000}, "SLURM_STEP_NODELIST gpu07 port 4000"},
    {"--join and --port differ", SRUN, {0}, {.join = "a:1", .port = 2}, NULL},
    {"--join is none", SRUN, {0}, {.join = "a:b:c d"}, NULL},
    {"--join has a port outside", SRUN, {0}, {.join = "a:65536"}, NULL},
    {"no launcher, no address", "HOME=/", {.nodes = 2, .node_rank1 = 2}, {0}, NULL},
    {"no launcher", "HOME=/", {.nodes = 2, .node_rank1 = 2}, {.join = "node1"}, "--join node1 port N"},
};

TEST(where)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct rp_launch l;
        struct rp_rendezvous r;
        struct rp_err err = {0};
        char got[400];
        set_environment(places[i].environment);
        CHECK(rp_launch_detect(&l, &places[i].l, &err) == 0, "%s: %s", places[i].name, err.msg);
        int rc = rp_rendezvous_find(&r, &l, &places[i].o, rp_now_ns() + 1000000000u, &err), n = 0;
        if (!places[i].expected) {
            REFUSED(rc < 0, err.msg);
            continue;
        }
        if (!CHECK(rc == 0, "%s: %s", places[i].name, err.msg))
            continue;
        n = snprintf(got, sizeof got, "%s", r.source);
        for (int h = 0; h < r.hosts; h++)
            n += snprintf(got + n, sizeof got - (size_t)n, " %s", r.host[h].host);
        CHECK(r.port >= 1 && (strstr(places[i].expected, "port N") == NULL ||
                              (r.port >= 61440 && r.port <= 65535 && r.port != 29400)),
              "%s: port %d", places[i].name, r.port);
        if (strstr(places[i].expected, "port N"))
            snprintf(got + n, sizeof got - (size_t)n, " port N");
        else
            snprintf(got + n, sizeof got - (size_t)n, " port %d", r.port);
        CHECK(strcmp(got, places[i].expected) == 0, "%s: %s, expected %s", places[i].name, got, places[i].expected);
        rp_rendezvous_fini(&r);
    }
}

/* What the processes of a daemon of release 5 see: a shell between both, and command lines that end early. */
TEST(daemons_of_mpirun)
{
    static const struct {
        int pid, parent;
        const char *line;
        size_t size;
    } all[] = {{70, 60, "repro\0run", 10},
               {60, 50, "sh\0-c\0prte_hnp_uri", 18},
               {50, 40, "prted\0--prtemca\0prte_hnp_uri\0a@0.0;tcp://192.0.2.1", 51},
               {40, 1, "prted\0prte_hnp_uri\0of another", 29},
               {80, 80, "itself", 6},
               {90, 99, "", 0}};
    mkdir(scratch("proc"), 0755);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[64], status[64];
        mkdir(scratch(RP_FORMAT(name, "proc/%d", all[i].pid)), 0755);
        RP_FORMAT(status, "Name:\tx\nPPid:\t%d\nUid:\t0\n", all[i].parent);
        put_file(RP_FORMAT(name, "proc/%d/status", all[i].pid), status, strlen(status));
        put_file(RP_FORMAT(name, "proc/%d/cmdline", all[i].pid), all[i].line, all[i].size);
    }
    RP_FREE char *proc = rp_strdup(scratch("proc"));
    RP_FREE char *near = rp_prte_option(proc, 70, "prte_hnp_uri"), *far = rp_prte_option(proc, 50, "prte_hnp_uri");
    CHECK_STR(near, "a@0.0;tcp://192.0.2.1");
    CHECK_STR(far, "of another");
    for (int pid = 80; pid <= 100; pid += 10)
        CHECK(!rp_prte_option(proc, pid, "prte_hnp_uri"), "process %d", pid);
    static const char *const spaces[][2] = {{"prterun-node1-77@1", "node1"},
                                            {"prte-gpu-07.example.org-1234567@12", "gpu-07.example.org"}};
    for (size_t i = 0; i < 2; i++) {
        RP_FREE char *host = rp_prte_host(spaces[i][0]);
        CHECK_STR(host, spaces[i][1]);
    }
    static const char *const none[] = {"", "prterun-", "prterun-@1", "prterun-77@1", "prterun-node1@1", "prterun--77@1",
                                       "slurm.pmix.4711.2", "prterun-node1-77"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        CHECK(!rp_prte_host(none[i]), "'%s'", none[i]);
    CHECK(rp_prte_daemon("prterun-node1-77@0.12;tcp4://1.2.3.4:5") == 12 &&
              rp_prte_daemon("x;tcp4://1.2.3.4:5") == -1 && rp_prte_daemon("") == -1 &&
              rp_prte_daemon("x@0.99999999999999999999;") == -1,
          "numbers of daemons");
}

/* Every process of a job computes the same port and id, another job others. */
TEST(ids)
{
    static const char *const same[][2] = {
        {OMPI4, OMPI4 " OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 PMIX_SERVER_URI41=x;tcp4://127.0.0.1:5"},
        {TORCHRUN, TORCHRUN " RANK=0 LOCAL_RANK=0 GROUP_RANK=0 MASTER_ADDR=localhost"},
        {SRUN, SRUN " SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0"},
        {PYTORCHJOB, PYTORCHJOB " RANK=0 PET_NODE_RANK=0 MASTER_ADDR=localhost"},
        {FLUX, FLUX " FLUX_TASK_RANK=0 FLUX_TASK_LOCAL_ID=0"}};
    static const char *const other[][2] = {{TORCHRUN, TORCHRUN " TORCHELASTIC_RESTART_COUNT=1"},
                                           {TORCHRUN, TORCHRUN " MASTER_PORT=29401"},
                                           {SRUN, SRUN " SLURM_STEP_ID=3"},
                                           {SRUN, SRUN " SLURM_JOB_ID=4712"},
                                           {FLUX, FLUX " FLUX_JOB_ID=f23ReXsAaC"}};
    for (size_t i = 0; i < 10; i++) {
        const char *const *pair = i < 5 ? same[i] : other[i - 5];
        struct rp_launch l;
        struct rp_rendezvous r[2];
        struct rp_err err = {0};
        for (int k = 0; k < 2; k++) {
            set_environment(pair[k]);
            CHECK(rp_launch_detect(&l, NULL, &err) == 0 && rp_rendezvous_find(&r[k], &l, NULL, 0, &err) == 0, "%s",
                  err.msg);
        }
        CHECK((r[0].port == r[1].port && strcmp(r[0].job, r[1].job) == 0) == (i < 5), "pair %zu: %d %d", i, r[0].port,
              r[1].port);
    }
    CHECK(rp_rendezvous_port_of(0) == 61440 && rp_rendezvous_port_of(4095) == 65535 &&
              rp_rendezvous_port_of(4096) == 61440,
          "the range");
}
