/* Exports: bundles of which no log can be written. What is written of others is in tests/cli/import/export_mllog.sh. */
#include "export/export.h"
#include "tests/unit/tap.h"

#include <math.h>

TEST(bundles_without_a_benchmark_a_step_or_a_time)
{
    static const struct {
        const char *model, *started;
        int steps;
        double elapsed;
        enum rp_code code;
    } rows[] = {{"gpt", "2026-09-21T14:13:20Z", 1, 1, RP_UNAVAILABLE},
                {"bert", "2026-09-21T14:13:20Z", 0, 1, RP_UNAVAILABLE}, {"bert", "yesterday", 1, 1, RP_MALFORMED},
                {"bert", "14:13:20", 1, 1, RP_MALFORMED}, {"bert", "2026-09-21T14:13:20Z", 1, -1, RP_MALFORMED},
                {"bert", "2026-09-21T14:13:20Z", 1, NAN, RP_MALFORMED}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rp_step_record record[] = {{.step = -1}, {.step = 0, .start_ns = 1, .end_ns = 2}};
        struct rp_facts facts = {.started_at = (char *)(uintptr_t)rows[i].started, .elapsed_s = rows[i].elapsed};
        struct rp_figures figures = {.model.name = (char *)(uintptr_t)rows[i].model};
        struct rp_verified kept = {
            .run = {.facts = &facts, .figures = &figures, .records = {.r = record, .n = 1 + rows[i].steps}}};
        struct rp_export_source from = {.kept = &kept};
        struct rp_err err;
        RP_BUF out = {0};
        CHECK(rp_export_mllog(&out, &from, &err) < 0 && err.code == rows[i].code, "%zu: %s", i, err.msg);
    }
}
