/* Any bytes as a policy: refused with one line that names its place, or taken. */
#include "verify/policy/policy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_policy p;
    struct rp_err err = {0};
    if (rp_policy_parse(&p, (const char *)data, size, "fuzz.yaml", &err) < 0 &&
        (err.code == RP_OK || strncmp(err.msg, "fuzz.yaml:", 10) != 0 || strchr(err.msg, '\n')))
        abort();
    rp_policy_fini(&p);
    return 0;
}
