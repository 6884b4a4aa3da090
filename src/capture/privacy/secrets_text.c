/* Whole files: is there a credential in the lines that changed? And files that are credentials by their names. */
#include "capture/privacy/secrets.h"

#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_VALUE = 6, SHORTEST_NEXT_LINE = 8 };

int rp_is_secret_file(const char *path)
{
    static const char *const files[] = {"*.env",     ".env*",     "*.pem",       "*.key",       "*.p12",           "*.pfx",      "*.jks",
                                        "*.kdbx",    "*.gpg",     "*.ppk",       "*.ovpn",      "*.keystore",      "*.tfstate",  "id_rsa*",
                                        "id_dsa*",   "id_ecdsa*", "id_ed25519*", ".netrc",      ".pgpass",         ".npmrc",     ".pypirc",
                                        ".htpasswd", ".boto",     ".s3cfg",      "kubeconfig*", "*credential*",    "*password*", "*passwd*",
                                        "*secret*",  "*apikey*",  "*api_key*",   "_netrc",      ".git-credentials"};
    static const char *const folders[] = {".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".gcloud"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (fnmatch(files[i], rp_base_name(path), FNM_CASEFOLD) == 0)
            return 1;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *at = strstr(path, folders[i]);
        if (at && (at == path || at[-1] == '/') && at[strlen(folders[i])] == '/')
            return 1;
    }
    return 0;
}

/* ---- values ---- */

/* The length of the value at s; 0 for a call, a shell variable, and a placeholder in capitals or brackets. */
static size_t value_length(const char *s, const char *end)
{
    const char *from = s;
    int small = 0;
    for (; s<end && * s> ' ' && !strchr("\"'(){}[]<>$,;", *s); s++)
        small |= !isupper((unsigned char)*s) && *s != '_' && *s != '-';
    return (s < end && *s && strchr("({[<", *s)) || !small ? 0 : (size_t)(s - from);
}

/* A word alone on the next line, of more than letters: "password: |" and "  hunter2hunter2". */
static int is_on_next_line(const char *s, const char *end)
{
    while (s < end && isspace((unsigned char)*s))
        s++;
    while (s < end && strchr("\"'", *s) && *s)
        s++;
    size_t n = value_length(s, end), figures = 0, letters = 0;
    for (size_t i = 0; i < n; i++) {
        figures += isdigit((unsigned char)s[i]) != 0;
        letters += isalpha((unsigned char)s[i]) != 0;
    }
    const char *after = s + n;
    while (after < end && *after && strchr("\"' \t\r", *after))
        after++;
    return n >= SHORTEST_NEXT_LINE && figures && letters && (after == end || *after == '\n') && s[n - 1] != ':';
}

/* After a name like "password": = or :, and six letters or more that are no call and no variable of a shell. */
static int is_assigned(const char *s, const char *end)
{
    while (s < end && (isalnum((unsigned char)*s) || *s == '_' || *s == '"' || *s == '\'' || *s == ' '))
        s++;
    if (s == end || (*s != '=' && *s != ':'))
        return 0;
    while (s < end && (*s == ' ' || *s == '=' || *s == ':' || *s == '"' || *s == '\'' || *s == '|' || *s == '>' || *s == '\\'))
        s++;
    if (s < end && (*s == '\n' || *s == '\r'))
        return is_on_next_line(s, end);
    return value_length(s, end) >= SHORTEST_VALUE;
}

/* "--password X", "login u password X" */
static int follows_option(const char *begin, const char *name, const char *s, const char *end)
{
    const char *line = memrchr(begin, '\n', (size_t)(name - begin));
    line = line ? line + 1 : begin;
    int option = name - begin >= 2 && (name[-1] == '-' || (name[-1] == '_' && memrchr(line, '-', (size_t)(name - line)))) && line < name &&
                 memmem(line, (size_t)(name - line), "--", 2);
    int netrc = memmem(line, (size_t)(name - line), "login ", 6) || memmem(line, (size_t)(name - line), "machine ", 8);
    if (s == end || (*s != ' ' && *s != '\t') || !(option || netrc))
        return 0;
    while (s < end && (*s == ' ' || *s == '\t' || *s == '"' || *s == '\''))
        s++;
    return value_length(s, end) >= SHORTEST_VALUE && (netrc || *s != '-');
}

/* "PASS=", "DB_PW='", "pwd=": names so short that only what is certain counts: loud ones, quoted values, no blanks around the sign. */
static int is_short_assigned(const char *begin, const char *name, size_t n, const char *end)
{
    const char *s = name + n;
    int loud = isupper((unsigned char)*name), quoted = 0;
    if (name > begin && (islower((unsigned char)name[-1]) || (loud && isupper((unsigned char)name[-1]))))
        return 0;
    if (s < end && (*s == '"' || *s == '\''))
        s++;
    const char *sign = s;
    while (s < end && *s == ' ')
        s++;
    if (s == end || (*s != '=' && *s != ':'))
        return 0;
    int tight = sign == s && s + 1 < end && s[1] != ' ';
    for (s++; s < end && (*s == ' ' || *s == '"' || *s == '\''); s++)
        quoted |= *s != ' ';
    size_t value = s < end && strchr("/.~=", *s) && *s ? 0 : value_length(s, end);
    return value >= 4 && (quoted || (loud ? value >= SHORTEST_VALUE || tight : tight && value >= SHORTEST_VALUE));
}

static int has_password(const char *begin, const char *end)
{
    static const char *const names[] = {"password", "passwd",     "passphrase",   "passcode",   "private_key", "secret", "api_key",
                                        "apikey",   "access_key", "access_token", "auth_token", "authtoken",   "auth\""};
    static const char *const short_names[] = {"pass", "pwd", "pw"};
    static const char loud[] = "TOKEN"; /* in small letters it is what texts are made of */
    for (const char *at = begin; at < end; at++) {
        if (!strchr("psaPSAT", *at) || !*at)
            continue;
        size_t left = (size_t)(end - at);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t n = strlen(names[i]);
            if (left > n && strncasecmp(at, names[i], n) == 0 && (is_assigned(at + n, end) || follows_option(begin, at, at + n, end)))
                return 1;
        }
        for (size_t i = 0; i < sizeof short_names / sizeof *short_names; i++) {
            size_t n = strlen(short_names[i]);
            if (left > n && strncasecmp(at, short_names[i], n) == 0 && is_short_assigned(begin, at, n, end))
                return 1;
        }
        if (left > sizeof loud && memcmp(at, loud, sizeof loud - 1) == 0 && is_assigned(at + sizeof loud - 1, end))
            return 1;
    }
    return 0;
}

/* "Authorization: Basic dXNlcjpwYXNz", a scheme followed by a value. */
static int has_authorization(const char *s, const char *end)
{
    static const char name[] = "uthorization", *const ways[] = {"basic ", "bearer ", "token ", "digest "};
    while ((s = memmem(s, (size_t)(end - s), name, sizeof name - 1))) {
        s += sizeof name - 1;
        const char *v = s;
        while (v < end && *v && strchr("\"': =,", *v))
            v++;
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            if ((size_t)(end - v) > strlen(ways[i]) && strncasecmp(v, ways[i], strlen(ways[i])) == 0 &&
                value_length(v + strlen(ways[i]), end) >= SHORTEST_VALUE)
                return 1;
    }
    return 0;
}

static int has_credential(const char *text, size_t size)
{
    static const char *const marks[] = {"PRIVATE KEY-----", "PuTTY-User-Key-File", "hooks.slack.com/services/", "/api/webhooks/"};
    const char *end = text + size;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (memmem(text, size, marks[i], strlen(marks[i])))
            return 1;
    return rp_has_token(text, end, 0) || has_password(text, end) || has_authorization(text, end) || rp_has_url_login(text, end) ||
           rp_has_random_word(text, end);
}

int rp_is_secret_text(const char *text, size_t size)
{
    RP_FREE char *plain = size ? rp_percent_decoded(text, size) : NULL;
    return has_credential(text, size) || (plain && has_credential(plain, strlen(plain)));
}
