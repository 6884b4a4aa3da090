/* Persons, hosts and addresses in a text, and the words of other programs without them. */
#include "capture/privacy/secrets.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORTEST_USER = 3, SHORTEST_HOST = 4, LONGEST_NUMBER = 8, LONGEST_MIXED = 20 };

/* ---- addresses ---- */

/* Four numbers with dots, as in 10.1.2.3/24; versions with four parts are recognised by the name of their variable. */
static int has_ip_address(const char *v)
{
    static const char figures[] = "0123456789.";
    while (*v) {
        unsigned q[4];
        int end = 0;
        if (*v >= '0' && *v <= '9' && sscanf(v, "%3u.%3u.%3u.%3u%n", &q[0], &q[1], &q[2], &q[3], &end) == 4 &&
            !strspn(v + end, figures) && q[0] < 256 && q[1] < 256 && q[2] < 256 && q[3] < 256)
            return 1;
        v += strspn(v, figures);
        v += strcspn(v, figures);
    }
    return 0;
}

/* "fe80::1", "2001:db8:0:0:0:0:0:1", "52:54:00:12:34:56": a word of hexadecimal digits with five colons or more, or two
 * together. */
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

/* name@host.domain */
static int has_mail_address(const char *v)
{
    for (const char *at = v; (at = strchr(at, '@')); at++) {
        const char *domain = at + 1;
        size_t n = strspn(domain, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
        if (at > v && (isalnum((unsigned char)at[-1]) || strchr("._+-", at[-1])) && n && domain[n] == '.' &&
            isalpha((unsigned char)domain[n + 1]))
            return 1;
    }
    return 0;
}

static int has_uuid(const char *v)
{
    static const char form[] = "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"; /* h: a hexadecimal digit */
    for (; *v; v++) {
        size_t n = 0;
        while (form[n] && (form[n] == 'h' ? isxdigit((unsigned char)v[n]) : v[n] == '-'))
            n++;
        if (!form[n])
            return 1;
    }
    return 0;
}

/* ---- this user and this host ---- */

static int is_of_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static int has_word(const char *text, const char *word, size_t n)
{
    for (const char *at = text; (at = strcasestr(at, word)); at++)
        if ((at == text || !is_of_word(at[-1])) && !is_of_word(at[n]))
            return 1;
    return 0;
}

/* The name of the user, unless it is a common one. */
static int names_user(const char *text)
{
    static const char *const variables[] = {"USER", "LOGNAME"};
    static const char *const nobodies[] = {"root",   "nobody", "user",   "admin",  "runner",
                                           "docker", "jovyan", "ubuntu", "debian", "vscode"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *name = getenv(variables[i]);
        size_t n = name ? strlen(name) : 0;
        if (n >= SHORTEST_USER && !RP_IS_IN(nobodies, name, n) && has_word(text, name, n))
            return 1;
    }
    return 0;
}

static int names_host(const char *text)
{
    char host[256] = "";
    if (gethostname(host, sizeof host - 1) < 0)
        return 0;
    host[strcspn(host, ".")] = 0;
    return strlen(host) >= SHORTEST_HOST && strcmp(host, "localhost") != 0 && has_word(text, host, strlen(host));
}

/* The home directory of the user, except for root's. */
static int names_home(const char *text)
{
    const char *home = getenv("HOME");
    return home && home[0] == '/' && home[1] && strcmp(home, "/root") != 0 && strstr(text, home);
}

int rp_is_persons_directory(const char *name, size_t n)
{
    static const char *const names[] = {"home",   "homes", "users",    "user",  "u",
                                        "people", "staff", "students", "media", "scratch"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && strncasecmp(names[i], name, n) == 0)
            return 1;
    return 0;
}

static int names_person_in_path(const char *text)
{
    for (const char *s = text; (s = strchr(s, '/')); s++) {
        size_t n = strcspn(s + 1, "/:,;= '\"");
        const char *after = s + 1 + n;
        if (*after == '/' && after[1] && !strchr("/:,;= '\"", after[1]) && rp_is_persons_directory(s + 1, n))
            return 1;
    }
    return 0;
}

int rp_is_identity(const char *text)
{
    return strstr(text, "GPU-") || strstr(text, "MIG-") || names_person_in_path(text) || names_home(text) ||
           names_user(text) || names_host(text) || has_ip_address(text) || has_colon_address(text) ||
           has_mail_address(text) || has_uuid(text);
}

/* ---- names and messages ---- */

char *rp_public_name(const struct rp_probe *p, const char *key, const char *name)
{
    char hidden[RP_HIDDEN];
    if (rp_is_secret_name(name))
        return rp_strdup(rp_withheld);
    if (p->opts->identify || !rp_is_identity(name))
        return rp_strdup(name);
    rp_hide(p, key, name, hidden);
    return rp_strdup(hidden);
}

static int is_public(const struct rp_probe *p, const char *text)
{
    return !rp_is_secret("", text) && (p->opts->identify || !rp_is_identity(text));
}

int rp_is_system_path(const char *path)
{
    static const char *const tops[] = {"/usr/",  "/lib/", "/lib64/", "/lib32/", "/bin/",
                                       "/sbin/", "/dev/", "/proc/",  "/sys/",   "/etc/"};
    for (size_t i = 0; i < sizeof tops / sizeof *tops; i++)
        if (strncmp(path, tops[i], strlen(tops[i])) == 0)
            return 1;
    return 0;
}

/* Serial numbers and identifiers: many digits, or many letters and digits together. */
static int is_number_of_something(const char *word, size_t n)
{
    size_t run = 0, figures = 0;
    for (size_t i = 0; i <= n; i++)
        if (i < n && isalnum((unsigned char)word[i])) {
            run++;
            figures += isdigit((unsigned char)word[i]) != 0;
        } else {
            if (figures > LONGEST_NUMBER || (figures > 1 && run > LONGEST_MIXED))
                return 1;
            run = figures = 0;
        }
    return 0;
}

char *rp_public_message(const struct rp_probe *p, const char *text)
{
    RP_BUF out = {0};
    rp_buf_add(&out, "", 0);
    for (const char *s = text; *s;) {
        static const char ends[] = " '\"(),;:=[]<>|";
        char before = s == text ? ' ' : s[-1];
        if (strchr(ends, *s)) {
            rp_buf_add(&out, s++, 1);
            continue;
        }
        const char *quote = *s == '/' && (before == '\'' || before == '"') ? strchr(s, before) : NULL;
        size_t n = quote ? (size_t)(quote - s) : strcspn(s, ends);
        RP_FREE char *word = rp_asprintf("%.*s", (int)n, s);
        /* what is about a secret is seen in the whole */
        int open = p->opts->identify, secret = rp_is_secret_name(word);
        int person = !open && (is_number_of_something(word, n) || rp_is_identity(word));
        if (*word == '/' && (secret || person || !(open || rp_is_system_path(word))))
            rp_buf_puts(&out, "<path>");
        else if (secret || person)
            rp_buf_puts(&out, "<hidden>");
        else
            rp_buf_puts(&out, word);
        s += n;
    }
    return rp_strdup(is_public(p, out.data) ? out.data
                                            : "a message that names a person or holds what looks like a credential");
}
