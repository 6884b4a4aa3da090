/* Images in a folder of class folders, as torchvision's ImageFolder reads them: PATH/CLASS/.../NAME.JPEG.
 *
 * The label of a class is its place in the bytewise order of the classes' names, from 0; a class without an image is
 * refused, as there. Records are the files in bytewise order of their paths, at any depth of a class folder. File names
 * end in .jpg or .jpeg, in lower or upper case. Anything else that ImageFolder would read (PNG, hidden files and
 * folders, ...) is refused: to leave it out would train on other data, or move the labels. Files with other names are
 * left out, as there. If PATH contains one folder and that has no image except in folders, that folder is used:
 * archives often have one. */
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

static int has_ending(const char *name, const char *const *endings)
{
    for (const size_t n = strlen(name); *endings; endings++)
        if (n >= strlen(*endings) && strcasecmp(name + n - strlen(*endings), *endings) == 0)
            return 1;
    return 0;
}

static const char *const jpeg_endings[] = {".jpg", ".jpeg", NULL};
/* of torchvision's IMG_EXTENSIONS */
static const char *const other_endings[] = {".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", NULL};

struct folder_scan {
    struct name_list files, classes;
    int direct;  /* images next to the classes */
    long others; /* in classes, that ImageFolder reads, and this program does not */
    char *other; /* the first of them */
    char *gone;  /* a link next to the classes that leads nowhere */
};

static void scan_fini(struct folder_scan *s)
{
    names_fini(&s->files);
    names_fini(&s->classes);
    free(s->other);
    free(s->gone);
    *s = (struct folder_scan){0};
}

static void count_other(struct folder_scan *s, const char *path)
{
    if (s->others++ && strcmp(s->other, path) <= 0)
        return;
    free(s->other);
    s->other = rp_strdup(path);
}

struct level { /* a folder and those around it */
    const struct level *above;
    dev_t device;
    ino_t inode;
};

static int scan_folder(struct folder_scan *out, const char *dir, const struct level *above, struct rp_err *err);

/* An entry of PATH (above NULL), of which only folders are looked at, or of a class. Owns path. */
static int scan_entry(struct folder_scan *out, char *path, const char *name, const struct level *above,
                      struct rp_err *err)
{
    struct stat st = {0};
    const int is_jpeg = has_ending(name, jpeg_endings), is_image = is_jpeg || has_ending(name, other_endings);
    RP_FREE char *owned = path;
    if (stat(path, &st) < 0) {
        /* a link that leads nowhere: in a class nothing, next to classes perhaps one */
        if (!is_image && errno == ENOENT) {
            out->gone = above || out->gone ? out->gone : rp_strdup(path);
            return 0;
        }
        /* to leave it out would train on other data */
        return rp_fail(err, RP_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    if (!above) {
        if (S_ISDIR(st.st_mode))
            names_add(&out->classes, rp_strdup(path));
        out->direct += is_image && !S_ISDIR(st.st_mode);
        return 0;
    }
    for (const struct level *l = above; S_ISDIR(st.st_mode) && l; l = l->above)
        if (l->device == st.st_dev && l->inode == st.st_ino)
            return rp_fail(err, RP_MALFORMED, "'%s' is a link to a folder that contains it: remove it", path);
    if (S_ISDIR(st.st_mode))
        return scan_folder(out, path, above, err);
    if (is_jpeg && *name != '.')
        names_add(&out->files, rp_strdup(path));
    else if (is_image)
        count_other(out, path);
    return 0;
}

/* Every entry of a folder; above NULL: of PATH itself. */
static int scan_entries(struct folder_scan *out, const char *dir, const struct level *level, struct rp_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    if (!d)
        return rp_fail(err, RP_IO, "cannot open directory '%s': %s", dir, strerror(errno));
    int failed = 0;
    while (!failed && (errno = 0, (e = readdir(d)) != NULL))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            failed = scan_entry(out, rp_asprintf("%s%s%s", dir, rp_ends_with(dir, "/") ? "" : "/", e->d_name),
                                e->d_name, level, err);
    if (!failed && errno)
        failed = rp_fail(err, RP_IO, "cannot read directory '%s': %s", dir, strerror(errno));
    closedir(d);
    return failed;
}

static int scan_folder(struct folder_scan *out, const char *dir, const struct level *above, struct rp_err *err)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return rp_fail(err, RP_IO, "cannot read '%s': %s", dir, strerror(errno));
    return scan_entries(out, dir, &(struct level){above, st.st_dev, st.st_ino}, err);
}

/* A class without an image would have a label in ImageFolder, if that did not refuse it. */
static int scan_class(struct folder_scan *out, const char *dir, struct rp_err *err)
{
    const int before = out->files.n;
    const long others = out->others;
    if (scan_folder(out, dir, NULL, err) < 0)
        return -1;
    if (out->files.n == before && out->others == others)
        return rp_fail(err, RP_MALFORMED,
                       "class folder '%s' has no image, and would shift the labels of all later classes: remove it, as "
                       "torchvision's ImageFolder also requires",
                       dir);
    return 0;
}

/* The class folders of PATH, or of the one folder in it if that has images only in folders. */
static int find_classes(struct folder_scan *out, const char *path, struct rp_err *err)
{
    struct folder_scan below = {0};
    if (scan_entries(out, path, NULL, err) < 0)
        return -1;
    int failed = out->classes.n == 1 && scan_entries(&below, out->classes.name[0], NULL, err) < 0;
    if (!failed && below.classes.n && !below.direct) {
        struct folder_scan one = *out;
        *out = below;
        below = one;
    }
    scan_fini(&below);
    if (!failed && out->gone)
        failed = rp_fail(err, RP_IO, "cannot read '%s': %s", out->gone, strerror(ENOENT));
    return failed ? -1 : 0;
}

static int scan_classes(struct folder_scan *out, const char *path, struct rp_err *err)
{
    if (find_classes(out, path, err) < 0)
        return -1;
    for (int i = 0; i < out->classes.n; i++)
        if (scan_class(out, out->classes.name[i], err) < 0)
            return -1;
    if (out->others)
        return rp_fail(
            err, RP_MALFORMED,
            "'%s' has %ld image%s that torchvision's ImageFolder reads and this program does not (the first: '%s'): "
            "make %s JPEG, named .jpg and not hidden, or remove %s",
            path, out->others, rp_s(out->others), out->other, out->others > 1 ? "them" : "it",
            out->others > 1 ? "them" : "it");
    if (out->files.n == 0)
        return rp_fail(err, RP_IO, "directory '%s' has no class folder with a .jpg or .jpeg file", path);
    return 0;
}

static int list_images(struct rp_files *f, const char *path, struct rp_err *err)
{
    struct folder_scan found = {0};
    struct stat st;
    if (strncmp(path, RP_FILES_EMBEDDED, strlen(RP_FILES_EMBEDDED)) == 0)
        return rp_files_open(f, path, rp_data_format_image_folder.in_name, err);
    *f = (struct rp_files){.last = -1};
    if (stat(path, &st) < 0)
        return rp_fail(err, RP_IO, "cannot open '%s': %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return rp_fail(err, RP_IO,
                       "'%s' is not a folder of class folders with JPEG files, as data.format image_folder needs",
                       path);
    int failed = scan_classes(&found, path, err) < 0 || rp_files_add(f, found.files.name, found.files.n, err) < 0;
    scan_fini(&found);
    if (failed)
        rp_files_close(f);
    return failed ? -1 : 0;
}

/* ---- classes ---- */

/* Bytes of the paths before the names of the classes: those of PATH, or more if all files have the same folder there
 * and folders in it. */
static size_t root_size(const char *path, const struct rp_files *f)
{
    const size_t n = strlen(path) + !rp_ends_with(path, "/");
    const char *first = f->file[0].name + n;
    const size_t class = strcspn(first, "/") + 1;
    for (int i = 0; i < f->n; i++)
        if (strncmp(f->file[i].name + n, first, class) != 0 || !strchr(f->file[i].name + n + class, '/'))
            return n;
    return n + class;
}

static int by_class(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    const size_t n = strcspn(*x, "/"), m = strcspn(*y, "/");
    const int order = memcmp(*x, *y, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

/* Paths are in order, so that the files of a folder are next to each other, but "a-b/" comes before "a/" and "a" before
 * "a-b". */
static int64_t label_files(struct folder *x, const char *path)
{
    int n = 0;
    const size_t root = root_size(path, &x->files);
    RP_FREE const char **class = rp_alloc((size_t)x->files.n * sizeof *class);
    for (int i = 0; i < x->files.n; i++)
        if (n == 0 || by_class(&class[n - 1], &(const char *){x->files.file[i].name + root}) != 0)
            class[n++] = x->files.file[i].name + root;
    qsort(class, (size_t)n, sizeof *class, by_class);
    x->label = rp_alloc((size_t)x->files.n * sizeof *x->label);
    for (int i = 0; i < x->files.n; i++) {
        const char *const *found =
            bsearch(&(const char *){x->files.file[i].name + root}, class, (size_t)n, sizeof *class, by_class);
        RP_BUG_IF(!found);
        x->label[i] = (int32_t)(found - class);
    }
    return n;
}

/* ---- records ---- */

static int read_file(struct rp_image_set *s, int64_t record, struct rp_image_room *room, struct rp_image_record *out,
                     struct rp_err *err)
{
    struct folder *x = (struct folder *)s;
    uint64_t size = x->files.file[record].size;
    out->label = x->label[record];
    if (size > RP_IMAGE_BYTES_MAX)
        return rp_fail(err, RP_MALFORMED, "%llu bytes, above the limit of %u for an image", (unsigned long long)size,
                       RP_IMAGE_BYTES_MAX);
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

static struct rp_dataset *folder_open(const char *path, const struct rp_sample_field *field, int n,
                                      const struct rp_data_opts *o, struct rp_err *err)
{
    struct folder *x = rp_alloc(sizeof *x);
    x->files.last = -1;
    x->set.files = &x->files;
    if (rp_image_set_init(&x->set, &rp_data_format_image_folder, &reader, field, n, o, err) < 0 ||
        list_images(&x->files, path, err) < 0) {
        folder_close(&x->set.base);
        return NULL;
    }
    x->set.count = x->files.n;
    x->classes = label_files(x, path);
    if (x->set.label_base) {
        rp_fail(err, RP_USAGE, "data.label_base %d: classes of data.format image_folder count from 0",
                x->set.label_base);
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

static int folder_probe(const char *path, const struct rp_data_opts *o, struct rp_sample_field *field, int *n,
                        struct rp_err *err)
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
