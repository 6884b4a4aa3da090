/* The distribution, from os-release(5): NAME=value or NAME="value". */
#include "capture/probe.h"

#include <stdlib.h>
#include <string.h>

static void field(struct rp_probe *p, const struct rp_text *t, const char *name, const char *key)
{
    RP_FREE char *v = rp_text_field(t, key, '=');
    if (!v) {
        rp_put_state(p->out, name, t);
        return;
    }
    size_t n = strlen(v);
    char *text = v;
    if (n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n - 1] == v[0]) {
        v[n - 1] = 0;
        text++;
    }
    rp_put_str(p->out, name, text, t->path);
}

void rp_probe_distribution(struct rp_probe *p)
{
    RP_TEXT t;
    rp_text_read(&t, p, "/etc/os-release");
    if (t.state == RP_STATE_ABSENT) {
        rp_text_fini(&t);
        rp_text_read(&t, p, "/usr/lib/os-release");
    }
    field(p, &t, "id", "ID");
    field(p, &t, "version_id", "VERSION_ID");
    field(p, &t, "codename", "VERSION_CODENAME");
    field(p, &t, "name", "PRETTY_NAME");
}
