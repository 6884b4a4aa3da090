/* Logs where `compare` expects results: which importer reads them. */
#include "compare/compare.h"

#include "base/text.h"
#include "import/import.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD_MAX (1ul << 20) /* bytes of a log that are tried */
#define FILES_MAX 200        /* of a folder */

/* Does the importer read it, perhaps once it knows a batch? */
static int reads(const struct rp_importer *importer, const char *path, const struct rp_buf *bytes)
{
    const char *set[] = {"global_batch=1"};
    for (int sets = 0; sets < 2; sets++) {
        const struct rp_import_opts o = {.from = -1, .to = -1, .set = set, .sets = sets};
        struct rp_import im = {.importer = importer};
        struct rp_err ignored = {0};
        const int read = rp_import_memory(&im, path, rp_buf_text(bytes), bytes->size, &o, &ignored) == 0 && im.n;
        rp_import_fini(&im);
        if (read)
            return 1;
    }
    return 0;
}

/* The first whole lines of a file. */
static int read_head(struct rp_buf *out, const char *path)
{
    struct rp_err ignored = {0};
    RP_FD fd = rp_open_regular(path, &ignored);
    char *bytes = fd >= 0 ? rp_alloc(HEAD_MAX) : NULL;
    ssize_t n = bytes ? RP_RETRY(pread(fd, bytes, HEAD_MAX, 0)) : -1;
    while (n == (ssize_t)HEAD_MAX && n && bytes[n - 1] != '\n')
        n--;
    if (n > 0)
        rp_buf_add(out, bytes, (size_t)n);
    free(bytes);
    return n > 0;
}

static const char *format_of(const char *path)
{
    RP_BUF head = {0};
    const int some = read_head(&head, path);
    for (int i = 0; some && rp_importers[i]; i++)
        if (reads(rp_importers[i], path, &head))
            return rp_importers[i]->name;
    return NULL;
}

/* The first format that reads a file of a folder, by the order of names. */
static const char *format_of_folder(const char *path)
{
    struct dirent **entry;
    const char *format = NULL;
    const int n = scandir(path, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct stat st;
        RP_FREE char *file = rp_asprintf("%s/%s", path, entry[i]->d_name);
        if (i < FILES_MAX && !format && entry[i]->d_name[0] != '.' && stat(file, &st) == 0 && S_ISREG(st.st_mode))
            format = format_of(file);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    return format;
}

int rp_refuse_log(const char *path, struct rp_err *err)
{
    char shown[72];
    struct stat st;
    const int is_folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *format = is_folder ? format_of_folder(path) : format_of(path);
    rp_excerpt(shown, path);
    if (format && is_folder)
        return rp_fail(err, RP_MALFORMED,
                       "'%s' is a folder with logs: 'repro import %s %s/* -o results.json' makes results of them",
                       shown, format, shown);
    if (format)
        return rp_fail(err, RP_MALFORMED, "'%s' is a log: 'repro import %s %s -o results.json' makes results of it",
                       shown, format, shown);
    return -1;
}
