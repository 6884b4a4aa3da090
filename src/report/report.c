#include "report/report.h"

#include "bundle/bundle.h"

const struct rp_report rp_reports[] = {
#define MEMBER(name, required, meaning)
#define REPORT(id, name, required, meaning) {name, rp_report_##id},
#include "bundle/members.def"
#undef MEMBER
#undef REPORT
    {0},
};

int rp_reports_add(struct rp_bundle *b, const struct rp_report_source *from, struct rp_err *err)
{
    for (const struct rp_report *r = rp_reports; r->member; r++) {
        RP_BUF bytes = {0};
        if (r->write(&bytes, from, err) < 0 || rp_bundle_add(b, r->member, bytes.data, bytes.size, err) < 0)
            return rp_wrap(err, "%s", r->member);
    }
    return 0;
}
