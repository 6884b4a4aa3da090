#include "capture/record.h"
#include "capture/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE = 1024, MAX_NAME = 64, MAX_VARIABLES = 200 };

/* What stands for a value in the text; filtering it again leaves it as it is. */
const char rp_credential[] = "<looks like a credential and is not recorded>";
static const char too_long[] = "<too long>";

/* Parts of a name, in any case, after which no value is kept. */
static const char *const secret_words[] = {"TOKEN",  "SECRET",  "PASSW",      "_PASS", "_PWD",   "_KEY",  "PASSPHRASE",
                                           "APIKEY", "API_KEY", "CREDENTIAL", "AUTH",  "COOKIE", "BEARER"};
/* Parts of a text, in any case, that introduce a secret. */
static const char *const introductions[] = {
    "password", "passwd",     "passphrase", "pass=",       "pwd=", "secret",     "token=",     "token:",  "api_key",      "apikey",
    "api-key",  "access_key", "accesskey",  "private_key", "key=", "sig=", "signature=", "credential", "bearer ", "authorization"};
/* Anywhere in a text; why git_diff.c asks for more is said in tokens.def. */
static const char *const secret_marks[] = {
    "-----BEGIN",
#define TOKEN(beginning, more) beginning,
#include "capture/tokens.def"
#undef TOKEN
};

/* A run of 32 or more letters and digits, both kinds: nothing a person types. Dots, slashes and dashes end a run. */
static int has_long_random_word(const char *v)
{
    int run = 0, figures = 0, letters = 0;
    for (;; v++) {
        int digit = *v >= '0' && *v <= '9', letter = (*v >= 'a' && *v <= 'z') || (*v >= 'A' && *v <= 'Z') || *v == '+';
        if (digit || letter) {
            run++;
            figures += digit;
            letters += letter;
        } else {
            if (run >= 32 && figures && letters)
                return 1;
            run = figures = letters = 0;
        }
        if (!*v)
            return 0;
    }
}

/* "user:password@host", with or without a scheme; of "user@host" only with one, where the user may be a token. */
static int has_login(const char *text)
{
    for (const char *at = text; (at = strchr(at, '@')); at++) {
        const char *word = at;
        while (word > text && !strchr(" ,;'\"", word[-1]))
            word--;
        const char *scheme = strstr(word, "://");
        if ((scheme && scheme < at) || memchr(word, ':', (size_t)(at - word)))
            return 1;
    }
    return 0;
}

int rp_is_secret(const char *name, const char *text)
{
    for (size_t i = 0; i < sizeof secret_words / sizeof *secret_words; i++)
        if (strcasestr(name, secret_words[i]))
            return 1;
    for (size_t i = 0; i < sizeof secret_marks / sizeof *secret_marks; i++)
        if (strstr(text, secret_marks[i]))
            return 1;
    for (size_t i = 0; i < sizeof introductions / sizeof *introductions; i++)
        if (strcasestr(text, introductions[i]))
            return 1;
    return has_login(text) || (strncmp(name, "LD_", 3) != 0 && has_long_random_word(text)); /* package managers put digests into paths */
}

/* Four numbers with dots, as in 10.1.2.3/24; versions of four parts are told apart by the name of their variable. */
static int has_ip_address(const char *v)
{
    static const char figures[] = "0123456789.";
    while (*v) {
        unsigned q[4];
        int end = 0;
        if (*v >= '0' && *v <= '9' && sscanf(v, "%3u.%3u.%3u.%3u%n", &q[0], &q[1], &q[2], &q[3], &end) == 4 && !strspn(v + end, figures))
            return 1;
        v += strspn(v, figures);
        v += strcspn(v, figures);
    }
    return 0;
}

/* "fe80::1", "2001:db8:0:0:0:0:0:1", "52:54:00:12:34:56": a word of hexadecimal digits with five colons or more, or two together. */
static int has_colon_address(const char *v)
{
    static const char between[] = " ,;=@[]/%\"";
    for (size_t n; *v; v += n, v += strspn(v, between)) {
        size_t colons = 0, digits = 0;
        n = strcspn(v, between);
        for (size_t i = 0; i < n; i++)
            v[i] == ':' ? colons++ : digits++;
        const char *pair = memmem(v, n, "::", 2);
        if (digits && (colons >= 5 || pair) && strspn(v, "0123456789abcdefABCDEF:.") >= n)
            return 1;
    }
    return 0;
}

/* The home directory of whoever started this; root's is everybody's. */
static int names_home(const char *text)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' && home[1] && strcmp(home, "/root") != 0 && strstr(text, home);
}

int rp_is_identity(const char *text)
{
    return strstr(text, "GPU-") || strstr(text, "MIG-") || strstr(text, "/home/") || names_home(text) || has_ip_address(text) ||
           has_colon_address(text);
}

static int is_public(const struct rp_probe *p, const char *text)
{
    return !rp_is_secret("", text) && (p->opts->identify || !rp_is_identity(text));
}

char *rp_public_message(const struct rp_probe *p, const char *text)
{
    RP_BUF out = {0};
    if (is_public(p, text))
        return rp_strdup(text);
    rp_buf_add(&out, "", 0);
    for (const char *s = text; *s;) {
        char before = s == text ? ' ' : s[-1];
        if (*s != '/' || !strchr(" '\"([:=", before)) {
            rp_buf_add(&out, s++, 1);
            continue;
        }
        const char *end = before == '\'' || before == '"' ? strchr(s, before) : strstr(s, ": ");
        rp_buf_puts(&out, "<path>");
        s = end ? end : s + strlen(s);
    }
    return rp_strdup(is_public(p, out.data) ? out.data : "a message that names a person or holds what looks like a credential");
}

/* One variable, "NAME=value", into the filtered text. */
static void filter(const struct rp_probe *p, struct rp_buf *out, const char *text)
{
    char name[MAX_NAME + 1], key[MAX_NAME + 16], hidden[RP_HIDDEN];
    size_t n = strcspn(text, "=");
    if (text[n] != '=' || n > MAX_NAME)
        return;
    enum rp_variable jobs = rp_jobs_allow(text, n), allowed = jobs ? jobs : rp_environment_allows(text, n);
    memcpy(name, text, n);
    name[n] = 0;
    if (!allowed || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != n)
        return;
    const char *value = text + n + 1;
    if (rp_is_secret(name, value) && !rp_is_hidden(value) && strcmp(value, rp_credential) != 0)
        value = rp_credential;
    else if (strlen(value) > MAX_VALUE)
        value = too_long;
    else if (!p->opts->identify && *value && (allowed == RP_VARIABLE_HIDDEN || (rp_is_identity(value) && !strstr(name, "VERSION"))) &&
             !rp_is_hidden(value)) {
        snprintf(key, sizeof key, "environment.%s", name);
        rp_hide_as(p, key, value, hidden);
        value = hidden;
    }
    rp_buf_printf(out, "%s=%s", name, value);
    rp_buf_add(out, "", 1);
}

static void redact(const struct rp_probe *p, struct rp_buf *text)
{
    RP_BUF out = {0};
    int n = 0;
    rp_buf_add(&out, "", 0);
    for (const char *v = text->data; v && v < text->data + text->size && n < MAX_VARIABLES; v += strlen(v) + 1) {
        size_t before = out.size;
        filter(p, &out, v);
        n += out.size != before;
    }
    struct rp_buf old = *text;
    *text = out;
    out = old;
}

extern char **environ;

void rp_environ_read(struct rp_text *t, const struct rp_probe *p)
{
    static const char path[] = "/proc/self/environ";
    if (!p->live) {
        rp_text_read_as(t, p, path, redact);
        return;
    }
    *t = (struct rp_text){.path = path}; /* that file does not show what the process changed */
    rp_buf_add(&t->bytes, "", 0);
    for (char **e = environ; e && *e; e++)
        rp_buf_add(&t->bytes, *e, strlen(*e) + 1);
    redact(p, &t->bytes);
    if (p->record)
        rp_record_text(p->record, t, (const void *)redact);
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
