/* The variables of job launchers, by an allow-list; accounts, users, node names and command lines are not read. */
#include "capture/privacy/job_variables.h"

#include <string.h>

static const struct rp_job_fact slurm[] = {
    {"job_id", "SLURM_JOB_ID", RP_JOB_TEXT},
    {"step_id", "SLURM_STEP_ID", RP_JOB_NUMBER},
    {"partition", "SLURM_JOB_PARTITION", RP_JOB_TEXT},
    {"cluster", "SLURM_CLUSTER_NAME", RP_JOB_HIDDEN},
    {"nodes", "SLURM_JOB_NUM_NODES", RP_JOB_NUMBER},
    {"tasks", "SLURM_NTASKS", RP_JOB_NUMBER},
    {"tasks_per_node", "SLURM_NTASKS_PER_NODE", RP_JOB_TEXT}, /* "8", or "8(x2),4" */
    {"step_tasks_per_node", "SLURM_STEP_TASKS_PER_NODE", RP_JOB_TEXT},
    {"cpus_per_task", "SLURM_CPUS_PER_TASK", RP_JOB_NUMBER},
    {"cpus_on_node", "SLURM_CPUS_ON_NODE", RP_JOB_NUMBER},
    {"cpus_per_gpu", "SLURM_CPUS_PER_GPU", RP_JOB_NUMBER},
    {"memory_per_node", "SLURM_MEM_PER_NODE", RP_JOB_NUMBER},
    {"memory_per_cpu", "SLURM_MEM_PER_CPU", RP_JOB_NUMBER},
    {"threads_per_core", "SLURM_THREADS_PER_CORE", RP_JOB_NUMBER},
    {"gpus", "SLURM_GPUS", RP_JOB_TEXT}, /* "8", or "h100:8" */
    {"gpus_on_node", "SLURM_GPUS_ON_NODE", RP_JOB_NUMBER},
    {"gpus_per_node", "SLURM_GPUS_PER_NODE", RP_JOB_TEXT},
    {"gpus_per_task", "SLURM_GPUS_PER_TASK", RP_JOB_TEXT},
    {"gpu_bind", "SLURM_GPU_BIND", RP_JOB_TEXT},
    {"gpu_frequency", "SLURM_GPU_FREQ", RP_JOB_TEXT},
    {"cpu_bind", "SLURM_CPU_BIND_TYPE", RP_JOB_TEXT},
    {"cpu_bind_list", "SLURM_CPU_BIND_LIST", RP_JOB_TEXT},
    {"memory_bind", "SLURM_MEM_BIND_TYPE", RP_JOB_TEXT},
    {"cpu_frequency", "SLURM_CPU_FREQ_REQ", RP_JOB_TEXT},
    {"distribution", "SLURM_DISTRIBUTION", RP_JOB_TEXT},
    {"hint", "SLURM_HINT", RP_JOB_TEXT},
    {"oversubscribe", "SLURM_OVERSUBSCRIBE", RP_JOB_TEXT},
    {"rank", "SLURM_PROCID", RP_JOB_NUMBER},
    {"local_rank", "SLURM_LOCALID", RP_JOB_NUMBER},
    {"node_rank", "SLURM_NODEID", RP_JOB_NUMBER},
    {"restarts", "SLURM_RESTART_COUNT", RP_JOB_NUMBER},
    {0}};
static const struct rp_job_fact pbs[] = {
    {"job_id", "PBS_JOBID", RP_JOB_HIDDEN},
    {"queue", "PBS_QUEUE", RP_JOB_TEXT},
    {"cpus_on_node", "NCPUS", RP_JOB_NUMBER},
    {"tasks_per_node", "PBS_NUM_PPN", RP_JOB_NUMBER},
    {"nodes", "PBS_NUM_NODES", RP_JOB_NUMBER},
    {0}};
static const struct rp_job_fact lsf[] = {
    {"job_id", "LSB_JOBID", RP_JOB_TEXT},
    {"queue", "LSB_QUEUE", RP_JOB_TEXT},
    {"tasks", "LSB_DJOB_NUMPROC", RP_JOB_NUMBER},
    {"rank", "JSM_NAMESPACE_RANK", RP_JOB_NUMBER},
    {0}};
static const struct rp_job_fact kubernetes[] = {
    {"service_port", "KUBERNETES_SERVICE_PORT", RP_JOB_NUMBER},
    {"job_index", "JOB_COMPLETION_INDEX", RP_JOB_NUMBER},
    {"pod", "HOSTNAME", RP_JOB_HIDDEN},
    {0}};
static const struct rp_job_fact open_mpi[] = {
    {"version", "OMPI_VERSION", RP_JOB_TEXT},
    {"rank", "OMPI_COMM_WORLD_RANK", RP_JOB_NUMBER},
    {"tasks", "OMPI_COMM_WORLD_SIZE", RP_JOB_NUMBER},
    {"local_rank", "OMPI_COMM_WORLD_LOCAL_RANK", RP_JOB_NUMBER},
    {"local_tasks", "OMPI_COMM_WORLD_LOCAL_SIZE", RP_JOB_NUMBER},
    {"node_rank", "OMPI_COMM_WORLD_NODE_RANK", RP_JOB_NUMBER},
    {"slots", "OMPI_UNIVERSE_SIZE", RP_JOB_NUMBER},
    {0}};
/* The process manager of MPICH, Intel MPI and MVAPICH */
static const struct rp_job_fact pmi[] = {
    {"rank", "PMI_RANK", RP_JOB_NUMBER},
    {"tasks", "PMI_SIZE", RP_JOB_NUMBER},
    {"local_rank", "MPI_LOCALRANKID", RP_JOB_NUMBER},
    {"local_tasks", "MPI_LOCALNRANKS", RP_JOB_NUMBER},
    {0}};
/* torchrun and launchers that use its variables */
static const struct rp_job_fact torch[] = {
    {"rank", "RANK", RP_JOB_NUMBER},
    {"tasks", "WORLD_SIZE", RP_JOB_NUMBER},
    {"local_rank", "LOCAL_RANK", RP_JOB_NUMBER},
    {"local_tasks", "LOCAL_WORLD_SIZE", RP_JOB_NUMBER},
    {"node_rank", "GROUP_RANK", RP_JOB_NUMBER},
    {"nodes", "GROUP_WORLD_SIZE", RP_JOB_NUMBER},
    {"role", "ROLE_NAME", RP_JOB_HIDDEN},
    {"address", "MASTER_ADDR", RP_JOB_HIDDEN},
    {"port", "MASTER_PORT", RP_JOB_NUMBER},
    {"run_id", "TORCHELASTIC_RUN_ID", RP_JOB_HIDDEN},
    {"restarts", "TORCHELASTIC_RESTART_COUNT", RP_JOB_NUMBER},
    {"restarts_max", "TORCHELASTIC_MAX_RESTARTS", RP_JOB_NUMBER},
    {0}};

const struct rp_job_launcher rp_job_launchers[] = {
    {"slurm", "SLURM_JOB_ID", slurm},
    {"pbs", "PBS_JOBID", pbs},
    {"lsf", "LSB_JOBID", lsf},
    {"kubernetes", "KUBERNETES_SERVICE_HOST", kubernetes},
    {"open_mpi", "OMPI_COMM_WORLD_SIZE", open_mpi},
    {"pmi", "PMI_SIZE", pmi},
    {"torchrun", "WORLD_SIZE", torch},
    {0}};

enum rp_variable rp_jobs_allow(const char *name, size_t n)
{
    for (const struct rp_job_launcher *l = rp_job_launchers; l->name; l++) {
        for (const struct rp_job_fact *f = l->facts; f->name; f++)
            if (strlen(f->variable) == n && strncmp(f->variable, name, n) == 0)
                return f->kind == RP_JOB_HIDDEN ? RP_VARIABLE_HIDDEN : RP_VARIABLE_CLEAR;
        if (strlen(l->mark) == n && strncmp(l->mark, name, n) == 0)
            return RP_VARIABLE_HIDDEN;
    }
    return RP_VARIABLE_NO;
}
