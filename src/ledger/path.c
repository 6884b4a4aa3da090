/* Where ledgers are: next to the key that signs them, whatever holds the data. */
#include "base/text.h"
#include "ledger/ledger.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NAME_BEGINS "ledger-"
#define NAME_ENDS ".jsonl"
#define NAME_DIGITS 16 /* of the fingerprint */
#define OVERLAY 0x794c7630 /* f_type of overlayfs */

static const char *from_environment(void)
{
    const char *env = getenv("REPRO_LEDGER");
    return env && *env ? env : NULL;
}

char *rp_ledger_path(const char *key_file, const char *fingerprint, int *named)
{
    const char *env = from_environment(), *hex = strchr(fingerprint, ':');
    *named = env != NULL;
    if (env)
        return rp_strdup(env);
    RP_FREE char *dir = rp_folder_of(key_file);
    return rp_asprintf("%s%s" NAME_BEGINS "%.*s" NAME_ENDS, dir, strcmp(dir, "/") == 0 ? "" : "/", NAME_DIGITS,
                       hex ? hex + 1 : fingerprint);
}

static int is_ledger(const char *name)
{
    size_t begin = sizeof NAME_BEGINS - 1;
    return strncmp(name, NAME_BEGINS, begin) == 0 && strspn(name + begin, "0123456789abcdef") == NAME_DIGITS &&
           strcmp(name + begin + NAME_DIGITS, NAME_ENDS) == 0;
}

char *rp_ledger_own_path(struct rp_err *err)
{
    struct dirent *e;
    RP_FREE char *one = NULL;
    int n = 0;
    *err = (struct rp_err){0};
    if (from_environment())
        return rp_strdup(from_environment());
    RP_FREE char *key = rp_key_default_path(err);
    if (!key)
        return NULL;
    RP_FREE char *dir = rp_folder_of(key);
    DIR *d = opendir(dir);
    while (d && (e = readdir(d)) != NULL) {
        if (!is_ledger(e->d_name) || n++)
            continue;
        one = rp_asprintf("%s/%s", dir, e->d_name);
    }
    if (d)
        closedir(d);
    if (n > 1)
        return rp_fail_null(err, RP_USAGE, "'%s' has the ledgers of %d keys, " NAME_BEGINS "*" NAME_ENDS ": name one",
                            dir, n);
    char *path = one;
    one = NULL;
    return path;
}

char *rp_ledger_verified_path(struct rp_err *err)
{
    return rp_config_path("verified.jsonl", err);
}

char *rp_ledger_old_path(void)
{
    RP_FREE char *store = rp_store_path(NULL, NULL);
    char *path = rp_asprintf("%s/ledger.jsonl", store);
    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* The number of the mount that holds a directory, as /proc has it, else of its device. */
static int64_t mount_of(const char *dir)
{
    char name[64];
    struct stat st;
    RP_BUF text = {0};
    struct rp_err ignored;
    RP_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
    if (rp_read_file(&text, name, 4096, &ignored) < 0)
        return (int64_t)st.st_dev;
    const char *is = strstr(rp_buf_text(&text), "mnt_id:");
    return is ? strtoll(is + strlen("mnt_id:"), NULL, 10) : (int64_t)st.st_dev;
}

int rp_ledger_is_on_layer(const char *path)
{
    static const char *const signs[] = {"/run/.containerenv", "/.dockerenv"};
    struct statfs fs;
    int contained = statfs("/", &fs) == 0 && (unsigned long)fs.f_type == OVERLAY;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        contained |= access(signs[i], F_OK) == 0;
    RP_FREE char *dir = rp_folder_of(path);
    struct stat st;
    while (contained && stat(dir, &st) < 0 && errno == ENOENT && strcmp(dir, ".") != 0 && strcmp(dir, "/") != 0) {
        char *above = rp_folder_of(dir); /* it is made with the first line */
        free(dir);
        dir = above;
    }
    return contained && mount_of(dir) == mount_of("/");
}
