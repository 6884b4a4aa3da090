#!/bin/sh
# Print this machine's tree.txt, the input of tests/unit/test_capture_hosts.c: every file a probe may read, names and serials replaced.
# usage: record.sh >tests/hosts/NAME/tree.txt; read it (kernel command line, cgroup names) before it is committed. Running the test
# with RP_UPDATE=1 writes the expected files beside it; read those too.
set -eu
put() {
    [ -f "$1" ] || return 0
    content=$(tr -d "\000" 2>/dev/null <"$1") || return 0
    printf '@ %s\n' "$1"
    case $1 in
    */status) printf '%s\n' "$content" | sed -n '/_allowed_list/s/^/| /p' ;;
    */hostname | */machine-id | */boot_id | *_serial | *_uuid) echo "| recorded-$(basename "$1")" ;;
    *) [ -z "$content" ] || printf '%s\n' "$content" | sed 's/^/| /' ;;
    esac
}
cpu=/sys/devices/system/cpu
for f in /proc/cpuinfo /proc/meminfo /proc/cmdline /proc/loadavg /proc/uptime /proc/self/status /proc/self/cgroup /proc/1/cgroup \
    /proc/sys/kernel/osrelease /proc/sys/kernel/version /proc/sys/kernel/arch /proc/sys/kernel/hostname /proc/sys/kernel/random/boot_id \
    /proc/sys/kernel/numa_balancing /proc/sys/vm/overcommit_memory /proc/sys/vm/swappiness \
    /etc/os-release /etc/machine-id /.dockerenv /run/.containerenv \
    /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name /sys/class/dmi/id/board_name /sys/class/dmi/id/bios_version \
    /sys/class/dmi/id/bios_date /sys/class/dmi/id/product_serial /sys/class/dmi/id/product_uuid /sys/class/dmi/id/board_serial \
    "$cpu"/online "$cpu"/smt/active "$cpu"/smt/control "$cpu"/cpufreq/boost "$cpu"/intel_pstate/no_turbo "$cpu"/intel_pstate/status \
    "$cpu"/cpuidle/current_driver "$cpu"/vulnerabilities/* \
    "$cpu"/cpu[0-9]*/topology/physical_package_id "$cpu"/cpu[0-9]*/topology/core_id \
    "$cpu"/cpu0/cache/index*/level "$cpu"/cpu0/cache/index*/type "$cpu"/cpu0/cache/index*/size "$cpu"/cpu0/cache/index*/shared_cpu_list \
    "$cpu"/cpufreq/policy*/scaling_driver "$cpu"/cpufreq/policy*/scaling_governor "$cpu"/cpufreq/policy*/energy_performance_preference \
    "$cpu"/cpufreq/policy0/cpuinfo_m??_freq "$cpu"/cpufreq/policy0/scaling_m??_freq "$cpu"/cpufreq/policy0/base_frequency \
    /sys/devices/system/clocksource/clocksource0/*_clocksource \
    /sys/devices/system/node/online /sys/devices/system/node/node[0-9]*/cpulist /sys/devices/system/node/node[0-9]*/distance \
    /sys/devices/system/node/node[0-9]*/meminfo \
    /sys/kernel/mm/transparent_hugepage/enabled /sys/kernel/mm/transparent_hugepage/defrag \
    /sys/fs/cgroup/cpu.max /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.high /sys/fs/cgroup/memory.swap.max /sys/fs/cgroup/pids.max \
    /sys/fs/cgroup/cpu.weight /sys/fs/cgroup/cpuset.cpus.effective /sys/fs/cgroup/cpuset.mems.effective \
    /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us /sys/fs/cgroup/memory/memory.limit_in_bytes \
    /sys/fs/cgroup/cpuset/cpuset.cpus /sys/fs/cgroup/cpuset/cpuset.mems; do
    put "$f"
done
