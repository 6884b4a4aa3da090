/* Settings and names: which of them hold a credential. Files are in secrets_text.c, persons in identity.c. */
#include "capture/privacy/secrets.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOSE_TOKEN = 8,    /* letters after the beginning of a token that is taken for one */
    MIXED_WORD = 26,    /* letters and digits in a row that no person types */
    CHANGING_WORD = 20, /* of three kinds that change as often as chance does */
    HEX_WORD = 24,
    LONG_SECRET = 36,  /* with / and + in it, as AWS makes them */
    ENCODED_WORD = 16, /* base64 letters that are looked through */
};

const char rp_withheld[] = "(withheld)";
const char rp_credential[] = "<looks like a credential and is not recorded>";

/* Parts of a setting's name, in any case, after which no value is kept. */
static const char *const secret_words[] = {"TOKEN", "SECRET",     "PASSW",    "_PASS",  "_PWD",    "_PW",
                                           "_KEY",  "PASSPHRASE", "PASSCODE", "APIKEY", "API_KEY", "CREDENTIAL",
                                           "AUTH",  "COOKIE",     "BEARER",   "WEBHOOK"};
/* Parts of a setting, in any case: it is about a secret. */
static const char *const mentions[] = {"password", "passwd",     "passphrase",    "passcode", "passphr",
                                       "secret",   "credential", "authorization", "webhook"};
/* Parts of a setting or name, in any case: what follows is one. */
static const char *const introductions[] = {"password=",   "password:", "passwd=",     "passwd:",
                                            "passphrase=", "passphrase:", "passcode=",   "passcode:",
                                            "pass=",       "pass:", "pwd=",        "pwd:", "pw=",         "pw:",
                                            "secret=",     "secret:", "token=",      "token:", "api_key",     "apikey",
                                            "api-key",     "access_key", "accesskey",   "private_key",
                                            "private-key", "key=", "sig=",        "signature=",
                                            "credential=", "credentials=", "bearer ",     "auth=",
                                            "auth:",       "auth\"", "authtoken",   "session=",
                                            "cookie=",     "hooks.slack.com", ".webhook.",   "/webhooks/",
                                            "-----begin",  "putty-user-key-file", "ssh-rsa "};

/* ---- tokens ---- */

/* Where the text that is next found in s..end ends, or NULL. */
static const char *text_after(const char *s, const char *end, const char *text)
{
    const char *at = memmem(s, (size_t)(end - s), text, strlen(text));
    return at ? at + strlen(text) : NULL;
}

/* A token of tokens.def in s..end, or what looks like the beginning of one. */
static int has_token(const char *s, const char *end)
{
    static const struct {
        const char *text;
        long more;
    } marks[] = {
        {"Bearer ", 16},
#define TOKEN(beginning, more) {beginning, more},
#include "capture/privacy/tokens.def"
#undef TOKEN
    };
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        for (const char *at = end - s > LOOSE_TOKEN ? s : end, *from; (from = text_after(at, end, marks[i].text));
             at++) {
            const char *p = from;
            at = from - strlen(marks[i].text);
            int marked = 0; /* a digit or a capital: no word of a language */
            for (; p < end && (isalnum((unsigned char)*p) || *p == '_' || *p == '-'); p++)
                marked |= isdigit((unsigned char)*p) || isupper((unsigned char)*p);
            long enough = marked && marks[i].more > LOOSE_TOKEN ? LOOSE_TOKEN : marks[i].more;
            if (p - from >= enough && (at == s || !isalnum((unsigned char)at[-1])))
                return 1;
        }
    return 0;
}

int rp_has_url_login(const char *s, const char *end)
{
    while ((s = memmem(s, (size_t)(end - s), "://", 3))) {
        const char *colon = NULL;
        for (s += 3; s<end && * s> ' ' && *s != '"' && *s != '\''; s++) {
            if (*s == ':')
                colon = s;
            else if (*s == '@' && colon)
                return 1;
        }
    }
    return 0;
}

/* ---- words that chance made ---- */

struct word {
    size_t n, changes, figures, hex;
    unsigned kinds; /* 1: capitals, 2: small letters, 4: digits */
};

static struct word classify_word(const char *s, size_t n)
{
    struct word w = {.n = n};
    unsigned last = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned kind = isupper((unsigned char)s[i])   ? 1
                        : islower((unsigned char)s[i]) ? 2
                        : isdigit((unsigned char)s[i]) ? 4
                                                       : 0;
        w.changes += kind && kind != last;
        w.kinds |= kind;
        w.figures += kind == 4;
        w.hex += isxdigit((unsigned char)s[i]) != 0;
        last = kind ? kind : last;
    }
    return w;
}

/* Package managers put digests into paths: /nix/store/HASH-name, /gnu/store/HASH-name, NAME-1.2-HASH. */
static int is_package_digest(const char *text, const char *s, size_t n)
{
    static const char *const stores[] = {"/nix/store/", "/gnu/store/"};
    if (n != 32 || strspn(s, "0123456789abcdefghijklmnopqrstuvwxyz") != n)
        return 0;
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++)
        if ((size_t)(s - text) >= strlen(stores[i]) && memcmp(s - strlen(stores[i]), stores[i], strlen(stores[i])) == 0)
            return 1;
    return s - text >= 3 && s[-1] == '-' && isdigit((unsigned char)s[-2]) && strchr("/:", s[n]) &&
           memchr(text, '/', (size_t)(s - text));
}

static int is_random(const char *s, size_t n)
{
    struct word w = classify_word(s, n);
    int letters = w.kinds & 3;
    return (w.figures && letters && (n >= MIXED_WORD || (n >= HEX_WORD && w.hex == n))) ||
           (w.kinds == 7 && n >= CHANGING_WORD && w.changes * 5 >= n * 2);
}

static size_t word_length(const char *s, const char *end, const char *also)
{
    const char *p = s;
    while (p < end && (isalnum((unsigned char)*p) || (*p && strchr(also, *p))))
        p++;
    return (size_t)(p - s);
}

/* The next word of letters, digits and `also` from *s on, and its length; 0 at the end. */
static size_t next_word(const char **s, const char *end, const char *also)
{
    while (*s < end && !word_length(*s, end, also))
        ++*s;
    return word_length(*s, end, also);
}

/* AWS's secrets are 40 letters of base64 and may contain slashes. In a path the slashes separate words. */
static int has_random_setting(const char *text)
{
    const char *end = text + strlen(text);
    for (const char *s = text; s < end;) {
        size_t n = next_word(&s, end, "");
        if (n && !is_package_digest(text, s, n) && is_random(s, n))
            return 1;
        s += n;
    }
    for (const char *s = text; s < end;) {
        /* of 20 letters, how many change kind */
        size_t n = next_word(&s, end, "+/"), part = n == 40 && *s != '/' ? 7 : 9;
        struct word w = classify_word(s, n);
        if (n >= LONG_SECRET && w.kinds == 7 && w.changes * 20 >= n * part)
            return 1;
        s += n;
    }
    return 0;
}

/* ---- encoded texts ---- */

char *rp_percent_decoded(const char *text, size_t size)
{
    RP_BUF out = {0};
    int found = 0;
    if (!memchr(text, '%', size))
        return NULL;
    for (size_t i = 0; i < size; i++) {
        int high = text[i] == '%' && i + 2 < size ? rp_hex_digit_any(text[i + 1]) : -1,
            low = high < 0 ? -1 : rp_hex_digit_any(text[i + 2]);
        char c = low < 0 ? text[i] : (char)(high << 4 | low);
        c = c ? c : ' ';
        rp_buf_add(&out, &c, 1);
        i += low < 0 ? 0 : 2;
        found |= low >= 0;
    }
    return found ? rp_buf_take(&out) : NULL;
}

/* A base64 word that decodes to printable text: it was encoded to hide it. */
static int is_encoded_text(const char *s, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned bits = 0, have = 0;
    if (n < ENCODED_WORD)
        return 0;
    for (size_t i = 0; i < n; i++) {
        char c = s[i] == '-' ? '+' : s[i] == '_' ? '/' : s[i];
        bits = bits << 6 | (unsigned)(strchr(letters, c) - letters);
        have += 6;
        if (have >= 8) {
            have -= 8;
            unsigned byte = bits >> have & 255;
            if (byte < ' ' || byte > '~')
                return 0;
        }
    }
    return 1;
}

static int has_encoded_text(const char *text)
{
    static const char *const also[] = {"+-_", "+/-_"};
    const char *end = text + strlen(text);
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        for (const char *s = text; s < end;) {
            size_t n = next_word(&s, end, also[i]);
            if (is_encoded_text(s, n))
                return 1;
            s += n;
        }
    return 0;
}

/* ---- the questions ---- */

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

static int mentions_any(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcasestr(text, list[i]))
            return 1;
    return 0;
}
#define HOLDS(text, list) mentions_any(text, list, sizeof list / sizeof *list)

static int has_introduction(const char *text)
{
    return (strpbrk(text, "=:\"_-/. ") || strcasestr(text, "key") || strcasestr(text, "token")) &&
           HOLDS(text, introductions);
}

static int is_secret_undecoded(const char *text)
{
    return has_token(text, text + strlen(text)) || has_introduction(text) || has_login(text) ||
           has_random_setting(text) || has_encoded_text(text);
}

int rp_is_secret_name(const char *text)
{
    RP_FREE char *plain = rp_percent_decoded(text, strlen(text));
    return is_secret_undecoded(text) || (plain && is_secret_undecoded(plain));
}

int rp_is_secret(const char *name, const char *text)
{
    RP_FREE char *plain = rp_percent_decoded(text, strlen(text));
    return HOLDS(name, secret_words) || HOLDS(text, mentions) || (plain && HOLDS(plain, mentions)) ||
           rp_is_secret_name(text);
}
