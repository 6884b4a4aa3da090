#include "sign/trust.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/private_file.h"
#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_CHARS 64
#define PUBLIC_MAX 16384
#define HEAD "repro-trust/1\nuntil: "
#define NEVER "never"
#define ENTRY "an entry of the trust store" /* in messages */
#define STORE "trust" /* its folder, which need not exist */

static int has_suffix(const char *s, size_t n, const char *suffix)
{
    return n >= 4 && memcmp(s + n - 4, suffix, 4) == 0;
}

static int good_name(const char *s, size_t n)
{
    if (n == 0 || n > NAME_MAX_CHARS || *s == '.' || *s == '-' || has_suffix(s, n, ".pem") || has_suffix(s, n, ".pub"))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-@", s[i]))
            return 0;
    return 1;
}

/* ---- days ---- */

static int has_passed(const char *day)
{
    char now[32];
    rp_rfc3339(now, rp_wall_ns());
    return *day && strncmp(now, day, RP_DATE_SIZE - 1) > 0;
}

/* ---- one file ---- */

static void write_entry(struct rp_buf *out, const struct rp_key_pair *k, const char *until)
{
    RP_BUF pem = {0}, all = {0};
    char hex[RP_SHA256_HEX];
    rp_key_public_pem(k, &pem);
    rp_buf_printf(&all, "%s%s\n%s", HEAD, until, pem.data);
    rp_sha256_hex(hex, all.data, all.size);
    rp_buf_printf(out, "%s%s\nsha256: %s\n%s", HEAD, until, hex, pem.data);
}

/* The day in the second line of a file that begins with HEAD. */
static void day_of(char until[RP_DATE_SIZE], const struct rp_buf *text)
{
    size_t n = strcspn(text->data + strlen(HEAD), "\n");
    snprintf(until, RP_DATE_SIZE, "%.*s", (int)(n < RP_DATE_SIZE ? n : 0), text->data + strlen(HEAD));
}

static int parse_public(char fingerprint[RP_FINGERPRINT_SIZE], char until[RP_DATE_SIZE], const struct rp_buf *text,
                        const char *path, struct rp_err *err)
{
    RP_BUF again = {0};
    RP_FREE char *what = rp_asprintf("'%s'", path);
    *until = 0;
    struct rp_key_pair *k = rp_key_load_public(rp_buf_text(text), text->size, what, err);
    if (!k)
        return -1;
    rp_key_fingerprint(k, fingerprint);
    int headed = text->size > strlen(HEAD) && memcmp(text->data, HEAD, strlen(HEAD)) == 0;
    if (headed) {
        day_of(until, text);
        write_entry(&again, k, until);
    }
    rp_key_free(k);
    if (headed && (!rp_buf_is(&again, text->data, text->size) ||
                   (strcmp(until, NEVER) != 0 && !rp_is_date(until, strlen(until)))))
        return rp_fail(err, RP_MALFORMED, "%s is damaged: its lines do not have the SHA-256 that it names", what);
    if (strcmp(until, NEVER) == 0)
        *until = 0;
    return 0;
}

/* A public key file of any form, wherever it is: the user gave its name. Only one of the store has a day; *until is ""
 * for all others. */
static int read_public(char fingerprint[RP_FINGERPRINT_SIZE], char until[RP_DATE_SIZE], const char *path,
                       struct rp_err *err)
{
    RP_BUF text = {0};
    return rp_read_file(&text, path, PUBLIC_MAX, err) < 0 ? -1 : parse_public(fingerprint, until, &text, path, err);
}

static int read_private(struct rp_buf *text, const char *path, struct rp_err *err)
{
    struct stat st;
    RP_FD fd = rp_private_open(path, ENTRY, err);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return rp_fail(err, RP_IO, "'%s' is not a regular file", path);
    return rp_private_check(&st, path, ENTRY, err) < 0 ? -1 : rp_read_opened(text, fd, path, PUBLIC_MAX, err);
}

/* A file of the store. One that begins neither with the head nor with a key may be an entry whose day is damaged. */
static int read_entry(char fingerprint[RP_FINGERPRINT_SIZE], char until[RP_DATE_SIZE], const char *path,
                      struct rp_err *err)
{
    static const char *const begins[] = {HEAD, "-----BEGIN PUBLIC KEY-----", "untrusted comment: "};
    RP_BUF text = {0};
    if (read_private(&text, path, err) < 0)
        return -1;
    if (text.size == 0)
        return rp_fail(err, RP_MALFORMED,
                       "'%s', " ENTRY ", is empty: remove it, and add the key again with 'repro key trust'", path);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (text.size > strlen(begins[i]) && memcmp(text.data, begins[i], strlen(begins[i])) == 0)
            return parse_public(fingerprint, until, &text, path, err);
    return rp_fail(
        err, RP_MALFORMED,
        "'%s' is not an entry of the trust store: it begins neither with repro-trust/1 nor with a public key", path);
}

/* ---- the store ---- */

static int check_name(const char *name, struct rp_err *err)
{
    if (good_name(name, strlen(name)))
        return 0;
    return rp_fail(
        err, RP_USAGE,
        "'%.80s' is not a valid name for a key: up to %d letters, digits and . _ - @, not beginning with . or -, "
        "not ending in .pem or .pub",
        name, NAME_MAX_CHARS);
}

int rp_trust_add(const char *name, const char *until, const struct rp_key_pair *k, struct rp_err *err)
{
    char ours[RP_FINGERPRINT_SIZE], theirs[RP_FINGERPRINT_SIZE], day[RP_DATE_SIZE];
    RP_BUF text = {0};
    if (check_name(name, err) < 0)
        return -1;
    if (until && !rp_is_date(until, strlen(until)))
        return rp_fail(err, RP_USAGE, "'%.40s' is not a day; expected one like 2027-06-30", until);
    if (until && has_passed(until))
        return rp_fail(err, RP_USAGE, "%s has passed: a key that is no longer trusted is removed with --remove", until);
    RP_FREE char *dir = rp_config_path(STORE, err);
    if (!dir || rp_mkdirs(dir, 0700, err) < 0)
        return -1;
    RP_FREE char *path = rp_asprintf("%s/%s.pem", dir, name);
    rp_key_fingerprint(k, ours);
    if (access(path, F_OK) == 0) {
        if (read_entry(theirs, day, path, err) < 0)
            return rp_wrap(err, "trust store");
        if (strcmp(ours, theirs) != 0)
            return rp_fail(
                err, RP_USAGE,
                "'%s' is already the name of the key %s; choose another with --name, or remove that one first "
                "with repro key trust --remove %s",
                name, theirs, name);
    }
    write_entry(&text, k, until ? until : NEVER);
    /* as it will be read */
    return rp_write_file(path, text.data, text.size, 0644, err) < 0 ? -1 : read_entry(theirs, day, path, err);
}

int rp_trust_remove(const char *name, struct rp_err *err)
{
    if (check_name(name, err) < 0)
        return -1;
    RP_FREE char *dir = rp_config_path(STORE, err);
    if (!dir)
        return -1;
    RP_FREE char *path = rp_asprintf("%s/%s.pem", dir, name);
    if (unlink(path) == 0)
        return 0;
    if (errno == ENOENT)
        return rp_fail(err, RP_USAGE, "'%s' is not in the trust store; 'repro key trust --list' shows its names", name);
    return rp_fail(err, RP_IO, "cannot remove '%s': %s", path, strerror(errno));
}

static int add_trusted(struct rp_trust_list *list, const char *dir, const char *file, struct rp_err *err)
{
    struct rp_trusted t = {.path = rp_asprintf("%s/%s", dir, file), .name = rp_strdup(file)};
    t.name[strlen(file) - 4] = 0;
    if (read_entry(t.fingerprint, t.until, t.path, err) < 0) {
        free(t.path);
        free(t.name);
        return -1;
    }
    t.expired = has_passed(t.until);
    list->key = rp_realloc(list->key, (size_t)(list->n + 1) * sizeof *list->key);
    list->key[list->n++] = t;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct rp_trusted *)a)->name, ((const struct rp_trusted *)b)->name);
}

int rp_trust_list(struct rp_trust_list *list, struct rp_err *err)
{
    *list = (struct rp_trust_list){0};
    RP_FREE char *dir = rp_config_path(STORE, err);
    if (!dir)
        return -1;
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : rp_fail(err, RP_IO, "cannot read the trust store '%s': %s", dir, strerror(errno));
    struct dirent *e;
    struct rp_err why;
    while ((e = readdir(d))) {
        size_t n = strlen(e->d_name);
        if (!has_suffix(e->d_name, n, ".pem") || !good_name(e->d_name, n - 4) ||
            add_trusted(list, dir, e->d_name, &why) == 0)
            continue;
        list->skipped = rp_realloc(list->skipped, (size_t)(list->n_skipped + 1) * sizeof *list->skipped);
        list->skipped[list->n_skipped++] = rp_strdup(why.msg);
    }
    closedir(d);
    if (list->n)
        qsort(list->key, (size_t)list->n, sizeof *list->key, by_name);
    return 0;
}

void rp_trust_list_fini(struct rp_trust_list *list)
{
    for (int i = 0; i < list->n; i++) {
        free(list->key[i].name);
        free(list->key[i].path);
    }
    for (int i = 0; i < list->n_skipped; i++)
        free(list->skipped[i]);
    free(list->key);
    free(list->skipped);
    *list = (struct rp_trust_list){0};
}

int rp_trust_find(const char *fingerprint, char name[RP_TRUST_NAME], char until[RP_DATE_SIZE], struct rp_err *err)
{
    struct rp_trust_list list;
    int found = 0;
    *name = *until = 0;
    if (rp_trust_list(&list, err) < 0)
        return -1;
    for (int i = 0; i < list.n && !found; i++) { /* under several names: one that has not expired is enough */
        const struct rp_trusted *t = &list.key[i];
        if (strcmp(t->fingerprint, fingerprint) != 0)
            continue;
        memcpy(name, t->name, strlen(t->name) + 1); /* at most NAME_MAX_CHARS */
        memcpy(until, t->until, sizeof t->until);
        found = !t->expired;
    }
    if (!found && !*name && list.n_skipped)
        found = rp_fail(err, RP_MALFORMED, "%s", list.skipped[0]);
    rp_trust_list_fini(&list);
    return found;
}

static int resolve_name(char fingerprint[RP_FINGERPRINT_SIZE], const char *name, const char *path, struct rp_err *err)
{
    char until[RP_DATE_SIZE];
    if (read_entry(fingerprint, until, path, err) < 0)
        return -1;
    if (!has_passed(until))
        return 0;
    return rp_fail(err, RP_SIGNATURE,
                   "'%s' was trusted until %s, which has passed; repro key trust %s --name %s --until DATE renews it",
                   name, until, path, name);
}

int rp_trust_resolve(char fingerprint[RP_FINGERPRINT_SIZE], const char *what, struct rp_err *err)
{
    struct stat st;
    char until[RP_DATE_SIZE];
    if (strncmp(what, "SHA256:", 7) == 0) {
        if (!rp_is_sha256(what + 7))
            return rp_fail(err, RP_USAGE, "'%.90s' is not a fingerprint; expected SHA256: and 64 lower-case hex digits",
                           what);
        memcpy(fingerprint, what, RP_FINGERPRINT_SIZE);
        return 0;
    }
    if (strchr(what, '/') || has_suffix(what, strlen(what), ".pem") || has_suffix(what, strlen(what), ".pub")) {
        if (read_public(fingerprint, until, what, err) < 0)
            return -1;
        return has_passed(until)
                   ? rp_fail(err, RP_SIGNATURE, "'%s' was trusted until %s, which has passed", what, until)
                   : 0;
    }
    /* A name refers only to the store: a file in the working directory, perhaps delivered with an untrusted bundle,
     * must not replace a key that is not in the store (yet). */
    struct rp_err why = {0};
    RP_FREE char *dir = rp_config_path(STORE, &why);
    RP_FREE char *path = dir && good_name(what, strlen(what)) ? rp_asprintf("%s/%s.pem", dir, what) : NULL;
    if (path && stat(path, &st) == 0)
        return resolve_name(fingerprint, what, path, err);
    if (stat(what, &st) == 0)
        return rp_fail(err, RP_USAGE,
                       "'%.80s' is not a name in the trust store; for the file of that name write ./%.80s", what, what);
    if (!dir) {
        *err = why;
        return -1;
    }
    return rp_fail(err, RP_USAGE, "'%.80s' is not a public key file, a fingerprint or a name in the trust store '%s'; "
                                  "repro key trust FILE --name NAME adds one",
                   what, dir);
}
