/* Whole files: is there a password in them that could be guessed? And files that are credentials by their names. */
#include "capture/privacy/secrets.h"

#include "base/text.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST_VALUE = 6, SHORTEST_NEXT_LINE = 8 };

int rp_is_secret_file(const char *path)
{
    static const char *const files[] = {
        "*.env",     ".env*",     "*.pem",       "*.key",       "*.p12",           "*.pfx",      "*.jks",
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

/* Up to the end of an XML element. */
static size_t value_length_in_element(const char *s, const char *end)
{
    const char *from = s;
    while (s<end && * s> ' ' && !strchr("<>{}$", *s))
        s++;
    return end - s > 2 && s[0] == '<' && s[1] == '/' ? (size_t)(s - from) : 0;
}

/* After a name like "password": = or :, and six letters or more that are neither a call nor a variable of a shell. */
static int is_assigned(const char *s, const char *end)
{
    while (s < end && (isalnum((unsigned char)*s) || *s == '_' || *s == '"' || *s == '\'' || *s == ' '))
        s++;
    if (s == end || (*s != '=' && *s != ':'))
        return 0;
    while (s < end &&
           (*s == ' ' || *s == '=' || *s == ':' || *s == '"' || *s == '\'' || *s == '|' || *s == '>' || *s == '\\'))
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
    int option = name - begin >= 2 &&
                 (name[-1] == '-' || (name[-1] == '_' && memrchr(line, '-', (size_t)(name - line)))) && line < name &&
                 memmem(line, (size_t)(name - line), "--", 2);
    int netrc = memmem(line, (size_t)(name - line), "login ", 6) || memmem(line, (size_t)(name - line), "machine ", 8);
    if (s == end || (*s != ' ' && *s != '\t') || !(option || netrc))
        return 0;
    while (s < end && (*s == ' ' || *s == '\t' || *s == '"' || *s == '\''))
        s++;
    return value_length(s, end) >= SHORTEST_VALUE && (netrc || *s != '-');
}

/* "PASS=", "DB_PW='", "pwd=": names so short that only what is certain counts: loud ones, quoted values, no blanks
 * around the sign. */
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

/* "api-key" is "api_key". */
static int begins_with_name(const char *s, const char *name)
{
    for (; *name; s++, name++)
        if (tolower((unsigned char)*s) != *name && !(*name == '_' && *s == '-'))
            return 0;
    return 1;
}

/* "<password>X</password>" */
static int is_element(const char *s, const char *end)
{
    size_t n = s < end && *s == '>' ? value_length_in_element(s + 1, end) : 0;
    return n >= SHORTEST_VALUE;
}

static int has_named_password(const char *begin, const char *end)
{
    static const char *const names[] = {"password",   "passwd",    "passphrase", "passcode",   "private_key",
                                        "secret",     "api_key",   "apikey",     "access_key", "access_token",
                                        "auth_token", "authtoken", "auth\""};
    static const char *const short_names[] = {"pass", "pwd", "pw"};
    static const char loud[] = "TOKEN"; /* in small letters it is what texts are made of */
    for (const char *at = begin; at < end; at++) {
        if (!strchr("psaPSAT", *at) || !*at)
            continue;
        size_t left = (size_t)(end - at);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t n = strlen(names[i]);
            if (left > n && begins_with_name(at, names[i]) &&
                (is_assigned(at + n, end) || is_element(at + n, end) || follows_option(begin, at, at + n, end)))
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

/* "-u user:password" and "--user user:password"; two numbers are a user and a group. */
static int has_login_option(const char *begin, const char *end)
{
    static const char *const options[] = {" -u ", " --user ", " --user=", " --proxy-user "};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        for (const char *s = begin; (s = memmem(s, (size_t)(end - s), options[i], strlen(options[i])));) {
            s += strlen(options[i]);
            while (s < end && (*s == '"' || *s == '\''))
                s++;
            const char *colon = s;
            while (colon<end && * colon> ' ' && *colon != ':')
                colon++;
            size_t n = colon < end && *colon == ':' ? value_length(colon + 1, end) : 0;
            if (n >= 4 && strspn(colon + 1, "0123456789") < n)
                return 1;
        }
    return 0;
}

/* "mysql -pPASSWORD", of programs that take it so. */
static int has_joined_password(const char *begin, const char *end)
{
    static const char *const programs[] = {"mysql", "mariadb", "sshpass", "7z ", "unzip "};
    for (const char *s = begin; (s = memmem(s, (size_t)(end - s), " -p", 3)); s += 3) {
        const char *line = memrchr(begin, '\n', (size_t)(s - begin)), *v = s + 3;
        line = line ? line + 1 : begin;
        if (memmem(line, (size_t)(s - line), "sshpass", 7))
            while (v < end && *v == ' ')
                v++;
        while (v < end && (*v == '"' || *v == '\''))
            v++;
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            if (memmem(line, (size_t)(s - line), programs[i], strlen(programs[i])) && value_length(v, end) >= 4)
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

static int has_password(const char *text, size_t size)
{
    const char *end = text + size;
    return has_named_password(text, end) || has_login_option(text, end) || has_joined_password(text, end) ||
           has_authorization(text, end) || rp_has_url_login(text, end);
}

int rp_has_password(const char *text, size_t size)
{
    RP_FREE char *plain = size ? rp_percent_decoded(text, size) : NULL;
    return has_password(text, size) || (plain && has_password(plain, strlen(plain)));
}
