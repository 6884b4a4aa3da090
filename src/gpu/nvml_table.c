/* Where every value of the nvml probe comes from: one row a value, with the function that gives it (the worked example
 * is in nvml_calls.inc.h) and its form. Units as NVML documents them: MHz, mW, mJ and MB/s become Hz, W, J and B/s. */
#include "gpu/nvml.h"

#include "gpu/nvml_calls.inc.h"

#define WORDS(...) (const char *const[]){__VA_ARGS__, NULL}
#define WAYS(name, ...) static const struct rp_nvml_way name[] = {__VA_ARGS__, {0}}
#define WAY(caller, symbol) {symbol, caller, NULL}
#define FILLS(layout, symbol) {symbol, numbers_of_struct, &layout}
#define BY(caller, symbol) ((const struct rp_nvml_way[]){WAY(caller, symbol), {0}})

#define TEXT(pick_) .form = RP_NVML_TEXT, .pick = pick_
#define HIDDEN(pick_) .form = RP_NVML_HIDDEN, .pick = pick_
#define COUNT(pick_) .form = RP_NVML_NUMBER, .pick = pick_
#define BYTES(pick_) .form = RP_NVML_NUMBER, .unit = "B", .pick = pick_
#define WORD(pick_, ...) .form = RP_NVML_WORD, .pick = pick_, .words = WORDS(__VA_ARGS__)
#define SWITCH(pick_) WORD(pick_, "disabled", "enabled")
#define YES(pick_) WORD(pick_, "no", "yes")
#define PERCENT(pick_) .form = RP_NVML_NUMBER, .unit = "%", .pick = pick_
#define CELSIUS .form = RP_NVML_NUMBER, .unit = "C"
#define HERTZ .form = RP_NVML_NUMBER, .unit = "Hz", .scale = 1000000
#define WATTS(pick_) .form = RP_NVML_MILLI, .unit = "W", .pick = pick_
#define NANOSECONDS .form = RP_NVML_NUMBER, .unit = "ns"
#define RANGES .form = RP_NVML_RANGES
#define ARG(...) .arg = {__VA_ARGS__}

/* Structs of numbers: size, version, of_system, width, offsets. */
#define STRUCT(name, type, ...) static const struct rp_nvml_struct name = {sizeof(type), __VA_ARGS__}
STRUCT(memory_v2, nvmlMemory_v2_t, nvmlMemory_v2, 0, 8,
       {offsetof(nvmlMemory_v2_t, total), offsetof(nvmlMemory_v2_t, free), offsetof(nvmlMemory_v2_t, reserved)});
STRUCT(memory_v1, nvmlMemory_t, 0, 0, 8, {offsetof(nvmlMemory_t, total), offsetof(nvmlMemory_t, free)});
STRUCT(bar1, nvmlBAR1Memory_t, 0, 0, 8, {offsetof(nvmlBAR1Memory_t, bar1Total), offsetof(nvmlBAR1Memory_t, bar1Free)});
STRUCT(utilization, nvmlUtilization_t, 0, 0, 4,
       {offsetof(nvmlUtilization_t, gpu), offsetof(nvmlUtilization_t, memory)});
STRUCT(c2c_mode, nvmlC2cModeInfo_v1_t, 0, 0, 4, {offsetof(nvmlC2cModeInfo_v1_t, isC2cEnabled)});
STRUCT(attributes, nvmlDeviceAttributes_t, 0, 0, 4, {offsetof(nvmlDeviceAttributes_t, multiprocessorCount)});
STRUCT(confidential_settings, nvmlSystemConfComputeSettings_v1_t, nvmlSystemConfComputeSettings_v1, 1, 4,
       {offsetof(nvmlSystemConfComputeSettings_v1_t, ccFeature),
        offsetof(nvmlSystemConfComputeSettings_v1_t, environment),
        offsetof(nvmlSystemConfComputeSettings_v1_t, devToolsMode),
        offsetof(nvmlSystemConfComputeSettings_v1_t, multiGpuMode)});
STRUCT(confidential_state, nvmlConfComputeSystemState_t, 0, 1, 4, {offsetof(nvmlConfComputeSystemState_t, ccFeature),
       offsetof(nvmlConfComputeSystemState_t, environment), offsetof(nvmlConfComputeSystemState_t, devToolsMode)});

WAYS(cuda_versions, WAY(cuda_version, "nvmlSystemGetCudaDriverVersion_v2"),
     WAY(cuda_version, "nvmlSystemGetCudaDriverVersion"));
WAYS(confidential, FILLS(confidential_settings, "nvmlSystemGetConfComputeSettings"),
     FILLS(confidential_state, "nvmlSystemGetConfComputeState"));
WAYS(counts, WAY(number_of_system, "nvmlDeviceGetCount_v2"), WAY(number_of_system, "nvmlDeviceGetCount"));
WAYS(architectures, WAY(number, "nvmlDeviceGetArchitecture"),
     WAY(architecture_of_capability, "nvmlDeviceGetCudaComputeCapability"));
WAYS(memory, FILLS(memory_v2, "nvmlDeviceGetMemoryInfo_v2"), FILLS(memory_v1, "nvmlDeviceGetMemoryInfo"));
WAYS(bar1s, FILLS(bar1, "nvmlDeviceGetBAR1MemoryInfo"));
WAYS(c2cs, FILLS(c2c_mode, "nvmlDeviceGetC2cModeInfoV"));
WAYS(pcis, WAY(pci, "nvmlDeviceGetPciInfo_v3"), WAY(pci, "nvmlDeviceGetPciInfo_v2"));
WAYS(ecc, WAY(two_numbers, "nvmlDeviceGetEccMode"));
WAYS(mig, WAY(two_numbers, "nvmlDeviceGetMigMode"));
WAYS(gsp, WAY(two_numbers, "nvmlDeviceGetGspFirmwareMode"));
WAYS(utilizations, FILLS(utilization, "nvmlDeviceGetUtilizationRates"));
WAYS(limits, WAY(two_numbers, "nvmlDeviceGetPowerManagementLimitConstraints"));
WAYS(reasons, WAY(wide, "nvmlDeviceGetCurrentClocksEventReasons"),
     WAY(wide, "nvmlDeviceGetCurrentClocksThrottleReasons"));
WAYS(fabric, WAY(fabric_v2, "nvmlDeviceGetGpuFabricInfoV"), WAY(fabric_v1, "nvmlDeviceGetGpuFabricInfo"));
WAYS(remapped, WAY(four_numbers, "nvmlDeviceGetRemappedRows"));
WAYS(compute, WAY(processes, "nvmlDeviceGetComputeRunningProcesses_v3"),
     WAY(processes, "nvmlDeviceGetComputeRunningProcesses_v2"), WAY(processes, "nvmlDeviceGetComputeRunningProcesses"));
WAYS(graphics, WAY(processes, "nvmlDeviceGetGraphicsRunningProcesses_v3"),
     WAY(processes, "nvmlDeviceGetGraphicsRunningProcesses_v2"),
     WAY(processes, "nvmlDeviceGetGraphicsRunningProcesses"));
WAYS(mps, WAY(processes, "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
     WAY(processes, "nvmlDeviceGetMPSComputeRunningProcesses_v2"),
     WAY(processes, "nvmlDeviceGetMPSComputeRunningProcesses"));
WAYS(attribute, FILLS(attributes, "nvmlDeviceGetAttributes_v2"), FILLS(attributes, "nvmlDeviceGetAttributes"));
WAYS(link_pcis, WAY(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo_v2"),
     WAY(link_pci, "nvmlDeviceGetNvLinkRemotePciInfo"));

const struct rp_nvml_row rp_nvml_system_rows[] = {
    {"driver_version", BY(text_of_system, "nvmlSystemGetDriverVersion"), TEXT(0)},
    {"nvml_version", BY(text_of_system, "nvmlSystemGetNVMLVersion"), TEXT(0)},
    {"nvml_cuda_version", cuda_versions, TEXT(0)},
    {"confidential_compute", confidential, SWITCH(0)},
    {"confidential_environment", confidential, WORD(1, "unavailable", "simulation", "production")},
    {"confidential_devtools", confidential, SWITCH(2)},
    {"confidential_multi_gpu", confidential, WORD(3, "none", "protected_pcie")},
    {0},
};

const struct rp_nvml_row rp_nvml_count_row = {"count", counts, COUNT(0)};
const struct rp_nvml_row rp_nvml_mig_count_row = {"mig_count", BY(number, "nvmlDeviceGetMaxMigDeviceCount"), COUNT(0)};

/* clang-format off */
static const char *const throttle_reasons[] = { /* by bit */
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown", "display_clock_setting", NULL};

const struct rp_nvml_row rp_nvml_sample_rows[] = {
    {"clock_sm_hz", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_SM)},
    {"clock_memory_hz", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_MEM)},
    {"power_mw", BY(number, "nvmlDeviceGetPowerUsage"), COUNT(0)},
    {"temperature_c", BY(number_by_arg, "nvmlDeviceGetTemperature"), CELSIUS, ARG(NVML_TEMPERATURE_GPU)},
    {"throttle", reasons, .form = RP_NVML_WORDS, .words = throttle_reasons},
    {"utilization", utilizations, PERCENT(0)},
    {0},
};

const struct rp_nvml_row rp_nvml_device_rows[] = {
    {"name", BY(text, "nvmlDeviceGetName"), TEXT(0)},
    {"architecture", architectures,
        WORD(0, "", "", "Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell",
             "Orin")},
    {"compute_capability", BY(capability, "nvmlDeviceGetCudaComputeCapability"), TEXT(0)},
    {"uuid", BY(text, "nvmlDeviceGetUUID"), HIDDEN(0)},
    {"serial", BY(text, "nvmlDeviceGetSerial"), HIDDEN(0)},
    {"board_part", BY(text, "nvmlDeviceGetBoardPartNumber"), TEXT(0)},
    {"vbios", BY(text, "nvmlDeviceGetVbiosVersion"), TEXT(0)},
    {"minor_number", BY(number, "nvmlDeviceGetMinorNumber"), COUNT(0)},
    {"module_id", BY(number, "nvmlDeviceGetModuleId"), COUNT(0)},
    {"virtualization", BY(number, "nvmlDeviceGetVirtualizationMode"),
     WORD(0, "none", "passthrough", "vgpu", "host_vgpu", "host_vsga")},

    {"memory_total", memory, BYTES(0)},
    {"memory_free", memory, BYTES(1)},
    {"memory_reserved", memory, BYTES(2)},
    {"memory_type", BY(memory_type, "nvmlDeviceGetName"), TEXT(0)},
    {"bar1_total", bar1s, BYTES(0)},
    {"bar1_free", bar1s, BYTES(1)},

    {"persistence", BY(number, "nvmlDeviceGetPersistenceMode"), SWITCH(0)},
    {"compute_mode", BY(number, "nvmlDeviceGetComputeMode"), WORD(0, "default", "exclusive_thread", "prohibited",
                                                                  "exclusive_process")},
    {"mig_mode", mig, SWITCH(0)},
    {"mig_mode_pending", mig, SWITCH(1)},
    {"gsp_mode", gsp, SWITCH(0)},
    {"gsp_firmware", BY(text_without_length, "nvmlDeviceGetGspFirmwareVersion"), TEXT(0)},
    {"display_active", BY(number, "nvmlDeviceGetDisplayActive"), YES(0)},
    {"c2c", c2cs, SWITCH(0)},

    {"clock_sm", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_SM)},
    {"clock_memory", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_MEM)},
    {"clock_graphics", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_GRAPHICS)},
    {"clock_video", BY(number_by_arg, "nvmlDeviceGetClockInfo"), HERTZ, ARG(NVML_CLOCK_VIDEO)},
    {"clock_sm_max", BY(number_by_arg, "nvmlDeviceGetMaxClockInfo"), HERTZ, ARG(NVML_CLOCK_SM)},
    {"clock_memory_max", BY(number_by_arg, "nvmlDeviceGetMaxClockInfo"), HERTZ, ARG(NVML_CLOCK_MEM)},
    /* application clocks are set for graphics, and SM runs at the same */
    {"clock_sm_application", BY(number_by_arg, "nvmlDeviceGetApplicationsClock"), HERTZ, ARG(NVML_CLOCK_GRAPHICS)},
    {"clock_memory_application", BY(number_by_arg, "nvmlDeviceGetApplicationsClock"), HERTZ, ARG(NVML_CLOCK_MEM)},
    {"clock_sm_default", BY(number_by_arg, "nvmlDeviceGetDefaultApplicationsClock"), HERTZ, ARG(NVML_CLOCK_GRAPHICS)},
    {"clock_memory_default", BY(number_by_arg, "nvmlDeviceGetDefaultApplicationsClock"), HERTZ, ARG(NVML_CLOCK_MEM)},
    {"performance_state", BY(performance_state, "nvmlDeviceGetPerformanceState"), TEXT(0)},
    {"throttle_reasons", reasons, .form = RP_NVML_WORDS, .words = throttle_reasons},
    {"throttled_by_power", BY(violation, "nvmlDeviceGetViolationStatus"), NANOSECONDS, ARG(NVML_PERF_POLICY_POWER)},
    {"throttled_by_heat", BY(violation, "nvmlDeviceGetViolationStatus"), NANOSECONDS, ARG(NVML_PERF_POLICY_THERMAL)},

    {"power_draw", BY(number, "nvmlDeviceGetPowerUsage"), WATTS(0)},
    {"power_limit", BY(number, "nvmlDeviceGetPowerManagementLimit"), WATTS(0)},
    {"power_limit_enforced", BY(number, "nvmlDeviceGetEnforcedPowerLimit"), WATTS(0)},
    {"power_limit_default", BY(number, "nvmlDeviceGetPowerManagementDefaultLimit"), WATTS(0)},
    {"power_limit_min", limits, WATTS(0)},
    {"power_limit_max", limits, WATTS(1)},
    {"energy", BY(wide, "nvmlDeviceGetTotalEnergyConsumption"), .form = RP_NVML_MILLI, .unit = "J"},
    {"temperature", BY(number_by_arg, "nvmlDeviceGetTemperature"), CELSIUS, ARG(NVML_TEMPERATURE_GPU)},
    {"temperature_memory", BY(field, "nvmlDeviceGetFieldValues"), CELSIUS, ARG(NVML_FI_DEV_MEMORY_TEMP)},
    {"temperature_slowdown", BY(number_by_arg, "nvmlDeviceGetTemperatureThreshold"), CELSIUS,
     ARG(NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)},
    {"fan_speed", BY(number, "nvmlDeviceGetFanSpeed"), PERCENT(0)},
    {"utilization_gpu", utilizations, PERCENT(0)},
    {"utilization_memory", utilizations, PERCENT(1)},

    /* of device and slot together */
    {"pci_address", pcis, TEXT(0)},
    {"pci_device", pcis, TEXT(1)},
    {"pci_subsystem", pcis, TEXT(2)},
    {"pcie_generation", BY(number, "nvmlDeviceGetCurrPcieLinkGeneration"), COUNT(0)},
    {"pcie_generation_max", BY(number, "nvmlDeviceGetMaxPcieLinkGeneration"), COUNT(0)},
    {"pcie_generation_device", BY(number, "nvmlDeviceGetGpuMaxPcieLinkGeneration"), COUNT(0)},
    {"pcie_width", BY(number, "nvmlDeviceGetCurrPcieLinkWidth"), COUNT(0)},
    {"pcie_width_max", BY(number, "nvmlDeviceGetMaxPcieLinkWidth"), COUNT(0)},
    {"pcie_replays", BY(number, "nvmlDeviceGetPcieReplayCounter"), COUNT(0)},
    {"cpu_affinity", BY(processors, "nvmlDeviceGetCpuAffinity"), RANGES},
    {"numa_affinity", BY(nodes, "nvmlDeviceGetMemoryAffinity"), RANGES, ARG(NVML_AFFINITY_SCOPE_NODE)},
    {"numa_id", BY(number, "nvmlDeviceGetNumaNodeId"), COUNT(0)}, /* where the device's memory is a node itself */

    {"ecc_mode", ecc, SWITCH(0)},
    {"ecc_mode_pending", ecc, SWITCH(1)},
    {"ecc_corrected", BY(wide_by_args, "nvmlDeviceGetTotalEccErrors"), COUNT(0),
        ARG(NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC)},
    {"ecc_uncorrected", BY(wide_by_args, "nvmlDeviceGetTotalEccErrors"), COUNT(0),
        ARG(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)},
    {"ecc_corrected_total", BY(wide_by_args, "nvmlDeviceGetTotalEccErrors"), COUNT(0),
        ARG(NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC)},
    {"ecc_uncorrected_total", BY(wide_by_args, "nvmlDeviceGetTotalEccErrors"), COUNT(0),
        ARG(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC)},
    {"retired_pages_single", BY(retired_pages, "nvmlDeviceGetRetiredPages"), COUNT(0),
        ARG(NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS)},
    {"retired_pages_double", BY(retired_pages, "nvmlDeviceGetRetiredPages"), COUNT(0),
        ARG(NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR)},
    {"retired_pages_pending", BY(number, "nvmlDeviceGetRetiredPagesPendingStatus"), YES(0)},
    {"remapped_rows_corrected", remapped, COUNT(0)},
    {"remapped_rows_uncorrected", remapped, COUNT(1)},
    {"remapped_rows_pending", remapped, YES(2)},
    {"remapped_rows_failed", remapped, YES(3)},

    {"fabric_state", fabric, WORD(0, "", "not_started", "in_progress", "completed")},
    {"fabric_clique", fabric, COUNT(1)},
    {"fabric_status", fabric, COUNT(2)},
    {"fabric_problems", fabric, .form = RP_NVML_WORDS, .pick = 3,
        .words = WORDS("degraded_bandwidth", "route_recovery", "route_unhealthy", "access_timeout_recovery")},
    {"fabric_cluster", fabric, HIDDEN(0)},
    {"nvlink_crc_errors", BY(field, "nvmlDeviceGetFieldValues"), COUNT(0),
     ARG(NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL)},
    {"nvlink_replays", BY(field, "nvmlDeviceGetFieldValues"), COUNT(0),
     ARG(NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL)},
    {"nvlink_recoveries", BY(field, "nvmlDeviceGetFieldValues"), COUNT(0),
     ARG(NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL)},

    {"processes", compute, COUNT(0)},
    {"processes_graphics", graphics, COUNT(0)},
    {"processes_mps", mps, COUNT(0)},
    {0},
};

const struct rp_nvml_row rp_nvml_mig_rows[] = {
    {"name", BY(text, "nvmlDeviceGetName"), TEXT(0)},
    {"uuid", BY(text, "nvmlDeviceGetUUID"), HIDDEN(0)},
    {"gpu_instance", BY(number, "nvmlDeviceGetGpuInstanceId"), COUNT(0)},
    {"compute_instance", BY(number, "nvmlDeviceGetComputeInstanceId"), COUNT(0)},
    {"sm_count", attribute, COUNT(0)},
    {"memory_total", memory, BYTES(0)},
    {"memory_free", memory, BYTES(1)},
    {0},
};

const struct rp_nvml_row rp_nvml_link_rows[] = { /* the first row: is there a link, and is it up */
    {"state", BY(link_number, "nvmlDeviceGetNvLinkState"), WORD(0, "inactive", "active")},
    {"version", BY(link_number, "nvmlDeviceGetNvLinkVersion"),
     WORD(0, "", "1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0")},
    {"speed", BY(link_speed, "nvmlDeviceGetFieldValues"), .form = RP_NVML_NUMBER, .unit = "B/s", .scale = 1000000},
    {"remote_type", BY(link_type, "nvmlDeviceGetNvLinkRemoteDeviceType"), WORD(0, "gpu", "ibm_npu", "switch")},
    {"remote_pci", link_pcis, TEXT(0)},
    {0},
};

const struct rp_nvml_row rp_nvml_ancestor_row = {"", BY(ancestor, "nvmlDeviceGetTopologyCommonAncestor"),
    WORD(0, "PIX", "PIX", "PXB", "PHB", "NODE", "SYS")}; /* 0: both on one board, under its switch */
const struct rp_nvml_row rp_nvml_p2p_row = {"", BY(p2p, "nvmlDeviceGetP2PStatus"), ARG(NVML_P2P_CAPS_INDEX_READ),
    WORD(0, "ok", "chipset_not_supported", "gpu_not_supported", "topology_not_supported", "disabled_by_regkey",
         "not_supported", "")};
const struct rp_nvml_row rp_nvml_p2p_nvlink_row = {"", BY(p2p, "nvmlDeviceGetP2PStatus"), COUNT(0),
                                                   ARG(NVML_P2P_CAPS_INDEX_NVLINK)};
/* clang-format on */
