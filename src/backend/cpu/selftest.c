/* The self-test of the CPU: every operation by every instruction set that it has, in every arithmetic. */
#include "backend/selftest.h"

#include "backend/cpu/inner.h"
#include "backend/cpu/tc_recorded.h"
#include "ops/op_check.h"

/* In mixed precision: products that were recorded on GPUs with these sums. */
static void test_recorded(enum rp_isa isa, enum rp_numerics n, const struct rp_case_watch *progress, json_t *report,
                          struct rp_err *first)
{
    const struct rp_arithmetic *a = rp_arithmetic_of(n);
    struct rp_err difference = {0};
    const struct rp_tc_recorded is = rp_tc_compare_recorded(isa, a->format, a->tc, &difference);
    json_t *row = json_pack("{s:s, s:s, s:s, s:i, s:i}", "op", "recorded_products", "isa", rp_isa_name(isa), "numerics",
                            rp_numerics_name(n), "cases", is.cases, "failed", is.failed);
    if (is.failed)
        json_object_set_new(row, "difference", json_string(difference.msg));
    if (is.failed && first->code == RP_OK)
        *first = difference;
    json_array_append_new(report, row);
    rp_case_watch_done(progress, row);
}

/* In one arithmetic, every instruction set that this CPU has; *first is set if anything differs and it was not set
 * before. */
static int test_numerics(enum rp_numerics n, const struct rp_case_watch *progress, json_t *report, struct rp_err *first,
                         struct rp_err *err)
{
    const struct rp_backend *cpu = &rp_backend_cpu;
    struct rp_tested tested[RP_ISA_COUNT] = {0};
    enum rp_isa isas[RP_ISA_COUNT];
    int count = 0, is_open = 1;
    _Static_assert((int)RP_ISA_COUNT <= RP_OP_DEVICES, "more instruction sets than are compared at a time");
    for (int isa = 0; isa < RP_ISA_COUNT && is_open; isa++) {
        struct rp_device_opts o = {.isa = rp_isa_name((enum rp_isa)isa), .threads = 2, .numerics = n};
        if (!rp_isa_usable((enum rp_isa)isa))
            continue;
        struct rp_dev *dev = rp_ops_selftest_open(cpu, &o, err);
        is_open = dev != NULL;
        if (dev) {
            isas[count] = (enum rp_isa)isa;
            tested[count++] = (struct rp_tested){.dev = dev, .isa = o.isa, .report = json_array()};
        }
    }
    int failed = is_open ? rp_ops_selftest_devices(tested, count, progress) : 0;
    for (int i = 0; i < count; i++) {
        cpu->close(tested[i].dev);
        json_array_extend(report, tested[i].report);
        json_decref(tested[i].report);
        if (failed && first->code == RP_OK)
            *first = tested[i].err;
        if (is_open && rp_is_mixed(n))
            test_recorded(isas[i], n, progress, report, first);
    }
    return is_open ? 0 : -1;
}

int rp_ops_selftest(int mixed, const struct rp_case_watch *progress, json_t **report, struct rp_err *err)
{
    struct rp_err first = {0};
    *report = json_array();
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        if (rp_is_mixed((enum rp_numerics)n) == mixed &&
            test_numerics((enum rp_numerics)n, progress, *report, &first, err) < 0)
            return -1;
    if (first.code == RP_OK)
        return 0;
    *err = first;
    return -1;
}
