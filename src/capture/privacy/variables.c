#include "capture/privacy/image_name.h"
#include "capture/privacy/interface_names.h"
#include "capture/privacy/secrets.h"
#include "capture/privacy/variables.h"
#include "capture/record.h"

#include <stdio.h>
#include <string.h>

enum { MAX_VALUE = RP_LINE_MAX, MAX_NAME = 64, MAX_VARIABLES = 200 };

/* Placeholders for values; filtering a text again leaves them unchanged. */
const char rp_credential[] = "<looks like a credential and is not recorded>";
static const char too_long[] = "<too long>";

/* One variable, "NAME=value", into the filtered text. */
static void filter_variable(const struct rp_probe *p, struct rp_buf *out, const char *text)
{
    char name[MAX_NAME + 1], key[MAX_NAME + 16], hidden[RP_HIDDEN];
    size_t n = strcspn(text, "=");
    if (text[n] != '=' || n > MAX_NAME)
        return;
    enum rp_variable jobs = rp_jobs_allow(text, n), allowed = jobs ? jobs : rp_environment_allows(text, n);
    memcpy(name, text, n);
    name[n] = 0;
    if (strcmp(name, RP_IMAGE_VARIABLE) == 0) {
        RP_FREE char *image = rp_image_show(text + n + 1);
        rp_buf_printf(out, "%s=%s", name, image ? image : "");
        rp_buf_add(out, "", 1);
        return;
    }
    if (!allowed || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return;
    const char *value = text + n + 1;
    RP_FREE char *words = NULL;
    if (rp_is_secret(name, value) && !rp_is_hidden(value) && strcmp(value, rp_credential) != 0)
        value = rp_credential;
    else if (strlen(value) > MAX_VALUE)
        value = too_long;
    else if (!p->opts->identify && *value &&
             (allowed == RP_VARIABLE_HIDDEN || (!jobs && rp_environment_is_odd(name, value)) ||
              (rp_is_identity(value) && !strstr(name, "VERSION"))) &&
             !rp_is_hidden(value)) {
        rp_hide_as(p, RP_FORMAT(key, "environment.%s", name), value, hidden);
        value = hidden;
    } else if (rp_variable_lists_interfaces(name) && !rp_is_hidden(value))
        value = words = rp_interface_words(p, value);
    rp_buf_printf(out, "%s=%s", name, value);
    rp_buf_add(out, "", 1);
}

static void redact_variables(const struct rp_probe *p, struct rp_buf *text)
{
    RP_BUF old = *text;
    int n = 0;
    *text = (struct rp_buf){0};
    rp_buf_add(text, "", 0);
    for (const char *v = old.data; v && v < old.data + old.size && n < MAX_VARIABLES; v += strlen(v) + 1) {
        size_t before = text->size;
        filter_variable(p, text, v);
        n += text->size != before;
    }
}

extern char **environ;

void rp_environ_read(struct rp_text *t, const struct rp_probe *p)
{
    static const char path[] = "/proc/self/environ";
    if (!p->live) {
        rp_text_read_as(t, p, path, redact_variables);
        return;
    }
    *t = (struct rp_text){.path = path}; /* that file does not show what the process changed */
    rp_buf_add(&t->bytes, "", 0);
    for (char **e = environ; e && *e; e++)
        rp_buf_add(&t->bytes, *e, strlen(*e) + 1);
    redact_variables(p, &t->bytes);
    if (p->record)
        rp_record_text(p->record, t, (const void *)redact_variables);
}

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
    else if (strcmp(value, too_long) == 0)
        rp_put(obj, field, RP_STATE_ERROR, NULL, source, NULL, "too long");
    else
        rp_put_str(obj, field, value, source);
}
