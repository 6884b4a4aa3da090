/* Whole outputs of other programs, and their words, without what looks like a credential or names a person or a
 * machine. A message (identity.c) is withheld as a whole where one word is doubtful; of an output every other word
 * stays, numbers above all. */
#include "capture/privacy/secrets.h"

#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SHORTEST_VALUE = 6,  /* of a variable: shorter ones are words of a language, or numbers */
    LONGEST_WORD = 1024, /* that is looked at: a longer one is encoded */
    SHORTEST_PIN = 6,    /* digits after "password:" */
    KNOWN = 4096,
    KNOWN_WORD = 32
};

/* What separates words; ':', '=', '/' and '@' are part of credentials, addresses and paths. */
static int is_between(unsigned char c)
{
    return c <= ' ' || c == 0x7f || strchr(",;\"'()[]{}<>|`", c) != NULL;
}

/* "12.5", "1600180153.477", "14:29:13", "2020-09-15", "1e-05", "99%", but not the address "10.1.2.3". */
static int is_number(const char *s, size_t n)
{
    size_t digits = 0, points = 0;
    for (size_t i = 0; i < n; i++) {
        digits += isdigit((unsigned char)s[i]) != 0;
        points += s[i] == '.';
        if (!isdigit((unsigned char)s[i]) && !strchr("+-.:/%eE", s[i]))
            return 0;
    }
    return digits > 0 && points < 2;
}

/* The name before a value that is a credential. What counts tokens of a language is none. */
static int introduces_secret(const char *s, size_t n)
{
    if (n > LONGEST_WORD)
        return 0;
    RP_FREE char *name = rp_asprintf("%.*s", (int)n, s);
    for (char *p = name; (p = strchr(p, '-'));) /* --api-key */
        *p = '_';
    return !strcasestr(name, "tokens") && !strcasestr(name, "tokeniz") && rp_is_secret(name, "");
}

/* ---- values of secret variables ---- */

struct values {
    const char **text;
    int n;
};

static int by_length(const void *a, const void *b)
{
    const size_t x = strlen(*(const char *const *)a), y = strlen(*(const char *const *)b);
    return x < y ? 1 : -(x > y); /* one that contains another comes first */
}

static void find_values(struct values *v)
{
    extern char **environ;
    for (char **e = environ; e && *e; e++) {
        const char *equals = strchr(*e, '=');
        if (!equals || strlen(equals + 1) < SHORTEST_VALUE || is_number(equals + 1, strlen(equals + 1)))
            continue;
        RP_FREE char *name = rp_asprintf("%.*s", (int)(equals - *e), *e);
        if (!introduces_secret(name, strlen(name)) || strcmp(name, "SSH_AUTH_SOCK") == 0)
            continue;
        v->text = rp_realloc(v->text, ((size_t)v->n + 1) * sizeof *v->text);
        v->text[v->n++] = equals + 1;
    }
    if (v->n)
        qsort(v->text, (size_t)v->n, sizeof *v->text, by_length);
}

static int64_t hide_values(struct rp_buf *out, const char *text, size_t size, const struct values *v)
{
    int64_t hidden = 0;
    rp_buf_add(out, text, size);
    for (int i = 0; i < v->n; i++) {
        RP_BUF in = *out;
        const char *at = in.data, *end = in.data + in.size, *found;
        const size_t n = strlen(v->text[i]);
        if (!in.size || !memmem(at, in.size, v->text[i], n)) {
            in = (struct rp_buf){0};
            continue;
        }
        *out = (struct rp_buf){0};
        for (; (found = memmem(at, (size_t)(end - at), v->text[i], n)); at = found + n, hidden++) {
            rp_buf_add(out, at, (size_t)(found - at));
            rp_buf_puts(out, rp_withheld);
        }
        rp_buf_add(out, at, (size_t)(end - at));
    }
    return hidden;
}

/* ---- words ---- */

/* Logs repeat their words: those that are public, by a hash. */
struct known {
    char word[KNOWN][KNOWN_WORD];
};

static char *place_of(struct known *k, const char *s, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * 16777619u;
    return n < KNOWN_WORD ? k->word[h % KNOWN] : NULL;
}

static int is_public_word(struct known *k, const char *s, size_t n, int identify)
{
    char *place = place_of(k, s, n);
    if (n > LONGEST_WORD)
        return 0;
    if (place && memcmp(place, s, n) == 0 && !place[n])
        return 1;
    RP_FREE char *word = rp_asprintf("%.*s", (int)n, s);
    if (rp_is_secret_name(word) || (!identify && rp_is_identity(word)))
        return 0;
    if (place) {
        memcpy(place, s, n);
        place[n] = 0;
    }
    return 1;
}

/* Whether it is "password" or the like, whose value may be a number. */
static int introduces_number(const char *s, size_t n)
{
    RP_FREE char *name = rp_asprintf("%.*s", (int)(n < LONGEST_WORD ? n : LONGEST_WORD), s);
    return strcasestr(name, "passw") || strcasestr(name, "passphrase") || strcasestr(name, "passcode");
}

struct output_word {
    const char *s;
    size_t n;
};

/* `name` stands before the word, with a colon or an equals sign between; NULL: none does. */
static int is_hidden_word(struct known *k, struct output_word w, struct output_word name, int identify)
{
    while (w.n && (w.s[w.n - 1] == ':' || w.s[w.n - 1] == '=')) /* "password:" is not a password */
        w.n--;
    const int number = is_number(w.s, w.n);
    if (name.s && introduces_secret(name.s, name.n) &&
        (!number || (w.n >= SHORTEST_PIN && introduces_number(name.s, name.n))))
        return 1;
    return !number && w.n >= 4 && !is_public_word(k, w.s, w.n, identify);
}

static struct output_word next_word(const char **at, const char *end)
{
    struct output_word w;
    while (*at < end && is_between((unsigned char)**at))
        ++*at;
    for (w.s = *at; *at < end && !is_between((unsigned char)**at);)
        ++*at;
    w.n = (size_t)(*at - w.s);
    return w;
}

/* Does the word end, or is it, the sign between a name and its value? */
static int is_introduction(struct output_word w)
{
    return w.n && (w.s[w.n - 1] == ':' || w.s[w.n - 1] == '=' || (w.n == 6 && strncasecmp(w.s, "Bearer", 6) == 0));
}

int64_t rp_public_output(struct rp_buf *out, const char *text, size_t size, int identify)
{
    struct values v = {0};
    RP_FREE struct known *k = rp_alloc(sizeof *k);
    RP_BUF in = {0};
    find_values(&v);
    int64_t hidden = hide_values(&in, text, size, &v);
    free(v.text);
    const char *at = rp_buf_text(&in), *end = at + in.size;
    struct output_word last = {0}, name = {0};
    while (at < end) {
        const char *from = at;
        struct output_word w = next_word(&at, end);
        rp_buf_add(out, from, (size_t)(w.s - from));
        if (memchr(from, '\n', (size_t)(w.s - from)))
            last = name = (struct output_word){0};
        const int sign = w.n == 1 && (*w.s == ':' || *w.s == '=');
        if (w.n && !sign && is_hidden_word(k, w, name, identify)) {
            rp_buf_puts(out, rp_withheld);
            hidden++;
        } else {
            rp_buf_add(out, w.s, w.n);
        }
        name = sign ? last : is_introduction(w) ? w : (struct output_word){0};
        last = sign ? last : w;
    }
    return hidden;
}

/* ---- words of a command line ---- */

/* A path without the folders that hide persons and mount points; anything else as in an output. */
static void put_argument(struct rp_buf *out, const char *text, int identify)
{
    const char *base = strrchr(text, '/');
    const int open = identify || !base || (rp_is_system_path(text) && !rp_is_identity(text)) ||
                     (*text != '/' && !rp_is_identity(text));
    if (!open && !rp_is_secret("", text)) {
        rp_buf_puts(out, rp_withheld);
        (void)rp_public_output(out, base, strlen(base), identify);
    } else if (rp_is_secret("", text)) {
        rp_buf_puts(out, rp_withheld);
    } else {
        (void)rp_public_output(out, text, strlen(text), identify);
    }
}

/* "--api-key": the name of an option is none of its values. */
static int is_option_name(const char *text)
{
    return strncmp(text, "--", 2) == 0 &&
           text[2 + strspn(text + 2, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_")] == 0;
}

char *rp_public_argument(const char *before, const char *text, int identify)
{
    if (is_option_name(text))
        return rp_strdup(text);
    const char *equals = *text == '-' ? strchr(text, '=') : NULL, *value = equals ? equals + 1 : text;
    RP_FREE char *name =
        equals ? rp_asprintf("%.*s", (int)(equals - text), text) : rp_strdup(before && *before == '-' ? before : "");
    RP_BUF out = {0};
    rp_buf_add(&out, text, (size_t)(value - text));
    if (*name && *value && introduces_secret(name, strlen(name)) && !is_number(value, strlen(value)))
        rp_buf_puts(&out, rp_withheld);
    else
        put_argument(&out, value, identify);
    char *public = rp_strdup(rp_buf_text(&out));
    rp_sanitize(public);
    return public;
}
