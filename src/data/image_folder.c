/* Images in a folder of class folders, as torchvision's ImageFolder reads them: PATH/CLASS/NAME.JPEG.
 *
 * The label of a class is its place in the bytewise order of the classes' names, from 0; a class without images has none. Records are the
 * files in bytewise order of their paths. File names end in .jpg or .jpeg, in lower or upper case; files with other names, and hidden files
 * and folders, are left out. If PATH contains one folder and no class with an image, that folder is used. */
#include "data/image/image_set.h"

#include "base/buf.h"
#include "base/text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

struct folder {
    struct rp_image_set set;
    struct rp_files files;
    int32_t *label; /* [files] */
    int64_t classes;
};

/* ---- the list ---- */

struct name_list {
    char **name;
    int n;
};

static void names_add(struct name_list *l, char *name)
{
    if ((l->n & (l->n - 1)) == 0)
        l->name = rp_realloc(l->name, (l->n ? 2 * (size_t)l->n : 1) * sizeof *l->name);
    l->name[l->n++] = name;
}

static void names_fini(struct name_list *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->name[i]);
    free(l->name);
    *l = (struct name_list){0};
}

static int is_jpeg_name(const char *name)
{
    size_t n = strlen(name);
    return (n > 4 && strcasecmp(name + n - 4, ".jpg") == 0) || (n > 5 && strcasecmp(name + n - 5, ".jpeg") == 0);
}

/* Paths of the entries of a directory: folders, or files with the name of an image. */
static int scan_folder(struct name_list *out, const char *dir, int folders, struct rp_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    if (!d)
        return rp_fail(err, RP_IO, "cannot open directory '%s': %s", dir, strerror(errno));
    int failed = 0;
    while (!failed && (errno = 0, (e = readdir(d)) != NULL)) {
        struct stat st;
        if (e->d_name[0] == '.' || (!folders && !is_jpeg_name(e->d_name)))
            continue;
        char *path = rp_asprintf("%s%s%s", dir, rp_ends_with(dir, "/") ? "" : "/", e->d_name);
        if (stat(path, &st) < 0) /* to leave it out would train on other data */
            failed = rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
        if (!failed && folders == S_ISDIR(st.st_mode))
            names_add(out, path);
        else
            free(path);
    }
    if (!failed && errno)
        failed = rp_fail(err, RP_IO, "cannot read directory '%s': %s", dir, strerror(errno));
    closedir(d);
    return failed;
}

static int scan_classes(struct name_list *files, struct name_list *classes, const char *dir, struct rp_err *err)
{
    if (scan_folder(classes, dir, 1, err) < 0)
        return -1;
    for (int i = 0; i < classes->n; i++)
        if (scan_folder(files, classes->name[i], 0, err) < 0)
            return -1;
    return 0;
}

static int list_images(struct rp_files *f, const char *path, struct rp_err *err)
{
    struct name_list files = {0}, classes = {0};
    struct stat st;
    if (strncmp(path, RP_FILES_EMBEDDED, strlen(RP_FILES_EMBEDDED)) == 0)
        return rp_files_open(f, path, rp_data_format_image_folder.in_name, err);
    *f = (struct rp_files){.last = -1};
    if (stat(path, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return rp_fail(err, RP_IO, "'%s' is not a folder of class folders with JPEG files, as data.format image_folder needs", path);
    int failed = scan_classes(&files, &classes, path, err);
    if (!failed && files.n == 0 && classes.n == 1) {
        char *only = rp_strdup(classes.name[0]);
        names_fini(&classes);
        failed = scan_classes(&files, &classes, only, err);
        free(only);
    }
    if (!failed && files.n == 0)
        failed = rp_fail(err, RP_IO, "directory '%s' has no class folder with a .jpg or .jpeg file", path);
    failed = failed || rp_files_add(f, files.name, files.n, err) < 0;
    names_fini(&files);
    names_fini(&classes);
    if (failed)
        rp_files_close(f);
    return failed ? -1 : 0;
}

/* ---- classes ---- */

/* Bytes of a path up to its last slash, and where the folder's name begins in it. */
static size_t folder_of(const char *path, const char **name)
{
    const char *end = strrchr(path, '/'), *from = end ? end : path;
    while (from > path && from[-1] != '/')
        from--;
    *name = from;
    return end ? (size_t)(end - from) : 0;
}

static int by_class(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    const char *p, *q;
    size_t n = folder_of(*x, &p), m = folder_of(*y, &q);
    int order = memcmp(p, q, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

/* Paths are in order, so that the files of a folder are next to each other, but "a-b/" comes before "a/" and "a" before "a-b". */
static int64_t label_files(struct folder *x)
{
    int n = 0;
    RP_FREE const char **class = rp_alloc((size_t)x->files.n * sizeof *class);
    for (int i = 0; i < x->files.n; i++)
        if (n == 0 || by_class(&class[n - 1], &(const char *){x->files.file[i].name}) != 0)
            class[n++] = x->files.file[i].name;
    qsort(class, (size_t)n, sizeof *class, by_class);
    x->label = rp_alloc((size_t)x->files.n * sizeof *x->label);
    for (int i = 0; i < x->files.n; i++) {
        const char *const *found = bsearch(&(const char *){x->files.file[i].name}, class, (size_t)n, sizeof *class, by_class);
        RP_BUG_IF(!found);
        x->label[i] = (int32_t)(found - class);
    }
    return n;
}

/* ---- records ---- */

static int read_file(struct rp_image_set *s, int64_t record, struct rp_image_room *room, struct rp_image_record *out, struct rp_err *err)
{
    struct folder *x = (struct folder *)s;
    uint64_t size = x->files.file[record].size;
    out->label = x->label[record];
    if (size > RP_IMAGE_BYTES_MAX)
        return rp_fail(err, RP_MALFORMED, "%llu bytes, above the limit of %u for an image", (unsigned long long)size, RP_IMAGE_BYTES_MAX);
    out->size = (size_t)size;
    out->bytes = rp_image_room(room, out->size + 1);
    return rp_files_read(&x->files, (int)record, 0, room->p, out->size, err);
}

static int place_file(const struct rp_image_set *s, int64_t record, struct rp_err *err)
{
    return rp_wrap(err, "'%s'", ((const struct folder *)s)->files.file[record].name);
}

static const struct rp_image_reader reader = {.label_base = 0, .read = read_file, .place = place_file};

static void folder_close(struct rp_dataset *d)
{
    struct folder *x = (struct folder *)d;
    if (!x)
        return;
    rp_image_set_fini(&x->set);
    rp_files_close(&x->files);
    free(x->label);
    free(x);
}

static struct rp_dataset *folder_open(const char *path, const struct rp_sample_field *field, int n, const struct rp_data_opts *o,
                                      struct rp_err *err)
{
    struct folder *x = rp_alloc(sizeof *x);
    x->files.last = -1;
    x->set.files = &x->files;
    if (rp_image_set_init(&x->set, &rp_data_format_image_folder, &reader, field, n, o, err) < 0 || list_images(&x->files, path, err) < 0) {
        folder_close(&x->set.base);
        return NULL;
    }
    x->set.count = x->files.n;
    x->classes = label_files(x);
    if (x->set.label_base) {
        rp_fail(err, RP_USAGE, "data.label_base %d: classes of data.format image_folder count from 0", x->set.label_base);
        folder_close(&x->set.base);
        return NULL;
    }
    if (x->classes > x->set.below) {
        rp_fail(err, RP_MALFORMED, "'%s' has %lld class folders, the model %lld classes", path, (long long)x->classes,
                (long long)x->set.below);
        folder_close(&x->set.base);
        return NULL;
    }
    return &x->set.base;
}

int64_t rp_image_folder_classes(const struct rp_dataset *d)
{
    return ((const struct folder *)d)->classes;
}

static int folder_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n, struct rp_err *err)
{
    struct rp_dataset *d = folder_open(path, NULL, 0, o, err);
    *n = 0;
    if (!d)
        return -1;
    folder_close(d);
    rp_image_fields(o, 0, field, n);
    return 0;
}

const struct rp_data_format rp_data_format_image_folder = {
    .name = "image_folder",
    .summary = "images: a folder of class folders with JPEG files",
    .in_name = ".jpg|.jpeg|.JPG|.JPEG",
    .endings = {""},
    .list = list_images,
    .probe = folder_probe,
    .open = folder_open,
    .close = folder_close,
    .count = rp_image_count,
    .get = rp_image_get,
    .get_batch = rp_image_get_batch,
    .working_bytes = rp_image_working_bytes,
    .check = rp_image_check,
};
