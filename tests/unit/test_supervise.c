/* What a run keeps of a worker that records more than a bundle holds. */
#include "base/json.h"
#include "cli/supervise.h"
#include "report/records.h"
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
