/* How each kind of function of libnvidia-ml is called, for nvml_table.c. A newer driver may write more into a struct than its header says
 * here: all of them have room behind. */
#ifndef RP_GPU_NVML_CALLS_INC_H
#define RP_GPU_NVML_CALLS_INC_H

#include "gpu/nvml.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* A caller: CALL(name, (parameters of the function)) { ... F(arguments) ... } */
#define CALL(name, parameters)                                                                                                             \
    typedef nvmlReturn_t name##_function parameters;                                                                                      \
    static nvmlReturn_t name(rp_nvml_function *f_, __attribute__((unused)) const struct rp_nvml_subject *s,                               \
                             __attribute__((unused)) const struct rp_nvml_row *row, struct rp_nvml_answer *a)
#define F(name, ...) ((name##_function *)f_)(__VA_ARGS__)
#define ROOM(type)                                                                                                                         \
    union {                                                                                                                                \
        type v;                                                                                                                            \
        char room[sizeof(type) + 512];                                                                                                     \
    }

/* "Not available" is all ones, and so is what a function did not touch. */
static void keep(struct rp_nvml_answer *a, int i, unsigned n)
{
    a->n[i] = n == ~0u ? RP_NVML_NONE : n;
}

/* ---- one number or text ---- */

CALL(text_of_system, (char *, unsigned))
{
    return F(text_of_system, a->text[0], sizeof *a->text);
}

CALL(number_of_system, (unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(number_of_system, &n);
    keep(a, 0, n);
    return rc;
}

/* 12040 -> "12.4" */
CALL(cuda_version, (int *))
{
    int n = -1;
    nvmlReturn_t rc = F(cuda_version, &n);
    if (n > 0)
        snprintf(a->text[0], sizeof *a->text, "%d.%d", n / 1000, n % 1000 / 10);
    return rc;
}

CALL(text, (nvmlDevice_t, char *, unsigned))
{
    return F(text, s->dev, a->text[0], sizeof *a->text);
}

CALL(text_without_length, (nvmlDevice_t, char *)) /* the header promises at most 64 bytes */
{
    return F(text_without_length, s->dev, a->text[0]);
}

CALL(number, (nvmlDevice_t, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(number, s->dev, &n);
    keep(a, 0, n);
    return rc;
}

CALL(number_by_arg, (nvmlDevice_t, int, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(number_by_arg, s->dev, row->arg[0], &n);
    keep(a, 0, n);
    return rc;
}

CALL(two_numbers, (nvmlDevice_t, unsigned *, unsigned *))
{
    unsigned n[2] = {~0u, ~0u};
    nvmlReturn_t rc = F(two_numbers, s->dev, &n[0], &n[1]);
    keep(a, 0, n[0]);
    keep(a, 1, n[1]);
    return rc;
}

CALL(four_numbers, (nvmlDevice_t, unsigned *, unsigned *, unsigned *, unsigned *))
{
    unsigned n[4] = {~0u, ~0u, ~0u, ~0u};
    nvmlReturn_t rc = F(four_numbers, s->dev, &n[0], &n[1], &n[2], &n[3]);
    for (int i = 0; i < 4; i++)
        keep(a, i, n[i]);
    return rc;
}

CALL(performance_state, (nvmlDevice_t, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(performance_state, s->dev, &n);
    if (n <= NVML_PSTATE_15)
        snprintf(a->text[0], sizeof *a->text, "P%u", n);
    return rc;
}

CALL(wide, (nvmlDevice_t, unsigned long long *))
{
    return F(wide, s->dev, &a->n[0]);
}

CALL(wide_by_args, (nvmlDevice_t, int, int, unsigned long long *))
{
    return F(wide_by_args, s->dev, row->arg[0], row->arg[1], &a->n[0]);
}

CALL(field, (nvmlDevice_t, int, nvmlFieldValue_t *))
{
    ROOM(nvmlFieldValue_t) u = {.v = {.fieldId = (unsigned)row->arg[0], .nvmlReturn = NVML_ERROR_UNKNOWN}};
    nvmlReturn_t rc = F(field, s->dev, 1, &u.v);
    if (rc == NVML_SUCCESS)
        rc = u.v.nvmlReturn == NVML_ERROR_INVALID_ARGUMENT ? NVML_ERROR_NOT_SUPPORTED : u.v.nvmlReturn; /* a field newer than the driver */
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

CALL(memory_v2, (nvmlDevice_t, nvmlMemory_v2_t *))
{
    ROOM(nvmlMemory_v2_t) u = {.v = {nvmlMemory_v2, ~0ull, ~0ull, ~0ull, ~0ull}};
    nvmlReturn_t rc = F(memory_v2, s->dev, &u.v);
    a->n[0] = u.v.total;
    a->n[1] = u.v.free;
    a->n[2] = u.v.reserved;
    return rc;
}

CALL(memory_v1, (nvmlDevice_t, nvmlMemory_t *))
{
    ROOM(nvmlMemory_t) u = {.v = {~0ull, ~0ull, ~0ull}};
    nvmlReturn_t rc = F(memory_v1, s->dev, &u.v);
    a->n[0] = u.v.total;
    a->n[1] = u.v.free;
    return rc;
}

CALL(bar1, (nvmlDevice_t, nvmlBAR1Memory_t *))
{
    ROOM(nvmlBAR1Memory_t) u = {.v = {~0ull, ~0ull, ~0ull}};
    nvmlReturn_t rc = F(bar1, s->dev, &u.v);
    a->n[0] = u.v.bar1Total;
    a->n[1] = u.v.bar1Free;
    return rc;
}

static void keep_pci(struct rp_nvml_answer *a, const nvmlPciInfo_t *pci)
{
    if (pci->bus > 0xff || pci->device > 0x1f)
        return;
    snprintf(a->text[0], sizeof *a->text, "%04x:%02x:%02x.0", pci->domain, pci->bus, pci->device); /* as in /sys/bus/pci/devices */
    if (pci->pciDeviceId && pci->pciDeviceId != ~0u)
        snprintf(a->text[1], sizeof *a->text, "%04x:%04x", pci->pciDeviceId & 0xffff, pci->pciDeviceId >> 16);
    if (pci->pciSubSystemId && pci->pciSubSystemId != ~0u)
        snprintf(a->text[2], sizeof *a->text, "%04x:%04x", pci->pciSubSystemId & 0xffff, pci->pciSubSystemId >> 16);
}

/* Version 2 and 3 differ only behind the members that are used. */
CALL(pci, (nvmlDevice_t, nvmlPciInfo_t *))
{
    ROOM(nvmlPciInfo_t) u = {.v = {.bus = ~0u}};
    nvmlReturn_t rc = F(pci, s->dev, &u.v);
    keep_pci(a, &u.v);
    return rc;
}

CALL(capability, (nvmlDevice_t, int *, int *))
{
    int major = -1, minor = -1;
    nvmlReturn_t rc = F(capability, s->dev, &major, &minor);
    if (major > 0 && minor >= 0)
        snprintf(a->text[0], sizeof *a->text, "%d.%d", major, minor);
    return rc;
}

/* The number of nvmlDeviceGetArchitecture() for drivers before 450. */
CALL(architecture_of_capability, (nvmlDevice_t, int *, int *))
{
    int major = -1, minor = -1;
    nvmlReturn_t rc = F(architecture_of_capability, s->dev, &major, &minor);
    static const unsigned char known[] = {[3] = NVML_DEVICE_ARCH_KEPLER, [5] = NVML_DEVICE_ARCH_MAXWELL, [6] = NVML_DEVICE_ARCH_PASCAL,
                                          [7] = NVML_DEVICE_ARCH_VOLTA,  [8] = NVML_DEVICE_ARCH_AMPERE,  [9] = NVML_DEVICE_ARCH_HOPPER};
    if (major > 0 && (size_t)major < sizeof known && known[major])
        a->n[0] = known[major];
    if (major == 7 && minor == 5)
        a->n[0] = NVML_DEVICE_ARCH_TURING;
    if (major == 8 && minor == 9)
        a->n[0] = NVML_DEVICE_ARCH_ADA;
    return rc;
}

CALL(utilization, (nvmlDevice_t, nvmlUtilization_t *))
{
    ROOM(nvmlUtilization_t) u = {.v = {~0u, ~0u}};
    nvmlReturn_t rc = F(utilization, s->dev, &u.v);
    keep(a, 0, u.v.gpu);
    keep(a, 1, u.v.memory);
    return rc;
}

CALL(violation, (nvmlDevice_t, int, nvmlViolationTime_t *))
{
    ROOM(nvmlViolationTime_t) u = {.v = {~0ull, ~0ull}};
    nvmlReturn_t rc = F(violation, s->dev, row->arg[0], &u.v);
    a->n[0] = u.v.violationTime;
    return rc;
}

CALL(c2c, (nvmlDevice_t, nvmlC2cModeInfo_v1_t *))
{
    ROOM(nvmlC2cModeInfo_v1_t) u = {.v = {~0u}};
    nvmlReturn_t rc = F(c2c, s->dev, &u.v);
    keep(a, 0, u.v.isC2cEnabled);
    return rc;
}

CALL(attributes, (nvmlDevice_t, nvmlDeviceAttributes_t *))
{
    ROOM(nvmlDeviceAttributes_t) u = {.v = {.multiprocessorCount = ~0u}};
    nvmlReturn_t rc = F(attributes, s->dev, &u.v);
    keep(a, 0, u.v.multiprocessorCount);
    return rc;
}

CALL(confidential_settings, (nvmlSystemConfComputeSettings_v1_t *))
{
    ROOM(nvmlSystemConfComputeSettings_v1_t) u = {.v = {nvmlSystemConfComputeSettings_v1, ~0u, ~0u, ~0u, ~0u}};
    nvmlReturn_t rc = F(confidential_settings, &u.v);
    keep(a, 0, u.v.ccFeature);
    keep(a, 1, u.v.environment);
    keep(a, 2, u.v.devToolsMode);
    keep(a, 3, u.v.multiGpuMode);
    return rc;
}

CALL(confidential_state, (nvmlConfComputeSystemState_t *))
{
    ROOM(nvmlConfComputeSystemState_t) u = {.v = {~0u, ~0u, ~0u}};
    nvmlReturn_t rc = F(confidential_state, &u.v);
    keep(a, 0, u.v.ccFeature);
    keep(a, 1, u.v.environment);
    keep(a, 2, u.v.devToolsMode);
    return rc;
}

/* n: state, clique, status (0: registered), problems as bits; the last three only once the state is "completed". text: the cluster. */
static void keep_fabric(struct rp_nvml_answer *a, unsigned state, unsigned clique, unsigned status, const unsigned char *cluster)
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

CALL(fabric_v2, (nvmlDevice_t, nvmlGpuFabricInfo_v2_t *))
{
    ROOM(nvmlGpuFabricInfo_v2_t) u = {.v = {.version = nvmlGpuFabricInfo_v2, .state = 0xff}};
    nvmlReturn_t rc = F(fabric_v2, s->dev, &u.v);
    keep_fabric(a, u.v.state == 0xff ? ~0u : u.v.state, u.v.cliqueId, u.v.status, u.v.clusterUuid);
    if (u.v.state == NVML_GPU_FABRIC_STATE_COMPLETED && u.v.healthMask) { /* two bits per question: 0 not known, 1 yes, 2 no */
        a->n[3] = 0;
        for (unsigned i = 0; i < 4; i++)
            a->n[3] |= (unsigned long long)((u.v.healthMask >> 2 * i & 3) == 1) << i;
    }
    return rc;
}

CALL(fabric_v1, (nvmlDevice_t, nvmlGpuFabricInfo_t *))
{
    ROOM(nvmlGpuFabricInfo_t) u = {.v = {.state = 0xff}};
    nvmlReturn_t rc = F(fabric_v1, s->dev, &u.v);
    keep_fabric(a, u.v.state == 0xff ? ~0u : u.v.state, u.v.cliqueId, u.v.status, u.v.clusterUuid);
    return rc;
}

/* ---- lists ---- */

CALL(retired_pages, (nvmlDevice_t, int, unsigned *, unsigned long long *))
{
    unsigned n = 0; /* asks how many */
    nvmlReturn_t rc = F(retired_pages, s->dev, row->arg[0], &n, NULL);
    a->n[0] = n;
    return rc == NVML_ERROR_INSUFFICIENT_SIZE && n > 0 ? NVML_SUCCESS : rc;
}

/* How many only: the entries' size changed between drivers, under the same name even. 64 bytes are twice the largest one. */
CALL(processes, (nvmlDevice_t, unsigned *, void *))
{
    unsigned n = 0, room = 0;
    nvmlReturn_t rc = F(processes, s->dev, &n, NULL);
    for (int i = 0; rc == NVML_ERROR_INSUFFICIENT_SIZE && n > room && n < 1u << 16 && i < 4; i++) {
        room = n = 2 * n + 8; /* some may start meanwhile */
        RP_FREE void *entries = rp_alloc((size_t)room * 64);
        rc = F(processes, s->dev, &n, entries);
    }
    a->n[0] = n;
    return rc;
}

CALL(processors, (nvmlDevice_t, unsigned, unsigned long *))
{
    return F(processors, s->dev, RP_NVML_SET, a->set);
}

CALL(nodes, (nvmlDevice_t, unsigned, unsigned long *, unsigned))
{
    return F(nodes, s->dev, RP_NVML_SET, a->set, (unsigned)row->arg[0]);
}

/* ---- links and pairs ---- */

CALL(link_number, (nvmlDevice_t, unsigned, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(link_number, s->dev, s->link, &n);
    keep(a, 0, n);
    return rc;
}

CALL(link_type, (nvmlDevice_t, unsigned, unsigned *))
{
    unsigned n = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
    nvmlReturn_t rc = F(link_type, s->dev, s->link, &n);
    a->n[0] = n == NVML_NVLINK_DEVICE_TYPE_UNKNOWN ? RP_NVML_NONE : n;
    return rc;
}

/* In a virtual machine the other end, an NVSwitch, has an address that no device can have. */
CALL(link_pci, (nvmlDevice_t, unsigned, nvmlPciInfo_t *))
{
    const unsigned untouched = 0x1000;
    ROOM(nvmlPciInfo_t) u = {.v = {.bus = untouched}};
    nvmlReturn_t rc = F(link_pci, s->dev, s->link, &u.v);
    keep_pci(a, &u.v);
    if (!*a->text[0] && u.v.bus != untouched)
        snprintf(a->text[0], sizeof *a->text, "not_visible");
    return rc;
}

/* In MB/s: by one field and the link's number, with older drivers by a field per link. */
CALL(link_speed, (nvmlDevice_t, int, nvmlFieldValue_t *))
{
    unsigned per_link = s->link < 6 ? NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 + s->link : NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + s->link - 6;
    unsigned fields[2] = {NVML_FI_DEV_NVLINK_GET_SPEED, s->link < 12 ? per_link : 0};
    nvmlReturn_t rc = NVML_ERROR_NOT_SUPPORTED;
    for (int i = 0; i < 2 && fields[i]; i++) {
        ROOM(nvmlFieldValue_t) u = {.v = {.fieldId = fields[i], .scopeId = i == 0 ? s->link : 0, .nvmlReturn = NVML_ERROR_UNKNOWN}};
        nvmlReturn_t call = F(link_speed, s->dev, 1, &u.v);
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
CALL(ancestor, (nvmlDevice_t, nvmlDevice_t, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(ancestor, s->dev, s->peer, &n);
    if (n != ~0u)
        a->n[0] = n % 10 ? 1000 + n : n / 10; /* 1000: no word */
    return rc;
}

CALL(p2p, (nvmlDevice_t, nvmlDevice_t, int, unsigned *))
{
    unsigned n = ~0u;
    nvmlReturn_t rc = F(p2p, s->dev, s->peer, row->arg[0], &n);
    keep(a, 0, n);
    return rc;
}

/* ---- what no function says ---- */

/* Data sheets, for names that do not say it themselves. */
static const char *const memory_types[][2] = {
    {"HBM3e", "HBM3e"},         {"HBM3", "HBM3"},           {"HBM2e", "HBM2e"},         {"HBM2", "HBM2"},
    {"B300", "HBM3e"},          {"B200", "HBM3e"},          {"H200", "HBM3e"},          {"H100 NVL", "HBM3"},
    {"H100 PCIe", "HBM2e"},     {"A100 80GB", "HBM2e"},     {"A100-SXM4-80GB", "HBM2e"}, {"A100-SXM4-40GB", "HBM2"},
    {"A100-PCIE-40GB", "HBM2"}, {"A30", "HBM2"},            {"V100", "HBM2"},           {"GV100", "HBM2"},
    {"P100", "HBM2"},           {"TITAN V", "HBM2"},        {"L40S", "GDDR6"},          {"L40", "GDDR6"},
    {"L4", "GDDR6"},            {"A40", "GDDR6"},           {"A10", "GDDR6"},           {"RTX A6000", "GDDR6"},
    {"T4", "GDDR6"},            {"TITAN RTX", "GDDR6"},     {"RTX 2080 Ti", "GDDR6"},   {"RTX 3090", "GDDR6X"},
    {"RTX 4090", "GDDR6X"},     {"RTX 5090", "GDDR7"},      {"GTX 1080 Ti", "GDDR5X"},  {"P40", "GDDR5"},
};

CALL(memory_type, (nvmlDevice_t, char *, unsigned))
{
    nvmlReturn_t rc = F(memory_type, s->dev, a->text[1], sizeof *a->text);
    a->text[1][sizeof *a->text - 1] = 0;
    for (size_t i = 0; i < sizeof memory_types / sizeof *memory_types && !*a->text[0]; i++) {
        const char *name = memory_types[i][0], *at = strstr(a->text[1], name);
        /* a whole word: the A30 is no RTX A3000 */
        if (at && (at == a->text[1] || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[strlen(name)]))
            snprintf(a->text[0], sizeof *a->text, "%s", memory_types[i][1]);
    }
    return rc;
}

#endif
