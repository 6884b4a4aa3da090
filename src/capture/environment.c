/* Environment variables, by allow-list: those that steer thread pools, GPUs, collectives, allocators and loaders. Nothing else is
 * looked at, and of these nothing that looks like a credential is kept. */
#include "capture/probe.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VARIABLES = 200, MAX_VALUE = 1024 };

static const char *const prefixes[] = {"BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "FI_", "GOMP_", "HSA_", "HIP_", "KMP_", "MALLOC_", "MKL_",
                                       "NCCL_", "NVIDIA_", "OMP_", "OPENBLAS_", "ROCR_", "UCX_"};
static const char *const names[] = {"GLIBC_TUNABLES",    "LANG",           "LC_ALL",      "LD_LIBRARY_PATH", "LD_PRELOAD",
                                    "LOCAL_RANK",        "RANK",           "SLURM_CPUS_PER_TASK", "SLURM_GPUS", "SLURM_JOB_ID",
                                    "SLURM_JOB_NUM_NODES", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS",  "SLURM_PROCID",
                                    "TZ",                "WORLD_SIZE"};
/* Parts of a name, in any case, after which no value is kept. */
static const char *const secret_words[] = {"TOKEN", "SECRET", "PASSW", "_PASS", "_PWD", "_KEY", "APIKEY", "API_KEY", "CREDENTIAL",
                                           "AUTH", "COOKIE", "BEARER"};
/* Beginnings that issuers give their tokens, anywhere in a value. */
static const char *const secret_marks[] = {"ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "AKIA", "ASIA", "hf_", "xoxb-", "xoxp-",
                                           "nvapi-", "sk-", "eyJ", "-----BEGIN", "Bearer ", "password=", "token="};

extern char **environ;

static int is_allowed(const char *v, size_t n)
{
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (n > strlen(prefixes[i]) && strncmp(v, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n == strlen(names[i]) && strncmp(v, names[i], n) == 0)
            return 1;
    return 0;
}

/* A run of 32 or more letters and digits, both kinds: nothing a person types. Dots, slashes and dashes end a run. */
static int has_long_random_word(const char *v)
{
    int run = 0, figures = 0, letters = 0;
    for (;; v++) {
        int digit = *v >= '0' && *v <= '9', letter = (*v >= 'a' && *v <= 'z') || (*v >= 'A' && *v <= 'Z') || *v == '+' || *v == '=';
        if (digit || letter) {
            run++;
            figures += digit;
            letters += letter;
        } else {
            if (run >= 32 && figures && letters)
                return 1;
            run = figures = letters = 0;
        }
        if (!*v)
            return 0;
    }
}

static int is_secret(const char *name, const char *value)
{
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++)
        if (strcasestr(name, secret_words[i]))
            return 1;
    for (size_t i = 0; i < sizeof secret_marks / sizeof *secret_marks; i++)
        if (strstr(value, secret_marks[i]))
            return 1;
    const char *scheme = strstr(value, "://"), *at = scheme ? strchr(scheme, '@') : NULL;
    return at || (strncmp(name, "LD_", 3) != 0 && has_long_random_word(value)); /* package managers put digests into paths */
}

/* Device UUIDs, addresses and home directories say who, not what. */
static int is_identity(const char *name, const char *value)
{
    return strstr(value, "GPU-") || strstr(value, "MIG-") || strstr(value, "/home/") || strcmp(name, "NCCL_COMM_ID") == 0;
}

static void variable(struct rp_probe *p, const char *text, const char *source)
{
    size_t n = strcspn(text, "=");
    if (text[n] != '=' || n > 64 || !is_allowed(text, n) || json_object_size(p->out) >= MAX_VARIABLES)
        return;
    RP_FREE char *name = rp_asprintf("%.*s", (int)n, text);
    const char *value = text + n + 1;
    if (strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return;
    if (is_secret(name, value))
        rp_put(p->out, name, RP_STATE_DENIED, NULL, source, NULL, "looks like a credential and is not recorded");
    else if (strlen(value) > MAX_VALUE)
        rp_put(p->out, name, RP_STATE_ERROR, NULL, source, NULL, "too long");
    else if (is_identity(name, value))
        rp_put_hidden(p, p->out, name, value, source);
    else
        rp_put_str(p->out, name, value, source);
}

void rp_probe_environment(struct rp_probe *p)
{
    if (p->live) {
        for (char **e = environ; e && *e; e++)
            variable(p, *e, "environ(7)");
        return;
    }
    RP_TEXT t;
    rp_text_read(&t, p, "/proc/self/environ");
    for (char *v = t.bytes.data; v && v < t.bytes.data + t.bytes.size; v += strlen(v) + 1)
        variable(p, v, t.path);
}
