/* What a run keeps of a worker that records more than a bundle holds. */
#include "base/json.h"
#include "supervise/supervise.h"
#include "run/records.h"
#include "tests/unit/tap.h"

TEST(records_end_where_a_bundle_has_no_room)
{
    RP_JSON *record = json_pack("{s:i}", "step", 1);
    struct rp_rank_outcome o = {0};
    CHECK(rp_outcome_record(&o, 1, record) && o.records == 1);
    CHECK_STR(rp_buf_text(&o.steps), "{\"step\":1}\n");
    o.records = RP_RECORDS_MAX - 1;
    CHECK(rp_outcome_record(&o, 1, record) && o.records == RP_RECORDS_MAX, "the last one that fits");
    CHECK(!rp_outcome_record(&o, 1, record) && o.records == RP_RECORDS_MAX, "one too many");
    CHECK_STR(rp_buf_text(&o.steps), "{\"step\":1}\n{\"step\":1}\n");
    o.records = RP_RECORDS_MAX / 2;
    CHECK(!rp_outcome_record(&o, 2, record), "of two ranks each has half");
    rp_buf_fini(&o.steps);
}

/* As after a host whose process was stopped: its ranks trained to the end, and their records did not come. */
TEST(a_run_that_ended_early_has_what_all_ranks_completed)
{
    static const struct {
        int64_t received[2], left;
        int final; /* the roots after the last of 3 steps remain */
    } cases[] = {{{4, 1}, 1, 0}, {{4, 4}, 4, 1}, {{3, 4}, 3, 0}, {{0, 4}, 0, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct rp_rank_outcome rank[2] = {{.records = 0}, {.records = 0}};
        struct rp_outcome o = {.status = RP_RUN_FAILED, .ranks = 2, .rank = rank};
        for (int i = 0; i < 2; i++) {
            for (int64_t k = 0; k < cases[c].received[i]; k++) {
                RP_JSON *record = json_pack("{s:I}", "step", (json_int_t)(k - 1));
                CHECK(rp_outcome_record(&rank[i], 2, record), "no room");
            }
            rank[i].done = json_pack("{s:{s:{}, s:{}}}", "tensor_roots", "init", "final");
        }
        rp_outcome_trim(&o, 3);
        for (int i = 0; i < 2; i++) {
            RP_BUF expected = {0};
            for (int64_t k = 0; k < cases[c].left; k++)
                rp_buf_printf(&expected, "{\"step\":%lld}\n", (long long)(k - 1));
            CHECK_STR(rp_buf_text(&rank[i].steps), rp_buf_text(&expected));
            CHECK(rank[i].records == cases[c].left && rank[i].steps_done == (cases[c].left ? cases[c].left - 1 : 0),
                  "case %zu, rank %d", c, i);
            CHECK((rp_json_at(rank[i].done, "tensor_roots/final") != NULL) == cases[c].final &&
                      rp_json_at(rank[i].done, "tensor_roots/init"),
                  "roots");
            rp_buf_fini(&rank[i].steps);
            json_decref(rank[i].done);
        }
    }
}
