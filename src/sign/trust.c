#include "sign/trust.h"

#include "base/text.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MAX_CHARS 64
#define PUBLIC_MAX 16384

char *rp_trust_dir(struct rp_err *err)
{
    return rp_config_path("trust", err);
}

static int is_pem(const char *s, size_t n)
{
    return n >= 4 && memcmp(s + n - 4, ".pem", 4) == 0;
}

static int good_name(const char *s, size_t n)
{
    if (n == 0 || n > NAME_MAX_CHARS || *s == '.' || *s == '-' || is_pem(s, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-@", s[i]))
            return 0;
    return 1;
}

static struct rp_key_pair *load_public_file(const char *path, struct rp_err *err)
{
    RP_BUF pem = {0};
    RP_FREE char *what = rp_asprintf("'%s'", path);
    if (rp_read_file(&pem, path, PUBLIC_MAX, err) < 0)
        return NULL;
    return rp_key_load_public(rp_buf_text(&pem), pem.size, what, err);
}

static int fingerprint_of_file(char fingerprint[RP_FINGERPRINT_SIZE], const char *path, struct rp_err *err)
{
    struct rp_key_pair *k = load_public_file(path, err);
    if (!k)
        return -1;
    rp_key_fingerprint(k, fingerprint);
    rp_key_free(k);
    return 0;
}

int rp_trust_add(const char *name, const char *pem, size_t size, const char *what, struct rp_err *err)
{
    char ours[RP_FINGERPRINT_SIZE], theirs[RP_FINGERPRINT_SIZE];
    RP_BUF text = {0};
    if (!good_name(name, strlen(name)))
        return rp_fail(err, RP_USAGE, "'%.80s' is no name for a key: up to %d letters, digits and . _ - @, not beginning with . or -, not "
                                      "ending in .pem",
                       name, NAME_MAX_CHARS);
    struct rp_key_pair *k = rp_key_load_public(pem, size, what, err);
    if (!k)
        return -1;
    rp_key_fingerprint(k, ours);
    rp_key_public_pem(k, &text);
    rp_key_free(k);
    RP_FREE char *dir = rp_trust_dir(err);
    if (!dir || rp_mkdirs(dir, 0700, err) < 0)
        return -1;
    RP_FREE char *path = rp_asprintf("%s/%s.pem", dir, name);
    if (access(path, F_OK) == 0) {
        if (fingerprint_of_file(theirs, path, err) < 0)
            return rp_wrap(err, "trust store");
        if (strcmp(ours, theirs) == 0)
            return 0;
        return rp_fail(err, RP_USAGE, "'%s' already stands for the key %s; choose another with --name, or remove '%s'", name, theirs, path);
    }
    return rp_write_file(path, text.data, text.size, 0644, err);
}

static int add_trusted(struct rp_trust_list *list, const char *dir, const char *file, struct rp_err *err)
{
    struct rp_trusted t = {.path = rp_asprintf("%s/%s", dir, file), .name = rp_strdup(file)};
    t.name[strlen(file) - 4] = 0;
    if (fingerprint_of_file(t.fingerprint, t.path, err) < 0) {
        free(t.path);
        free(t.name);
        return -1;
    }
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
    RP_FREE char *dir = rp_trust_dir(err);
    if (!dir)
        return -1;
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : rp_fail(err, RP_IO, "cannot read the trust store '%s': %s", dir, strerror(errno));
    struct dirent *e;
    struct rp_err why;
    while ((e = readdir(d))) {
        size_t n = strlen(e->d_name);
        if (!is_pem(e->d_name, n) || !good_name(e->d_name, n - 4) || add_trusted(list, dir, e->d_name, &why) == 0)
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

int rp_trust_find(const char *fingerprint, char name[128], struct rp_err *err)
{
    struct rp_trust_list list;
    int found = 0;
    if (rp_trust_list(&list, err) < 0)
        return -1;
    for (int i = 0; i < list.n && !found; i++) {
        if (strcmp(list.key[i].fingerprint, fingerprint) != 0)
            continue;
        memcpy(name, list.key[i].name, strlen(list.key[i].name) + 1); /* at most NAME_MAX_CHARS */
        found = 1;
    }
    if (!found && list.n_skipped)
        found = rp_fail(err, RP_MALFORMED, "%s", list.skipped[0]);
    rp_trust_list_fini(&list);
    return found;
}

int rp_trust_resolve(char fingerprint[RP_FINGERPRINT_SIZE], const char *what, struct rp_err *err)
{
    struct stat st;
    if (strncmp(what, "SHA256:", 7) == 0) {
        if (!rp_is_sha256(what + 7))
            return rp_fail(err, RP_USAGE, "'%.90s' is no fingerprint; expected SHA256: and 64 lower-case hex digits", what);
        memcpy(fingerprint, what, RP_FINGERPRINT_SIZE);
        return 0;
    }
    if (strchr(what, '/') || is_pem(what, strlen(what)))
        return fingerprint_of_file(fingerprint, what, err);
    /* A name means the store and nothing else: a file that lies in the working directory, perhaps beside the bundle that came from a
     * stranger, must not take the place of a key that is not in the store (yet). */
    struct rp_err why = {0};
    RP_FREE char *dir = rp_trust_dir(&why);
    RP_FREE char *path = dir && good_name(what, strlen(what)) ? rp_asprintf("%s/%s.pem", dir, what) : NULL;
    if (path && stat(path, &st) == 0)
        return fingerprint_of_file(fingerprint, path, err);
    if (stat(what, &st) == 0)
        return rp_fail(err, RP_USAGE, "'%.80s' is no name in the trust store; for the file of that name write ./%.80s", what, what);
    if (!dir) {
        *err = why;
        return -1;
    }
    return rp_fail(err, RP_USAGE, "'%.80s' is no public key file, no fingerprint and no name in the trust store '%s'; "
                                  "repro key trust FILE --name NAME adds one",
                   what, dir);
}
