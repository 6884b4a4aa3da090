/* How each kind of function of libnvidia-ml is called, for nvml_table.c.
 *
 * A worked example. nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned *mw) gives one number of a device, so
 * `number` calls it: it casts the symbol to that type (AS), passes the device of the subject and a variable that is all
 * ones, and keeps the variable as n[0] of the answer. The row of nvml_table.c
 *     {"power_draw", BY(number, "nvmlDeviceGetPowerUsage"), WATTS(0)}
 * is all that is written for this value: WATTS(0) makes n[0] mW the value of `power_draw` in W. All ones are "not
 * available".
 *
 * A function that fills a struct of numbers needs no caller, only a description of the struct (struct rp_nvml_struct).
 * A newer driver may write more into a struct than its header here declares, so all structs have spare room after
 * them. */
#pragma once

#include "gpu/nvml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A caller, of type rp_nvml_caller: function f, way w of the row, subject s, answer a. */
#define CALLER(name)                                                                                                   \
    static nvmlReturn_t name(rp_nvml_function *f, __attribute__((unused)) const struct rp_nvml_way *w,                 \
                             __attribute__((unused)) const struct rp_nvml_subject *s,                                  \
                             __attribute__((unused)) const struct rp_nvml_row *row, struct rp_nvml_answer *a)
#define AS(...) ((nvmlReturn_t (*)(__VA_ARGS__))f) /* the function, with these parameters */
#define SPARE 512
#define ROOM(type)                                                                                                     \
    union {                                                                                                            \
        type v;                                                                                                        \
        char room[sizeof(type) + SPARE];                                                                               \
    }

/* "Not available" is all ones, and so is what a function did not touch. */
static void keep(struct rp_nvml_answer *a, int i, unsigned n)
{
    a->n[i] = n == ~0u ? RP_NVML_NONE : n;
}

/* ---- one number or text ---- */

CALLER(text_of_system)
{
    return AS(char *, unsigned)(a->text[0], sizeof *a->text);
}

CALLER(number_of_system)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(unsigned *)(&n);
    keep(a, 0, n);
    return rc;
}

/* 12040 -> "12.4" */
CALLER(cuda_version)
{
    int n = -1;
    nvmlReturn_t rc = AS(int *)(&n);
    if (n > 0)
        snprintf(a->text[0], sizeof *a->text, "%d.%d", n / 1000, n % 1000 / 10);
    return rc;
}

CALLER(text)
{
    return AS(nvmlDevice_t, char *, unsigned)(s->dev, a->text[0], sizeof *a->text);
}

CALLER(text_without_length) /* the header promises at most 64 bytes */
{
    return AS(nvmlDevice_t, char *)(s->dev, a->text[0]);
}

CALLER(number)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned *)(s->dev, &n);
    keep(a, 0, n);
    return rc;
}

CALLER(number_by_arg)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, int, unsigned *)(s->dev, row->arg[0], &n);
    keep(a, 0, n);
    return rc;
}

CALLER(two_numbers)
{
    unsigned n[2] = {~0u, ~0u};
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned *, unsigned *)(s->dev, &n[0], &n[1]);
    keep(a, 0, n[0]);
    keep(a, 1, n[1]);
    return rc;
}

CALLER(four_numbers)
{
    unsigned n[4] = {~0u, ~0u, ~0u, ~0u};
    nvmlReturn_t rc =
        AS(nvmlDevice_t, unsigned *, unsigned *, unsigned *, unsigned *)(s->dev, &n[0], &n[1], &n[2], &n[3]);
    for (int i = 0; i < 4; i++)
        keep(a, i, n[i]);
    return rc;
}

CALLER(performance_state)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned *)(s->dev, &n);
    if (n <= NVML_PSTATE_15)
        snprintf(a->text[0], sizeof *a->text, "P%u", n);
    return rc;
}

CALLER(wide)
{
    return AS(nvmlDevice_t, unsigned long long *)(s->dev, &a->n[0]);
}

CALLER(wide_by_args)
{
    return AS(nvmlDevice_t, int, int, unsigned long long *)(s->dev, row->arg[0], row->arg[1], &a->n[0]);
}

CALLER(field)
{
    ROOM(nvmlFieldValue_t) u = {.v = {.fieldId = (unsigned)row->arg[0], .nvmlReturn = NVML_ERROR_UNKNOWN}};
    nvmlReturn_t rc = AS(nvmlDevice_t, int, nvmlFieldValue_t *)(s->dev, 1, &u.v);
    /* a field newer than the driver */
    if (rc == NVML_SUCCESS)
        rc = u.v.nvmlReturn == NVML_ERROR_INVALID_ARGUMENT ? NVML_ERROR_NOT_SUPPORTED : u.v.nvmlReturn;
    if (rc != NVML_SUCCESS)
        return rc;
    switch (u.v.valueType) {
    case NVML_VALUE_TYPE_UNSIGNED_INT:
        keep(a, 0, u.v.value.uiVal);
        break;
    case NVML_VALUE_TYPE_UNSIGNED_LONG:
    case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
        a->n[0] = u.v.value.ullVal;
        break;
    case NVML_VALUE_TYPE_SIGNED_INT:
        a->n[0] = u.v.value.siVal < 0 ? RP_NVML_NONE : (unsigned)u.v.value.siVal;
        break;
    case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
        a->n[0] = u.v.value.sllVal < 0 ? RP_NVML_NONE : (unsigned long long)u.v.value.sllVal;
        break;
    default: /* no field asked for here is a double or a short */
        return NVML_ERROR_UNKNOWN;
    }
    return rc;
}

/* ---- structs ---- */

/* The members that the description names become n[0], n[1], ... */
CALLER(numbers_of_struct)
{
    const struct rp_nvml_struct *d = w->layout;
    unsigned long long buffer[(1024 + SPARE) / sizeof(unsigned long long)];
    char *bytes = (char *)buffer;
    memset(bytes, 0xff, d->size);
    if (d->version)
        memcpy(bytes, &d->version, sizeof d->version); /* the first member of versioned structs */
    nvmlReturn_t rc = d->of_system ? AS(void *)(bytes) : AS(nvmlDevice_t, void *)(s->dev, bytes);
    for (int i = 0; i < 4 && (i == 0 || d->at[i]); i++) {
        unsigned narrow;
        memcpy(&narrow, bytes + d->at[i], sizeof narrow);
        keep(a, i, narrow);
        if (d->width == sizeof a->n[i])
            memcpy(&a->n[i], bytes + d->at[i], sizeof a->n[i]);
    }
    return rc;
}

static void keep_pci(struct rp_nvml_answer *a, const nvmlPciInfo_t *pci)
{
    if (pci->bus > 0xff || pci->device > 0x1f)
        return;
    /* as in /sys/bus/pci/devices */
    snprintf(a->text[0], sizeof *a->text, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device);
    if (pci->pciDeviceId && pci->pciDeviceId != ~0u)
        snprintf(a->text[1], sizeof *a->text, "%04x:%04x", pci->pciDeviceId & 0xffff, pci->pciDeviceId >> 16);
    if (pci->pciSubSystemId && pci->pciSubSystemId != ~0u)
        snprintf(a->text[2], sizeof *a->text, "%04x:%04x", pci->pciSubSystemId & 0xffff, pci->pciSubSystemId >> 16);
}

/* Versions 2 and 3 differ only after the members that are used. */
CALLER(pci)
{
    ROOM(nvmlPciInfo_t) u = {.v = {.bus = ~0u}};
    nvmlReturn_t rc = AS(nvmlDevice_t, nvmlPciInfo_t *)(s->dev, &u.v);
    keep_pci(a, &u.v);
    return rc;
}

CALLER(capability)
{
    int major = -1, minor = -1;
    nvmlReturn_t rc = AS(nvmlDevice_t, int *, int *)(s->dev, &major, &minor);
    if (major > 0 && minor >= 0)
        snprintf(a->text[0], sizeof *a->text, "%d.%d", major, minor);
    return rc;
}

/* The number of nvmlDeviceGetArchitecture() for drivers before 450. */
CALLER(architecture_of_capability)
{
    int major = -1, minor = -1;
    nvmlReturn_t rc = AS(nvmlDevice_t, int *, int *)(s->dev, &major, &minor);
    static const unsigned char known[] = {
        [3] = NVML_DEVICE_ARCH_KEPLER, [5] = NVML_DEVICE_ARCH_MAXWELL, [6] = NVML_DEVICE_ARCH_PASCAL,
        [7] = NVML_DEVICE_ARCH_VOLTA,  [8] = NVML_DEVICE_ARCH_AMPERE,  [9] = NVML_DEVICE_ARCH_HOPPER};
    if (major > 0 && (size_t)major < sizeof known && known[major])
        a->n[0] = known[major];
    if (major == 7 && minor == 5)
        a->n[0] = NVML_DEVICE_ARCH_TURING;
    if (major == 8 && minor == 9)
        a->n[0] = NVML_DEVICE_ARCH_ADA;
    return rc;
}

CALLER(violation)
{
    ROOM(nvmlViolationTime_t) u = {.v = {~0ull, ~0ull}};
    nvmlReturn_t rc = AS(nvmlDevice_t, int, nvmlViolationTime_t *)(s->dev, row->arg[0], &u.v);
    a->n[0] = u.v.violationTime;
    return rc;
}

/* n: state, clique, status (0: registered), problems as bits; the last three only once the state is "completed". text:
 * the cluster. */
static void keep_fabric(struct rp_nvml_answer *a, unsigned state, unsigned clique, unsigned status,
                        const unsigned char *cluster)
{
    static const unsigned char none[NVML_GPU_FABRIC_UUID_LEN];
    keep(a, 0, state);
    if (state != NVML_GPU_FABRIC_STATE_COMPLETED)
        return;
    keep(a, 1, clique);
    keep(a, 2, status);
    if (memcmp(cluster, none, sizeof none) != 0)
        rp_hex(a->text[0], cluster, sizeof none);
}

CALLER(fabric_v2)
{
    ROOM(nvmlGpuFabricInfo_v2_t) u = {.v = {.version = nvmlGpuFabricInfo_v2, .state = 0xff}};
    nvmlReturn_t rc = AS(nvmlDevice_t, nvmlGpuFabricInfo_v2_t *)(s->dev, &u.v);
    keep_fabric(a, u.v.state == 0xff ? ~0u : u.v.state, u.v.cliqueId, u.v.status, u.v.clusterUuid);
    /* two bits per question: 0 not known, 1 yes, 2 no */
    if (u.v.state == NVML_GPU_FABRIC_STATE_COMPLETED && u.v.healthMask) {
        a->n[3] = 0;
        for (unsigned i = 0; i < 4; i++)
            a->n[3] |= (unsigned long long)((u.v.healthMask >> 2 * i & 3) == 1) << i;
    }
    return rc;
}

CALLER(fabric_v1)
{
    ROOM(nvmlGpuFabricInfo_t) u = {.v = {.state = 0xff}};
    nvmlReturn_t rc = AS(nvmlDevice_t, nvmlGpuFabricInfo_t *)(s->dev, &u.v);
    keep_fabric(a, u.v.state == 0xff ? ~0u : u.v.state, u.v.cliqueId, u.v.status, u.v.clusterUuid);
    return rc;
}

/* ---- lists ---- */

CALLER(retired_pages)
{
    unsigned n = 0; /* asks how many */
    nvmlReturn_t rc = AS(nvmlDevice_t, int, unsigned *, unsigned long long *)(s->dev, row->arg[0], &n, NULL);
    a->n[0] = n;
    return rc == NVML_ERROR_INSUFFICIENT_SIZE && n > 0 ? NVML_SUCCESS : rc;
}

/* How many only: the entries' size changed between drivers, under the same name even. 64 bytes are twice the largest
 * one. */
CALLER(processes)
{
    unsigned n = 0, room = 0;
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned *, void *)(s->dev, &n, NULL);
    for (int i = 0; rc == NVML_ERROR_INSUFFICIENT_SIZE && n > room && n < 1u << 16 && i < 4; i++) {
        room = n = 2 * n + 8; /* some may start meanwhile */
        RP_FREE void *entries = rp_alloc((size_t)room * 64);
        rc = AS(nvmlDevice_t, unsigned *, void *)(s->dev, &n, entries);
    }
    a->n[0] = n;
    return rc;
}

CALLER(processors)
{
    return AS(nvmlDevice_t, unsigned, unsigned long *)(s->dev, RP_NVML_SET, a->set);
}

CALLER(nodes)
{
    return AS(nvmlDevice_t, unsigned, unsigned long *, unsigned)(s->dev, RP_NVML_SET, a->set, (unsigned)row->arg[0]);
}

/* ---- links and pairs ---- */

CALLER(link_number)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned, unsigned *)(s->dev, s->link, &n);
    keep(a, 0, n);
    return rc;
}

CALLER(link_type)
{
    unsigned n = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned, unsigned *)(s->dev, s->link, &n);
    a->n[0] = n == NVML_NVLINK_DEVICE_TYPE_UNKNOWN ? RP_NVML_NONE : n;
    return rc;
}

/* In a virtual machine the other end, an NVSwitch, has an address that no device can have. */
CALLER(link_pci)
{
    const unsigned untouched = 0x1000;
    ROOM(nvmlPciInfo_t) u = {.v = {.bus = untouched}};
    nvmlReturn_t rc = AS(nvmlDevice_t, unsigned, nvmlPciInfo_t *)(s->dev, s->link, &u.v);
    keep_pci(a, &u.v);
    if (!*a->text[0] && u.v.bus != untouched)
        snprintf(a->text[0], sizeof *a->text, "not_visible");
    return rc;
}

/* In MB/s: by one field and the link's number, with older drivers by a field per link. */
CALLER(link_speed)
{
    unsigned per_link =
        s->link < 6 ? NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 + s->link : NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + s->link - 6;
    unsigned fields[2] = {NVML_FI_DEV_NVLINK_GET_SPEED, s->link < 12 ? per_link : 0};
    nvmlReturn_t rc = NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < 2 && fields[i]; i++) {
        ROOM(nvmlFieldValue_t)
        u = {.v = {.fieldId = fields[i], .scopeId = i == 0 ? s->link : 0, .nvmlReturn = NVML_ERROR_UNKNOWN}};
        nvmlReturn_t call = AS(nvmlDevice_t, int, nvmlFieldValue_t *)(s->dev, 1, &u.v);
        if (call != NVML_SUCCESS)
            return call;
        rc = u.v.nvmlReturn == NVML_ERROR_INVALID_ARGUMENT ? NVML_ERROR_NOT_SUPPORTED : u.v.nvmlReturn;
        if (rc == NVML_SUCCESS) {
            keep(a, 0, u.v.value.uiVal);
            break;
        }
    }
    return rc;
}

/* Levels are spaced by ten. */
CALLER(ancestor)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, nvmlDevice_t, unsigned *)(s->dev, s->peer, &n);
    if (n != ~0u)
        a->n[0] = n % 10 ? 1000 + n : n / 10; /* 1000: no word */
    return rc;
}

CALLER(p2p)
{
    unsigned n = ~0u;
    nvmlReturn_t rc = AS(nvmlDevice_t, nvmlDevice_t, int, unsigned *)(s->dev, s->peer, row->arg[0], &n);
    keep(a, 0, n);
    return rc;
}

/* ---- values without a function ---- */

/* Data sheets, for names that do not say it themselves. */
static const char *const memory_types[][2] = {
    {"HBM3e", "HBM3e"},         {"HBM3", "HBM3"},           {"HBM2e", "HBM2e"},         {"HBM2", "HBM2"},
    {"B300", "HBM3e"},          {"B200", "HBM3e"},          {"H200", "HBM3e"},          {"H100 NVL", "HBM3"},
    {"GB300", "HBM3e"},         {"GB200", "HBM3e"},         {"GH200", "HBM3"},          {"GB10", "LPDDR5X"},
    {"Thor", "LPDDR5X"},        {"Orin", "LPDDR5"},         {"T4G", "GDDR6"},
    {"H100 PCIe", "HBM2e"},     {"A100 80GB", "HBM2e"},     {"A100-SXM4-80GB", "HBM2e"}, {"A100-SXM4-40GB", "HBM2"},
    {"A100-PCIE-40GB", "HBM2"}, {"A30", "HBM2"},            {"V100", "HBM2"},           {"GV100", "HBM2"},
    {"P100", "HBM2"},           {"TITAN V", "HBM2"},        {"L40S", "GDDR6"},          {"L40", "GDDR6"},
    {"L4", "GDDR6"},            {"A40", "GDDR6"},           {"A10", "GDDR6"},           {"RTX A6000", "GDDR6"},
    {"T4", "GDDR6"},            {"TITAN RTX", "GDDR6"},     {"RTX 2080 Ti", "GDDR6"},   {"RTX 3090", "GDDR6X"},
    {"RTX 4090", "GDDR6X"},     {"RTX 5090", "GDDR7"},      {"GTX 1080 Ti", "GDDR5X"},  {"P40", "GDDR5"},
};

CALLER(memory_type)
{
    nvmlReturn_t rc = AS(nvmlDevice_t, char *, unsigned)(s->dev, a->text[1], sizeof *a->text);
    a->text[1][sizeof *a->text - 1] = 0;
    for (size_t i = 0; i < sizeof memory_types / sizeof *memory_types && !*a->text[0]; i++) {
        const char *name = memory_types[i][0], *at = strstr(a->text[1], name);
        /* a whole word: the A30 is not an RTX A3000 */
        if (at && (at == a->text[1] || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[strlen(name)]))
            snprintf(a->text[0], sizeof *a->text, "%s", memory_types[i][1]);
    }
    return rc;
}
