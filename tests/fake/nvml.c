/* A libnvidia-ml.so.1 that plays the machine described by the file $RP_FAKE_NVML.
 *
 * It is built once per age: DRIVER=440 has no function that is newer than driver 440, so that they are really absent
 * (the numbers below are the first driver whose header has them). A file that says it is of the other age fails in
 * nvmlInit_v2, as a real mismatch would.
 *
 * The file: lines "WHO FUNCTION VALUE...", # begins a comment; the last line that fits counts.
 *     WHO       system, gpu3, mig0.1 (the second MIG device of gpu0); gpu* and mig* are all of them, * is everything
 *     FUNCTION  the function's name, with or without _v2, _v3; or its beginning and *; "/1/2" after it: only when it is
 *               called with those arguments (a link, a clock, a counter, another device's number)
 *     VALUE     what the function returns, or
 *               !4 that code, !turn every code in turn, !hang, !crash, !exit, !print some rubbish on descriptors 1 and
 *               3
 * A function without a line is NOT_SUPPORTED. Three lines stand for many:
 *     gpu0 links gpu1 gpu1 - switch:0000:c1:00.0     where each NVLink leads, - is down
 *     gpu0 ancestors 0 10 50                         levels towards gpu0, gpu1, gpu2
 *     gpu0 migs 0 2                                  the MIG devices there are
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "tests/fake/play.h"

/* ---- library and system ---- */

const char *nvmlErrorString(nvmlReturn_t rc)
{
    static char text[64];
    const char *value = value_of(&the_system, "nvmlErrorString", "");
    if (value)
        return *value == '!' ? (act(value + 1), NULL) : value;
    snprintf(text, sizeof text, rc == NVML_ERROR_UNKNOWN ? "Unknown Error" : "the driver's words for %d", (int)rc);
    return text;
}

nvmlReturn_t nvmlInit_v2(void)
{
    nvmlReturn_t rc = load();
    const char *version = rc == NVML_SUCCESS ? value_of(&the_system, "nvmlSystemGetDriverVersion", "") : NULL;
    const char *value = rc == NVML_SUCCESS ? value_of(&the_system, "nvmlInit_v2", "") : NULL;
    if (value && *value == '!')
        return act(value + 1);
    if (version && *version != '!' && (atoi(version) < 450) != (DRIVER < 450))
        return NVML_ERROR_LIB_RM_VERSION_MISMATCH;
    ready = rc == NVML_SUCCESS;
    return rc;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned room)
{
    return get_text(&the_system, "nvmlSystemGetDriverVersion", out, room);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned room)
{
    return get_text(&the_system, "nvmlSystemGetNVMLVersion", out, room);
}

static nvmlReturn_t cuda_version(const char *name, int *out)
{
    nvmlDevice_t d = &the_system;
    NUMBERS(name, "", *out = (int)n[0])
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    return cuda_version("nvmlSystemGetCudaDriverVersion_v2", out);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    return cuda_version("nvmlSystemGetCudaDriverVersion", out);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    nvmlDevice_t d = &the_system;
    NUMBERS("nvmlDeviceGetCount_v2", "", *out = (unsigned)n[0])
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    unsigned count = 0;
    if (!ready || nvmlDeviceGetCount_v2(&count) != NVML_SUCCESS || index >= count || index >= GPUS_MAX)
        return ready ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_UNINITIALIZED;
    const char *value = value_of(&gpus[index], "nvmlDeviceGetHandleByIndex_v2", "");
    if (value && *value == '!')
        return act(value + 1);
    *out = &gpus[index];
    return NVML_SUCCESS;
}

/* ---- one device ---- */

TEXT(nvmlDeviceGetName)
TEXT(nvmlDeviceGetUUID)
TEXT(nvmlDeviceGetSerial)
TEXT(nvmlDeviceGetBoardPartNumber)
TEXT(nvmlDeviceGetVbiosVersion)
NUMBER(nvmlDeviceGetMinorNumber, unsigned)
NUMBER(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t)
NUMBER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t)
NUMBER(nvmlDeviceGetComputeMode, nvmlComputeMode_t)
NUMBER(nvmlDeviceGetDisplayActive, nvmlEnableState_t)
NUMBER(nvmlDeviceGetPerformanceState, nvmlPstates_t)
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long)
NUMBER(nvmlDeviceGetPowerUsage, unsigned)
NUMBER(nvmlDeviceGetPowerManagementLimit, unsigned)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned)
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned)
NUMBER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long)
NUMBER(nvmlDeviceGetFanSpeed, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned)
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned)
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, nvmlEnableState_t)
NUMBER_BY(nvmlDeviceGetClockInfo, nvmlClockType_t, unsigned)
NUMBER_BY(nvmlDeviceGetMaxClockInfo, nvmlClockType_t, unsigned)
NUMBER_BY(nvmlDeviceGetTemperature, nvmlTemperatureSensors_t, unsigned)
NUMBER_BY(nvmlDeviceGetTemperatureThreshold, nvmlTemperatureThresholds_t, unsigned)
TWO(nvmlDeviceGetPowerManagementLimitConstraints, unsigned)
TWO(nvmlDeviceGetEccMode, nvmlEnableState_t)
TWO(nvmlDeviceGetCudaComputeCapability, int)

/* Deprecated since driver 580, which is the version of the file: the library need not be built for it. */
static nvmlReturn_t applications_clock(nvmlDevice_t d, const char *name, nvmlClockType_t which, unsigned *out)
{
    const char *version = value_of(&the_system, "nvmlSystemGetDriverVersion", "");
    char at[32];
    if (version && atoi(version) >= 580)
        return NVML_ERROR_DEPRECATED;
    NUMBERS(name, arg(at, (int)which, -1), *out = (unsigned)n[0])
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t d, nvmlClockType_t which, unsigned *out)
{
    return applications_clock(d, "nvmlDeviceGetApplicationsClock", which, out);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t d, nvmlClockType_t which, unsigned *out)
{
    return applications_clock(d, "nvmlDeviceGetDefaultApplicationsClock", which, out);
}

/* total, free, reserved; version 1 counts reserved as used */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m)
{
    NUMBERS("nvmlDeviceGetMemoryInfo", "", *m = (nvmlMemory_t){.total = n[0], .free = n[1], .used = n[0] - n[1]})
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *m){
    NUMBERS("nvmlDeviceGetBAR1MemoryInfo", "",
            *m = (nvmlBAR1Memory_t){.bar1Total = n[0], .bar1Free = n[1], .bar1Used = n[0] - n[1]})}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u){
    NUMBERS("nvmlDeviceGetUtilizationRates", "",
            *u = (nvmlUtilization_t){.gpu = (unsigned)n[0], .memory = (unsigned)n[1]})}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t d, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *v)
{
    char at[32];
    NUMBERS("nvmlDeviceGetViolationStatus", arg(at, (int)policy, -1),
            *v = (nvmlViolationTime_t){.referenceTime = 1, .violationTime = n[0]})
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *out)
{
    char at[32];
    NUMBERS("nvmlDeviceGetTotalEccErrors", arg(at, (int)type, (int)counter), *out = n[0])
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t d, nvmlPageRetirementCause_t cause, unsigned *count,
                                       unsigned long long *addresses)
{
    char at[32];
    unsigned room = *count;
    NUMBERS("nvmlDeviceGetRetiredPages", arg(at, (int)cause, -1), *count = (unsigned)n[0];
            if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
            if (*count > 0) memset(addresses, 0xaa, *count * sizeof *addresses))
}

/* "!..." of one field is the field's own failure, as real drivers do it. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n_values, nvmlFieldValue_t *values)
{
    const char *value = NULL;
    nvmlReturn_t rc = ask(d, "nvmlDeviceGetFieldValues", "", &value);
    if (rc != NVML_SUCCESS && value && *value == '!')
        return rc;
    for (int i = 0; i < n_values; i++) {
        char at[32];
        int field = (int)values[i].fieldId, link = field == NVML_FI_DEV_NVLINK_GET_SPEED ? (int)values[i].scopeId : -1;
        values[i].nvmlReturn = DRIVER < 450 && field >= 96
                                   ? NVML_ERROR_INVALID_ARGUMENT
                                   : ask(d, "nvmlDeviceGetFieldValues", arg(at, field, link), &value);
        if (values[i].nvmlReturn != NVML_SUCCESS)
            continue;
        values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
        values[i].value.uiVal = (unsigned)strtoul(value, NULL, 10);
    }
    return NVML_SUCCESS;
}

static void fill_pci(nvmlPciInfo_t *pci, const char *value)
{
    unsigned domain = 0, bus = 0, device = 0, vendor = 0, id = 0, sub_vendor = 0, sub_id = 0;
    memset(pci, 0, sizeof *pci);
    sscanf(value, "%x:%x:%x.0 %x:%x %x:%x", &domain, &bus, &device, &vendor, &id, &sub_vendor, &sub_id);
    pci->domain = domain;
    pci->bus = bus;
    pci->device = device;
    pci->pciDeviceId = id << 16 | vendor;
    pci->pciSubSystemId = sub_id << 16 | sub_vendor;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", domain & 0xffff, bus & 0xff, device & 0x1f);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", domain, bus & 0xff, device & 0x1f);
}

static nvmlReturn_t get_pci(nvmlDevice_t d, const char *name, nvmlPciInfo_t *pci)
{
    const char *value;
    nvmlReturn_t rc = ask(d, name, "", &value);
    if (rc == NVML_SUCCESS)
        fill_pci(pci, value);
    return rc;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
    return get_pci(d, "nvmlDeviceGetPciInfo_v3", pci);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t d, nvmlPciInfo_t *pci)
{
    return get_pci(d, "nvmlDeviceGetPciInfo_v2", pci);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *out)
{
    unsigned domain, bus, device;
    if (!ready)
        return NVML_ERROR_UNINITIALIZED;
    if (sscanf(address, "%x:%x:%x.0", &domain, &bus, &device) != 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < GPUS_MAX; i++) {
        nvmlPciInfo_t pci;
        if (get_pci(&gpus[i], "nvmlDeviceGetPciInfo_v3", &pci) == NVML_SUCCESS && pci.domain == domain &&
            pci.bus == bus && pci.device == device) {
            *out = &gpus[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* "0-3,8" into bits */
static nvmlReturn_t get_set(nvmlDevice_t d, const char *name, unsigned words, unsigned long *set)
{
    const char *value;
    const unsigned width = 8 * sizeof *set;
    nvmlReturn_t rc = ask(d, name, "", &value);
    if (rc != NVML_SUCCESS)
        return rc;
    memset(set, 0, words * sizeof *set);
    for (char *end; *value; value = *end ? end + 1 : end) {
        unsigned long from = strtoul(value, &end, 10), to = *end == '-' ? strtoul(end + 1, &end, 10) : from;
        for (; from <= to; from++) {
            if (from >= words * width)
                return NVML_ERROR_INSUFFICIENT_SIZE;
            set[from / width] |= 1ul << from % width;
        }
    }
    return rc;
}

nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned words, unsigned long *set)
{
    return get_set(d, "nvmlDeviceGetCpuAffinity", words, set);
}

/* `size`: of an entry, which grew with the versions */
static nvmlReturn_t get_processes(nvmlDevice_t d, const char *name, unsigned *count, void *entries, size_t size)
{
    unsigned room = *count;
    NUMBERS(name, "", *count = (unsigned)n[0]; if (*count > room) return NVML_ERROR_INSUFFICIENT_SIZE;
            if (*count > 0) memset(entries, 0x55, *count * size))
}

#define PROCESSES(name, type, size)                                                                                    \
    nvmlReturn_t name(nvmlDevice_t d, unsigned *count, type *entries)                                                  \
    {                                                                                                                  \
        return get_processes(d, #name, count, entries, size);                                                          \
    }
PROCESSES(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, 16)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, 16)

/* ---- links and pairs ---- */

/* The word for link `link`: 0, or -1 where the device has no such link. */
static int link_word(const struct nvmlDevice_st *d, unsigned link, char word[64])
{
    const char *value = value_of(d, "links", "");
    for (unsigned i = 0; value && sscanf(value, "%63s", word) == 1; i++) {
        if (i == link)
            return 0;
        value += strspn(value, " ");
        value += strcspn(value, " ");
    }
    return -1;
}

enum { ASK_STATE, ASK_TYPE, ASK_PCI };

static nvmlReturn_t get_link(nvmlDevice_t d, const char *name, unsigned link, int what, unsigned *number,
                             nvmlPciInfo_t *pci)
{
    char word[64] = "", at[32];
    const char *value = NULL;
    nvmlReturn_t rc = ask(d, name, arg(at, (int)link, -1), &value);
    if (link >= (DRIVER < 450 ? 6 : NVML_NVLINK_MAX_LINKS))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (value) { /* a line of its own */
        if (rc == NVML_SUCCESS && pci)
            fill_pci(pci, value);
        else if (rc == NVML_SUCCESS)
            *number = (unsigned)strtoul(value, NULL, 10);
        return rc;
    }
    if (!ready || !d || link_word(d, link, word) < 0)
        return rc;
    int up = strcmp(word, "-") != 0, is_switch = strncmp(word, "switch:", 7) == 0;
    if (what == ASK_STATE)
        *number = (unsigned)up;
    if (what == ASK_TYPE)
        *number = is_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
    if (what == ASK_PCI && is_switch)
        fill_pci(pci, word + 7);
    else if (what == ASK_PCI && up)
        return get_pci(&gpus[atoi(word + 3)], "nvmlDeviceGetPciInfo", pci);
    return what == ASK_STATE || up ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned link, nvmlEnableState_t *state)
{
    unsigned n = 0;
    nvmlReturn_t rc = get_link(d, "nvmlDeviceGetNvLinkState", link, ASK_STATE, &n, NULL);
    if (rc == NVML_SUCCESS)
        *state = (nvmlEnableState_t)n;
    return rc;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t d, unsigned link, unsigned *version)
{
    char at[32];
    NUMBERS("nvmlDeviceGetNvLinkVersion", arg(at, (int)link, -1), *version = (unsigned)n[0])
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned link, nvmlPciInfo_t *pci)
{
    return get_link(d, "nvmlDeviceGetNvLinkRemotePciInfo_v2", link, ASK_PCI, NULL, pci);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t d, nvmlDevice_t other, nvmlGpuTopologyLevel_t *level)
{
    const char *value;
    char at[32];
    nvmlReturn_t rc = ask(d, "nvmlDeviceGetTopologyCommonAncestor", arg(at, other ? other->gpu : -1, -1), &value);
    if (rc == NVML_ERROR_NOT_SUPPORTED && other)
        rc = ask(d, "ancestors", "", &value);
    else if (rc == NVML_SUCCESS)
        return *level = (nvmlGpuTopologyLevel_t)atoi(value), rc;
    for (int i = 0; rc == NVML_SUCCESS && i < other->gpu; i++) {
        value += strcspn(value, " ");
        value += strspn(value, " ");
    }
    if (rc == NVML_SUCCESS)
        *level = (nvmlGpuTopologyLevel_t)atoi(value);
    return rc;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t d, nvmlDevice_t other, nvmlGpuP2PCapsIndex_t cap,
                                    nvmlGpuP2PStatus_t *status)
{
    char at[32];
    NUMBERS("nvmlDeviceGetP2PStatus", arg(at, other ? other->gpu : -1, (int)cap), *status = (nvmlGpuP2PStatus_t)n[0])
}

/* ---- what newer drivers have ---- */

#if DRIVER >= 450
NUMBER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t)
NUMBER(nvmlDeviceGetGpuInstanceId, unsigned)
NUMBER(nvmlDeviceGetComputeInstanceId, unsigned)
NUMBER(nvmlDeviceGetMaxMigDeviceCount, unsigned)
TWO(nvmlDeviceGetMigMode, unsigned)

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned index, nvmlDevice_t *out)
{
    const char *value = NULL;
    nvmlReturn_t rc = ask(d, "nvmlDeviceGetMigDeviceHandleByIndex", "", &value);
    if (value)
        return rc;
    rc = ask(d, "migs", "", &value);
    for (char *end; rc == NVML_SUCCESS && *value; value = end) {
        if (strtoul(value, &end, 10) == index && index < MIGS_MAX) {
            *out = &migs[d->gpu][index];
            return NVML_SUCCESS;
        }
    }
    return rc == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : rc;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t d, nvmlDeviceAttributes_t *out)
{
    NUMBERS("nvmlDeviceGetAttributes_v2", "", memset(out, 0, sizeof *out); out->multiprocessorCount = (unsigned)n[0])
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t d, unsigned words, unsigned long *set, nvmlAffinityScope_t scope)
{
    return scope == NVML_AFFINITY_SCOPE_NODE ? get_set(d, "nvmlDeviceGetMemoryAffinity", words, set)
                                             : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                       unsigned *failed)
{
    NUMBERS("nvmlDeviceGetRemappedRows", "", *corrected = (unsigned)n[0]; *uncorrected = (unsigned)n[1];
            *pending = (unsigned)n[2]; *failed = (unsigned)n[3])
}
#endif

#if DRIVER >= 470 /* the _v2 of processes since 455, _v3 since 510 */
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, 24)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, 24)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, 16)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, 24)

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned link, nvmlIntNvLinkDeviceType_t *type)
{
    unsigned n = 0;
    nvmlReturn_t rc = get_link(d, "nvmlDeviceGetNvLinkRemoteDeviceType", link, ASK_TYPE, &n, NULL);
    if (rc == NVML_SUCCESS)
        *type = (nvmlIntNvLinkDeviceType_t)n;
    return rc;
}
#endif

#if DRIVER >= 510
/* Drivers 535.43 to 535.86 had entries of 32 bytes under this name. */
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t, 32)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t, 32)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t, 32)

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m)
{
    if (m->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    NUMBERS("nvmlDeviceGetMemoryInfo_v2", "", m->total = n[0]; m->free = n[1]; m->reserved = n[2];
            m->used = n[0] - n[1] - n[2])
}
#endif

#if DRIVER >= 515
TWO(nvmlDeviceGetGspFirmwareMode, unsigned)

nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t d, char *out)
{
    return get_text(d, "nvmlDeviceGetGspFirmwareVersion", out, NVML_GSP_FIRMWARE_VERSION_BUF_SIZE);
}
#endif

#if DRIVER >= 525
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned)

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t d, nvmlGpuFabricInfo_t *f) /* state, clique, status, health */
{
    NUMBERS("nvmlDeviceGetGpuFabricInfo", "", memset(f->clusterUuid, 0x5a, sizeof f->clusterUuid);
            f->state = (unsigned char)n[0]; f->cliqueId = (unsigned)n[1]; f->status = (nvmlReturn_t)n[2])
}
#endif

#if DRIVER >= 535
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
NUMBER(nvmlDeviceGetModuleId, unsigned)

/* feature, environment, devtools, several GPUs */
nvmlReturn_t nvmlSystemGetConfComputeState(nvmlConfComputeSystemState_t *c)
{
    nvmlDevice_t d = &the_system;
    NUMBERS("nvmlSystemGetConfComputeState", "", c->ccFeature = (unsigned)n[0]; c->environment = (unsigned)n[1];
            c->devToolsMode = (unsigned)n[2])
}
#endif

#if DRIVER >= 550
NUMBER(nvmlDeviceGetNumaNodeId, unsigned)

nvmlReturn_t nvmlDeviceGetC2cModeInfoV(nvmlDevice_t d, nvmlC2cModeInfo_v1_t *c)
{
    NUMBERS("nvmlDeviceGetC2cModeInfoV", "", c->isC2cEnabled = (unsigned)n[0])
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfoV_t *f)
{
    if (f->version != nvmlGpuFabricInfo_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    NUMBERS("nvmlDeviceGetGpuFabricInfoV", "", memset(f->clusterUuid, 0x5a, sizeof f->clusterUuid);
            f->state = (unsigned char)n[0]; f->cliqueId = (unsigned)n[1]; f->status = (nvmlReturn_t)n[2];
            f->healthMask = (unsigned)n[3])
}
#endif

#if DRIVER >= 555
nvmlReturn_t nvmlSystemGetConfComputeSettings(nvmlSystemConfComputeSettings_t *c)
{
    nvmlDevice_t d = &the_system;
    if (c->version != nvmlSystemConfComputeSettings_v1)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    NUMBERS("nvmlSystemGetConfComputeSettings", "", c->ccFeature = (unsigned)n[0]; c->environment = (unsigned)n[1];
            c->devToolsMode = (unsigned)n[2]; c->multiGpuMode = (unsigned)n[3])
}
#endif
