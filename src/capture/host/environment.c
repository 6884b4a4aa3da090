/* Environment variables, by allow-list: those that steer thread pools, GPUs, collectives, allocators, frameworks and
 * loaders. Nothing else is read, and credentials are not kept. The variables of job launchers are in jobs.c. */
#include "base/text.h"
#include "capture/privacy/variables.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A family of names. Where others share the first word (Terraform's TF_VAR_, addresses
 * in OMPI_MCA_), only parts of it. */
static const char *const prefixes[] = {
    "BLIS_",          "CUBLAS_", "CUDA_",          "CUDNN_", "CUFFT_",         "FI_", "GDRCOPY_",       "GOMP_",
    "GPU_MAX_",       "HCOLL_", "HIP_",           "HSA_", "IBV_",           "I_MPI_", "KMP_",           "MALLOC_",
    "MKL_",           "MLX5_", "MPICH_",         "NCCL_", "NVIDIA_",        "NVSHMEM_",
    "NVTE_",          "OMPI_MCA_btl", "OMPI_MCA_coll",  "OMPI_MCA_hwloc_", "OMPI_MCA_io",    "OMPI_MCA_mtl",
    "OMPI_MCA_opal_", "OMPI_MCA_osc", "OMPI_MCA_pml",   "OMPI_MCA_rmaps_", "OMP_",           "OPENBLAS_",
    "PSM2_",          "PSM3_", "PYTORCH_",       "RCCL_", "RDMAV_",         "ROCR_", "SHARP_",         "TF_CPP_",
    "TF_CUDNN_",      "TF_DISABLE_", "TF_ENABLE_",     "TF_FORCE_", "TF_GPU_",        "TF_NUM_",
    "TF_USE_",        "TF_XLA_", "TORCHINDUCTOR_", "TORCH_", "TRITON_",        "UCC_", "UCX_",           "XLA_",
};
static const char *const names[] = {
    "GLIBC_TUNABLES", "GLOO_SOCKET_IFNAME", "LANG", "LC_ALL", "LD_BIND_NOW", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "NUMEXPR_NUM_THREADS", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "RP_GPU_TOOL", "TZ", "VECLIB_MAXIMUM_THREADS",
};

enum rp_variable rp_environment_allows(const char *name, size_t n)
{
    static const char *const hidden[] = {"NCCL_COMM_ID", "NCCL_HOSTID"}; /* an address, a host */
    if (RP_IS_IN(hidden, name, n))
        return RP_VARIABLE_HIDDEN;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (n > strlen(prefixes[i]) && strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return RP_VARIABLE_CLEAR;
    return RP_IS_IN(names, name, n) ? RP_VARIABLE_CLEAR : RP_VARIABLE_NO;
}

int rp_environment_is_odd(const char *name, const char *value)
{
    static const char *const ends[] = {"_THREADS", "_NTHREADS", "_COUNT",     "_SIZE",
                                       "_LIMIT",   "_TIMEOUT",  "_STACKSIZE", "HASHSEED"};
    static const char *const words[] = {"auto", "max",   "none", "unlimited", "random", "dynamic",
                                        "true", "false", "yes",  "no",        "on",     "off"};
    size_t n = strlen(name), letters = 0;
    int number = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        number |= n > strlen(ends[i]) && strcmp(name + n - strlen(ends[i]), ends[i]) == 0;
    for (const char *c = value; *c; c++)
        letters += isalpha((unsigned char)*c) != 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        number &= strcasecmp(value, words[i]) != 0;
    return number && (letters > 2 || !strpbrk(value, "0123456789")); /* 64, 4,2, 16MB, 0x10 */
}

void rp_probe_environment(struct rp_probe *p)
{
    RP_TEXT t;
    rp_environ_read(&t, p);
    for (const char *e = NULL; (e = rp_environ_next(&t, e));) {
        size_t n = strcspn(e, "=");
        RP_FREE char *name = rp_asprintf("%.*s", (int)n, e);
        if (rp_environment_allows(e, n))
            rp_put_variable(p->out, name, e + n + 1, t.path);
    }
}
