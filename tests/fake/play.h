/* How a played library answers: the machine of the file $RP_FAKE_NVML (nvml.c says what stands in it), and functions by
 * their kind. */
#pragma once

#include <nvml.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS_MAX 16
#define MIGS_MAX 8

struct nvmlDevice_st {
    char who[16];
    int gpu, mig; /* mig -1: the whole device; gpu -1: the system */
};

struct line {
    char who[16], function[80], value[512];
};

static struct nvmlDevice_st gpus[GPUS_MAX], migs[GPUS_MAX][MIGS_MAX], the_system = {"system", -1, -1};
static struct line lines[2048];
static int n_lines, ready;

/* ---- the file ---- */

static int fits_who(const char *pattern, const struct nvmlDevice_st *d)
{
    return strcmp(pattern, "*") == 0 || strcmp(pattern, d->who) == 0 ||
           (strcmp(pattern, "gpu*") == 0 && d->gpu >= 0 && d->mig < 0) || (strcmp(pattern, "mig*") == 0 && d->mig >= 0);
}

/* "nvmlDeviceGetClockInfo/1" against the name and "/1" */
static int fits(const char *pattern, const char *name, const char *args)
{
    size_t n = strcspn(pattern, "/"), length = strlen(name);
    size_t plain = length > 3 && strncmp(name + length - 3, "_v", 2) == 0 ? length - 3 : length;
    if (pattern[n] && strcmp(pattern + n, args) != 0)
        return 0;
    if (n > 0 && pattern[n - 1] == '*')
        return strncmp(pattern, name, n - 1) == 0;
    return (n == length || n == plain) && memcmp(pattern, name, n) == 0;
}

static nvmlReturn_t act(const char *what)
{
    static const char rubbish[] = "rubbish\n";
    static int turn;
    if (strcmp(what, "turn") == 0)
        return (nvmlReturn_t)(turn++ % 30 == 29 ? NVML_ERROR_UNKNOWN : turn % 30);
    if (strcmp(what, "hang") == 0)
        for (;;)
            pause();
    if (strcmp(what, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(what, "exit") == 0)
        _exit(0);
    if (strcmp(what, "print") == 0 &&
        write(1, rubbish, sizeof rubbish - 1) + write(3, rubbish, sizeof rubbish - 1) != 0)
        return NVML_ERROR_NO_DATA;
    return (nvmlReturn_t)atoi(what);
}

static const char *value_of(const struct nvmlDevice_st *d, const char *name, const char *args)
{
    for (int i = n_lines - 1; i >= 0; i--)
        if (fits(lines[i].function, name, args) && fits_who(lines[i].who, d))
            return lines[i].value;
    return NULL;
}

/* What the file says of a call: NVML_SUCCESS and *value, or what is to be returned. */
static nvmlReturn_t ask(nvmlDevice_t d, const char *name, const char *args, const char **value)
{
    if (!ready)
        return NVML_ERROR_UNINITIALIZED;
    if (!d)
        return NVML_ERROR_INVALID_ARGUMENT;
    *value = value_of(d, name, args);
    if (!*value)
        return NVML_ERROR_NOT_SUPPORTED;
    return **value == '!' ? act(*value + 1) : NVML_SUCCESS;
}

static const char *arg(char out[32], int first, int second)
{
    snprintf(out, 32, second < 0 ? "/%d" : "/%d/%d", first, second);
    return out;
}

static nvmlReturn_t load(void)
{
    char text[700];
    const char *path = getenv("RP_FAKE_NVML");
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    n_lines = 0;
    while (n_lines < (int)(sizeof lines / sizeof *lines) && fgets(text, sizeof text, f)) {
        struct line *l = &lines[n_lines];
        *l = (struct line){{0}, {0}, {0}};
        if (*text != '#' && sscanf(text, "%15s %79s %511[^\n]", l->who, l->function, l->value) >= 2)
            n_lines++;
    }
    fclose(f);
    for (int i = 0; i < GPUS_MAX; i++) {
        gpus[i] = (struct nvmlDevice_st){.gpu = i, .mig = -1};
        snprintf(gpus[i].who, sizeof gpus[i].who, "gpu%d", i);
        for (int j = 0; j < MIGS_MAX; j++) {
            migs[i][j] = (struct nvmlDevice_st){.gpu = i, .mig = j};
            snprintf(migs[i][j].who, sizeof migs[i][j].who, "mig%d.%d", i, j);
        }
    }
    return NVML_SUCCESS;
}

/* ---- kinds of functions ---- */

static nvmlReturn_t get_text(nvmlDevice_t d, const char *name, char *out, unsigned room)
{
    const char *value;
    nvmlReturn_t rc = ask(d, name, "", &value);
    if (rc != NVML_SUCCESS)
        return rc;
    if (strlen(value) >= room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, value);
    return rc;
}

/* Up to four numbers. */
static nvmlReturn_t get_numbers(nvmlDevice_t d, const char *name, const char *args, unsigned long long n[4])
{
    const char *value;
    nvmlReturn_t rc = ask(d, name, args, &value);
    if (rc == NVML_SUCCESS && sscanf(value, "%llu %llu %llu %llu", &n[0], &n[1], &n[2], &n[3]) < 1)
        fprintf(stderr, "fake nvml: %s %s: no number in '%s'\n", d->who, name, value);
    return rc;
}

#define TEXT(name)                                                                                                     \
    nvmlReturn_t name(nvmlDevice_t d, char *out, unsigned room)                                                        \
    {                                                                                                                  \
        return get_text(d, #name, out, room);                                                                          \
    }
#define NUMBERS(name, args, ...)                                                                                       \
    unsigned long long n[4] = {0};                                                                                     \
    nvmlReturn_t rc = get_numbers(d, name, args, n);                                                                   \
    if (rc == NVML_SUCCESS) {                                                                                          \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    return rc;
#define NUMBER(name, type)                                                                                             \
    nvmlReturn_t name(nvmlDevice_t d, type *out)                                                                       \
    {                                                                                                                  \
        NUMBERS(#name, "", *out = (type)n[0])                                                                          \
    }
#define NUMBER_BY(name, kind, type)                                                                                    \
    nvmlReturn_t name(nvmlDevice_t d, kind which, type *out)                                                           \
    {                                                                                                                  \
        char at[32];                                                                                                   \
        NUMBERS(#name, arg(at, (int)which, -1), *out = (type)n[0])                                                     \
    }
#define TWO(name, type)                                                                                                \
    nvmlReturn_t name(nvmlDevice_t d, type *first, type *second)                                                       \
    {                                                                                                                  \
        NUMBERS(#name, "", *first = (type)n[0]; *second = (type)n[1])                                                  \
    }
