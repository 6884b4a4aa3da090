#include "backend/selftest.h"

#include "backend/cpu/cpu.h"

int rp_ops_selftest(const struct rp_case_watch *progress, json_t **report, struct rp_err *err)
{
    const struct rp_backend *cpu = &rp_backend_cpu;
    struct rp_err first = {0}, e;
    *report = json_array();
    for (int isa = 0; isa < RP_ISA_COUNT; isa++) {
        const char *name = rp_isa_name((enum rp_isa)isa);
        struct rp_device_opts o = {.isa = name, .threads = 2};
        if (!rp_isa_usable((enum rp_isa)isa))
            continue;
        struct rp_dev *dev = rp_ops_selftest_open(cpu, &o, err);
        if (!dev)
            return -1;
        if (rp_ops_selftest_device(dev, name, progress, *report, &e) < 0 && first.code == RP_OK)
            first = e;
        cpu->close(dev);
    }
    if (first.code == RP_OK)
        return 0;
    *err = first;
    return -1;
}
