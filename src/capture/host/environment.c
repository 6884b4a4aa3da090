/* Environment variables of this process that may change how a program runs. */
#include "capture/privacy/variables.h"

#include <string.h>

void rp_probe_environment(struct rp_probe *p)
{
    RP_TEXT t;
    rp_environ_read(&t, p);
    for (const char *e = NULL; (e = rp_environ_next(&t, e));) {
        size_t n = strcspn(e, "=");
        RP_FREE char *name = rp_asprintf("%.*s", (int)n, e);
        if (rp_environment_allows(e, n))
            rp_put_variable(p->out, name, e + n + 1, t.path);
    }
}
