/* Values of variables in the text that rp_environ_read() gives. */
#include "capture/privacy/variables.h"

#include "capture/privacy/secrets.h"

#include <string.h>

const char rp_too_long[] = "<too long>";

const char *rp_environ_next(const struct rp_text *t, const char *last)
{
    if (t->state != RP_STATE_OK || !t->bytes.data)
        return NULL;
    const char *next = last ? last + strlen(last) + 1 : t->bytes.data;
    return next < t->bytes.data + t->bytes.size ? next : NULL;
}

const char *rp_environ_get(const struct rp_text *t, const char *name)
{
    size_t n = strlen(name);
    for (const char *e = NULL; (e = rp_environ_next(t, e));)
        if (strncmp(e, name, n) == 0 && e[n] == '=')
            return e + n + 1;
    return NULL;
}

void rp_put_variable(json_t *obj, const char *field, const char *value, const char *source)
{
    if (strcmp(value, rp_credential) == 0)
        rp_put(obj, field, RP_STATE_DENIED, NULL, source, NULL, "looks like a credential and is not recorded");
    else if (strcmp(value, rp_too_long) == 0)
        rp_put(obj, field, RP_STATE_ERROR, NULL, source, NULL, "too long");
    else
        rp_put_str(obj, field, value, source);
}
