/* The environment as it is recorded, by allow-list: variables that steer thread pools, GPUs, collectives, allocators,
 * frameworks and loaders. Nothing else is read, and credentials are not kept. Those of job launchers are in
 * job_variables.c. */
#include "base/text.h"
#include "capture/privacy/image_name.h"
#include "capture/privacy/interface_names.h"
#include "capture/privacy/job_variables.h"
#include "capture/privacy/secrets.h"
#include "capture/privacy/variables.h"
#include "capture/record.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_VALUE = RP_LINE_MAX, MAX_NAME = 64, MAX_VARIABLES = 200 };

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

/* The value of a variable whose name ends like those of numbers ("OMP_NUM_THREADS") is none, and no word such as
 * "auto" either. */
static int is_odd(const char *name, const char *value)
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

/* One variable, "NAME=value", into the filtered text. */
static void filter_variable(const struct rp_probe *p, struct rp_buf *out, const char *text)
{
    char name[MAX_NAME + 1], key[MAX_NAME + 16], hidden[RP_HIDDEN];
    size_t n = strcspn(text, "=");
    if (text[n] != '=' || n > MAX_NAME)
        return;
    enum rp_variable jobs = rp_jobs_allow(text, n), allowed = jobs ? jobs : rp_environment_allows(text, n);
    memcpy(name, text, n);
    name[n] = 0;
    if (strcmp(name, RP_IMAGE_VARIABLE) == 0) {
        RP_FREE char *image = rp_image_show(text + n + 1);
        rp_buf_printf(out, "%s=%s", name, image ? image : "");
        rp_buf_add(out, "", 1);
        return;
    }
    if (!allowed || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return;
    const char *value = text + n + 1;
    RP_FREE char *words = NULL;
    if (rp_is_secret(name, value) && !rp_is_hidden(value) && strcmp(value, rp_credential) != 0)
        value = rp_credential;
    else if (strlen(value) > MAX_VALUE)
        value = rp_too_long;
    else if (!p->opts->identify && *value &&
             (allowed == RP_VARIABLE_HIDDEN || (!jobs && is_odd(name, value)) ||
              (rp_is_identity(value) && !strstr(name, "VERSION"))) &&
             !rp_is_hidden(value)) {
        rp_hide_as(p, RP_FORMAT(key, "environment.%s", name), value, hidden);
        value = hidden;
    } else if (rp_variable_lists_interfaces(name) && !rp_is_hidden(value))
        value = words = rp_interface_words(p, value);
    rp_buf_printf(out, "%s=%s", name, value);
    rp_buf_add(out, "", 1);
}

static void redact_variables(const struct rp_probe *p, struct rp_buf *text)
{
    RP_BUF old = *text;
    int n = 0;
    *text = (struct rp_buf){0};
    rp_buf_add(text, "", 0);
    for (const char *v = old.data; v && v < old.data + old.size && n < MAX_VARIABLES; v += strlen(v) + 1) {
        size_t before = text->size;
        filter_variable(p, text, v);
        n += text->size != before;
    }
}

extern char **environ;

void rp_environ_read(struct rp_text *t, const struct rp_probe *p)
{
    static const char path[] = "/proc/self/environ";
    if (!p->live) {
        rp_text_read_as(t, p, path, redact_variables);
        return;
    }
    *t = (struct rp_text){.path = path}; /* that file does not show what the process changed */
    rp_buf_add(&t->bytes, "", 0);
    for (char **e = environ; e && *e; e++)
        rp_buf_add(&t->bytes, *e, strlen(*e) + 1);
    redact_variables(p, &t->bytes);
    if (p->record)
        rp_record_text(p->record, t, (const void *)redact_variables);
}
