/* The job of this process, from the variables of its launcher: numbers of nodes, tasks, CPUs and GPUs, and the ranks of
 * this process. By an allow-list; accounts, users, node names and command lines are not read. */
#include "capture/privacy/variables.h"

#include <stdlib.h>
#include <string.h>

enum job_value_kind { NUMBER, TEXT, HIDDEN };

struct fact {
    const char *name, *variable;
    enum job_value_kind kind;
};

static const struct fact slurm[] = {{"job_id", "SLURM_JOB_ID", TEXT},
                                    {"step_id", "SLURM_STEP_ID", NUMBER},
                                    {"partition", "SLURM_JOB_PARTITION", TEXT},
                                    {"cluster", "SLURM_CLUSTER_NAME", HIDDEN},
                                    {"nodes", "SLURM_JOB_NUM_NODES", NUMBER},
                                    {"tasks", "SLURM_NTASKS", NUMBER},
                                    {"tasks_per_node", "SLURM_NTASKS_PER_NODE", TEXT}, /* "8", or "8(x2),4" */
                                    {"step_tasks_per_node", "SLURM_STEP_TASKS_PER_NODE", TEXT},
                                    {"cpus_per_task", "SLURM_CPUS_PER_TASK", NUMBER},
                                    {"cpus_on_node", "SLURM_CPUS_ON_NODE", NUMBER},
                                    {"cpus_per_gpu", "SLURM_CPUS_PER_GPU", NUMBER},
                                    {"memory_per_node", "SLURM_MEM_PER_NODE", NUMBER},
                                    {"memory_per_cpu", "SLURM_MEM_PER_CPU", NUMBER},
                                    {"threads_per_core", "SLURM_THREADS_PER_CORE", NUMBER},
                                    {"gpus", "SLURM_GPUS", TEXT}, /* "8", or "h100:8" */
                                    {"gpus_on_node", "SLURM_GPUS_ON_NODE", NUMBER},
                                    {"gpus_per_node", "SLURM_GPUS_PER_NODE", TEXT},
                                    {"gpus_per_task", "SLURM_GPUS_PER_TASK", TEXT},
                                    {"gpu_bind", "SLURM_GPU_BIND", TEXT},
                                    {"gpu_frequency", "SLURM_GPU_FREQ", TEXT},
                                    {"cpu_bind", "SLURM_CPU_BIND_TYPE", TEXT},
                                    {"cpu_bind_list", "SLURM_CPU_BIND_LIST", TEXT},
                                    {"memory_bind", "SLURM_MEM_BIND_TYPE", TEXT},
                                    {"cpu_frequency", "SLURM_CPU_FREQ_REQ", TEXT},
                                    {"distribution", "SLURM_DISTRIBUTION", TEXT},
                                    {"hint", "SLURM_HINT", TEXT},
                                    {"oversubscribe", "SLURM_OVERSUBSCRIBE", TEXT},
                                    {"rank", "SLURM_PROCID", NUMBER},
                                    {"local_rank", "SLURM_LOCALID", NUMBER},
                                    {"node_rank", "SLURM_NODEID", NUMBER},
                                    {"restarts", "SLURM_RESTART_COUNT", NUMBER},
                                    {0}};
static const struct fact pbs[] = {{"job_id", "PBS_JOBID", HIDDEN},    {"queue", "PBS_QUEUE", TEXT},
                                  {"cpus_on_node", "NCPUS", NUMBER},  {"tasks_per_node", "PBS_NUM_PPN", NUMBER},
                                  {"nodes", "PBS_NUM_NODES", NUMBER}, {0}};
static const struct fact lsf[] = {{"job_id", "LSB_JOBID", TEXT},
                                  {"queue", "LSB_QUEUE", TEXT},
                                  {"tasks", "LSB_DJOB_NUMPROC", NUMBER},
                                  {"rank", "JSM_NAMESPACE_RANK", NUMBER},
                                  {0}};
static const struct fact kubernetes[] = {{"service_port", "KUBERNETES_SERVICE_PORT", NUMBER},
                                         {"job_index", "JOB_COMPLETION_INDEX", NUMBER},
                                         {"pod", "HOSTNAME", HIDDEN},
                                         {0}};
static const struct fact open_mpi[] = {{"version", "OMPI_VERSION", TEXT},
                                       {"rank", "OMPI_COMM_WORLD_RANK", NUMBER},
                                       {"tasks", "OMPI_COMM_WORLD_SIZE", NUMBER},
                                       {"local_rank", "OMPI_COMM_WORLD_LOCAL_RANK", NUMBER},
                                       {"local_tasks", "OMPI_COMM_WORLD_LOCAL_SIZE", NUMBER},
                                       {"node_rank", "OMPI_COMM_WORLD_NODE_RANK", NUMBER},
                                       {"slots", "OMPI_UNIVERSE_SIZE", NUMBER},
                                       {0}};
/* The process manager of MPICH, Intel MPI and MVAPICH */
static const struct fact pmi[] = {{"rank", "PMI_RANK", NUMBER},
                                  {"tasks", "PMI_SIZE", NUMBER},
                                  {"local_rank", "MPI_LOCALRANKID", NUMBER},
                                  {"local_tasks", "MPI_LOCALNRANKS", NUMBER},
                                  {0}};
/* torchrun and launchers that use its variables */
static const struct fact torch[] = {{"rank", "RANK", NUMBER},
                                    {"tasks", "WORLD_SIZE", NUMBER},
                                    {"local_rank", "LOCAL_RANK", NUMBER},
                                    {"local_tasks", "LOCAL_WORLD_SIZE", NUMBER},
                                    {"node_rank", "GROUP_RANK", NUMBER},
                                    {"nodes", "GROUP_WORLD_SIZE", NUMBER},
                                    {"role", "ROLE_NAME", HIDDEN},
                                    {"address", "MASTER_ADDR", HIDDEN},
                                    {"port", "MASTER_PORT", NUMBER},
                                    {"run_id", "TORCHELASTIC_RUN_ID", HIDDEN},
                                    {"restarts", "TORCHELASTIC_RESTART_COUNT", NUMBER},
                                    {"restarts_max", "TORCHELASTIC_MAX_RESTARTS", NUMBER},
                                    {0}};
/* A launcher is there when its mark is set. */
static const struct {
    const char *name, *mark;
    const struct fact *facts;
} launchers[] = {{"slurm", "SLURM_JOB_ID", slurm},
                 {"pbs", "PBS_JOBID", pbs},
                 {"lsf", "LSB_JOBID", lsf},
                 {"kubernetes", "KUBERNETES_SERVICE_HOST", kubernetes},
                 {"open_mpi", "OMPI_COMM_WORLD_SIZE", open_mpi},
                 {"pmi", "PMI_SIZE", pmi},
                 {"torchrun", "WORLD_SIZE", torch}};

enum rp_variable rp_jobs_allow(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        for (const struct fact *f = launchers[i].facts; f->name; f++)
            if (strlen(f->variable) == n && strncmp(f->variable, name, n) == 0)
                return f->kind == HIDDEN ? RP_VARIABLE_HIDDEN : RP_VARIABLE_CLEAR;
        if (strlen(launchers[i].mark) == n && strncmp(launchers[i].mark, name, n) == 0)
            return RP_VARIABLE_HIDDEN;
    }
    return RP_VARIABLE_NO;
}

static void put_fact(json_t *obj, const struct fact *f, const char *value, const char *place)
{
    int64_t n;
    RP_FREE char *source = rp_asprintf("%s: %s", place, f->variable);
    if (!value || !*value)
        rp_put_absent(obj, f->name, source);
    else if (f->kind != NUMBER)
        rp_put_variable(obj, f->name, value, source);
    else if (rp_parse_count(value, &n) == 0)
        rp_put_int(obj, f->name, n, source, strncmp(f->name, "memory_per", 10) == 0 ? "MiB" : NULL);
    else
        rp_put(obj, f->name, RP_STATE_ERROR, NULL, source, NULL, "not a number");
}

void rp_probe_jobs(struct rp_probe *p)
{
    RP_TEXT t;
    rp_environ_read(&t, p);
    if (t.state != RP_STATE_OK)
        rp_put_state(p->out, "launchers", &t);
    json_t *found = json_array();
    for (size_t i = 0; t.state == RP_STATE_OK && i < sizeof launchers / sizeof *launchers; i++) {
        if (!rp_environ_get(&t, launchers[i].mark))
            continue;
        json_t *group = json_object();
        for (const struct fact *f = launchers[i].facts; f->name; f++)
            put_fact(group, f, rp_environ_get(&t, f->variable), t.path);
        json_object_set_new(p->out, launchers[i].name, group);
        json_array_append_new(found, json_string(launchers[i].name));
    }
    if (t.state == RP_STATE_OK)
        rp_put(p->out, "launchers", RP_STATE_OK, found, t.path, NULL, NULL);
    else
        json_decref(found);
}
