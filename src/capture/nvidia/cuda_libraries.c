/* The CUDA libraries that a program started here would find: which file, which version, and which bytes. The identifier
 * that the linker wrote into a library tells builds apart without reading it; small files are hashed, all files only
 * with --digests: the largest is half a gigabyte. */
#include "base/hash.h"
#include "base/json.h"
#include "capture/host/device.h"
#include "capture/host/elf.h"
#include "capture/nvidia/libraries.h"
#include "capture/privacy/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_NAMES = 65536, MAX_LIBRARIES = 96 };
/* What is hashed without opts->digests: files up to this size, until this many bytes in all (25 ms with SHA
 * instructions). */
static const int64_t small_file = 32 << 20, small_sum = 48 << 20;

/* Names of files without ".so...", packages of Python that bring them, and the text in the library that its version
 * follows. */
static const struct library {
    const char *name, *package, *mark;
} libraries[] = {
    {"libcuda", NULL, NULL},
    {"libnvidia-ml", NULL, NULL},
    {"libcudart", "nvidia_cuda_runtime", NULL},
    {"libcudnn", "nvidia_cudnn", NULL},
    {"libnccl", "nvidia_nccl", "NCCL version "},
    {"libnccl-net", NULL, NULL},
    {"libcublas", "nvidia_cublas", NULL},
    {"libcublasLt", "nvidia_cublas", NULL},
    {"libnvrtc", "nvidia_cuda_nvrtc", NULL},
    {"libnvJitLink", "nvidia_nvjitlink", NULL},
    {"libcufft", "nvidia_cufft", NULL},
    {"libcurand", "nvidia_curand", NULL},
    {"libcusolver", "nvidia_cusolver", NULL},
    {"libcusparse", "nvidia_cusparse", NULL},
    {"libcusparseLt", "nvidia_cusparselt", NULL},
    {"libnvshmem_host", "nvidia_nvshmem", NULL},
    {"libgdrapi", NULL, NULL},
    {"libibverbs", NULL, NULL},
    {"libmlx5", NULL, NULL},
    {"libucp", NULL, NULL},
    {"libfabric", NULL, NULL},
    {"libmpi", NULL, NULL},
};

/* ---- one library ---- */

static int is_version(const char *s)
{
    return *s >= '0' && *s <= '9' && strspn(s, "0123456789.") == strlen(s);
}

/* What follows "libcudart.so.", or NULL. */
static const char *version_of_name(const char *file, const struct library *lib)
{
    size_t n = strlen(lib->name);
    return strncmp(file, lib->name, n) == 0 && strncmp(file + n, ".so.", 4) == 0 && is_version(file + n + 4)
               ? file + n + 4
               : NULL;
}

/* "nvidia_cuda_runtime_cu12-12.4.127.dist-info" -> "12.4.127" */
static char *version_of_package(const struct rp_dirlist *packages, const struct library *lib)
{
    size_t n = lib->package ? strlen(lib->package) : 0;
    for (int i = 0; n && i < packages->n; i++) {
        const char *name = packages->name[i], *dash = strchr(name, '-'), *end = strstr(name, ".dist-info");
        if (strncmp(name, lib->package, n) == 0 && dash && end && end > dash &&
            (name + n == dash ||
             (strncmp(name + n, "_cu", 3) == 0 && strspn(name + n + 3, "0123456789") == (size_t)(dash - name) - n - 3)))
            return rp_asprintf("%.*s", (int)(end - dash - 1), dash + 1);
    }
    return NULL;
}

static void set_text(json_t *obj, const char *key, const char *text)
{
    if (text && *text)
        json_object_set_new(obj, key, json_string(text));
}

/* {"file", "path", "found_by", "size", "version", "version_from", "build_id", "sha256"}; only what is known. */
static json_t *describe_library(const struct rp_probe *p, const struct library *lib, const char *path, int64_t *budget)
{
    char id[RP_BUILD_ID], text[64], hidden[RP_HIDDEN], hex[RP_SHA256_HEX];
    struct rp_err ignored;
    enum rp_state state;
    const char *detail;
    struct stat st;
    RP_FD fd = rp_probe_open(p, path, &state, &detail);
    if (fd < 0 || fstat(fd, &st) < 0)
        return NULL;
    json_t *obj = json_object();
    if (rp_is_secret("LD_", path)) {
        path = rp_credential;
    } else if (rp_is_identity(path) && !p->opts->identify) {
        rp_hide_as(p, "cuda.path", path, hidden);
        path = hidden;
    }
    set_text(obj, "path", path);
    json_object_set_new(obj, "size", json_integer(st.st_size));
    if (rp_elf_build_id(fd, id) == 0)
        set_text(obj, "build_id", id);
    if (lib->mark && rp_elf_find(fd, lib->mark, " ", text, sizeof text) == 0) {
        set_text(obj, "version", text);
        set_text(obj, "version_from", "text in the file");
    }
    if (p->opts->digests || (st.st_size <= small_file && st.st_size <= *budget)) {
        *budget -= st.st_size;
        if (rp_sha256_fd(hex, fd, path, NULL, &ignored) == 0)
            set_text(obj, "sha256", hex);
    }
    return obj;
}

/* ---- all of them ---- */

struct libcuda_search {
    const struct rp_probe *p;
    struct rp_libraries dirs;
    json_t *all;              /* what was found, in order */
    int64_t budget;           /* bytes still to be hashed */
    char *site;               /* the directory of packages read last, */
    struct rp_dirlist packages; /* and what is in it */
};

/* The version of the package that brought the file, or NULL. */
static char *packaged_version(struct libcuda_search *s, const char *place, const struct library *lib)
{
    size_t n = (size_t)(strrchr(place, '/') - place);
    for (int i = 0; i < s->dirs.n; i++) {
        const char *site = s->dirs.dir[i].packages;
        if (!site || strlen(s->dirs.dir[i].path) != n || strncmp(s->dirs.dir[i].path, place, n) != 0)
            continue;
        if (!s->site || strcmp(s->site, site) != 0) {
            free(s->site);
            rp_dirlist_free(&s->packages);
            s->site = rp_strdup(site);
            rp_dirlist_read(&s->packages, s->p, site, MAX_NAMES);
        }
        return version_of_package(&s->packages, lib);
    }
    return NULL;
}

static int is_known(const json_t *all, const char *place)
{
    for (size_t i = 0; i < json_array_size(all); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(all, i), "place")), place) == 0)
            return 1;
    return 0;
}

/* A file is taken once, under the first name that leads to it. The version: as exact as the file's own name, else its
 * package's, else what stands in it. */
static void add_library(struct libcuda_search *s, const struct rp_library_dir *dir, const char *file,
                        const struct library *lib)
{
    char place[PATH_MAX];
    RP_FREE char *path = rp_asprintf("%s/%s", dir->path, file);
    if (json_array_size(s->all) >= MAX_LIBRARIES || rp_resolve(s->p->root, path, 1, place, NULL, NULL) < 0 ||
        is_known(s->all, place))
        return;
    json_t *obj = describe_library(s->p, lib, place, &s->budget);
    if (!obj)
        return;
    const char *of_real = version_of_name(strrchr(place, '/') + 1, lib), *of_link = version_of_name(file, lib);
    const char *named = of_real ? of_real : of_link;
    RP_FREE char *packaged = packaged_version(s, place, lib);
    if (named && strchr(named, '.')) {
        set_text(obj, "version", named);
        set_text(obj, "version_from", "name of the file");
    } else if (packaged) {
        set_text(obj, "version", packaged);
        set_text(obj, "version_from", "package");
    } else if (named && !json_object_get(obj, "version")) {
        set_text(obj, "version", named);
        set_text(obj, "version_from", "name of the file");
    }
    set_text(obj, "file", file);
    set_text(obj, "found_by", dir->found_by);
    set_text(obj, "place", place);
    json_array_append_new(s->all, obj);
}

/* A list of them in the order of the search. The name without a version is for linkers and counts only if there is no
 * other. */
static json_t *ask_libraries(const struct rp_probe *p, const char *arg)
{
    struct rp_probe quiet = *p;
    struct libcuda_search s = {.p = &quiet, .all = json_array(), .budget = small_sum};
    (void)arg;
    quiet.record = NULL;
    rp_libraries_find(&s.dirs, &quiet);
    for (int i = 0; i < s.dirs.n; i++) {
        RP_DIRLIST files = {0};
        rp_dirlist_read(&files, &quiet, s.dirs.dir[i].path, MAX_NAMES);
        for (size_t k = 0; k < sizeof libraries / sizeof *libraries; k++) {
            size_t n = strlen(libraries[k].name);
            const char *plain = NULL;
            int versioned = 0;
            for (int j = 0; j < files.n; j++)
                if (version_of_name(files.name[j], &libraries[k])) {
                    add_library(&s, &s.dirs.dir[i], files.name[j], &libraries[k]);
                    versioned = 1;
                } else if (strncmp(files.name[j], libraries[k].name, n) == 0 && strcmp(files.name[j] + n, ".so") == 0)
                    plain = files.name[j];
            if (plain && !versioned)
                add_library(&s, &s.dirs.dir[i], plain, &libraries[k]);
        }
    }
    rp_dirlist_free(&s.packages);
    free(s.site);
    rp_libraries_free(&s.dirs);
    for (size_t k = 0; k < json_array_size(s.all); k++)
        json_object_del(json_array_get(s.all, k), "place");
    return s.all;
}

/* ---- into the document ---- */

/* The answer may come from an untrusted record. */
static void put_library(json_t *all, const json_t *answer)
{
    static const char places[] = "the loader's directories, CUDA toolkits, Python packages";
    RP_READ(library_answer, library, answer);
    const char *from = rp_text_or_empty(library.version_from);
    char key[80];
    if (!library.file || strlen(library.file) > 60 || strncmp(library.file, "lib", 3) != 0)
        return;
    snprintf(key, sizeof key, "%s", library.file);
    for (int i = 2; json_object_get(all, key); i++) /* further copies, in the order of the search */
        snprintf(key, sizeof key, "%s#%d", library.file, i);
    json_t *obj = json_object();
    rp_put_str(obj, "path", library.path, places);
    rp_put_str(obj, "found_by", library.found_by, places);
    rp_put_str(obj, "version", library.version, *from ? from : "name of the file");
    rp_put_str(obj, "build_id", library.build_id, "NT_GNU_BUILD_ID of the file");
    if (library.size != RP_NO_INTEGER)
        rp_put_int(obj, "size", library.size, "fstat(2)", "B");
    else
        rp_put_absent(obj, "size", "fstat(2)");
    /* large files are hashed with --digests only; a value that was not captured is not absent */
    if (library.sha256)
        rp_put_str(obj, "sha256", library.sha256, "bytes of the file");
    json_object_set_new(all, key, obj);
}

/* version.json of a toolkit since 11.1: {"cuda": {"version": "12.4.1"}, ...}; before, version.txt: "CUDA
 * Version 10.1.243". */
static void put_toolkits(struct rp_probe *p)
{
    RP_DIRLIST d = {0};
    struct rp_probe quiet = *p;
    quiet.record = NULL; /* the other contents of /usr/local are private */
    json_t *all = json_object();
    rp_dirlist_read(&d, &quiet, "/usr/local", MAX_NAMES);
    for (int i = 0; i < d.n; i++) {
        char path[128];
        struct rp_err err;
        if (strncmp(d.name[i], "cuda", 4) != 0 || strlen(d.name[i]) > 32 ||
            strspn(d.name[i] + 4, "-.0123456789") != strlen(d.name[i]) - 4)
            continue;
        snprintf(path, sizeof path, "/usr/local/%s", d.name[i]);
        if (!rp_probe_exists(p, path)) /* which notes that it is there */
            continue;
        snprintf(path, sizeof path, "/usr/local/%s/version.json", d.name[i]);
        RP_TEXT t;
        rp_text_read(&t, p, path);
        if (t.state == RP_STATE_OK) {
            RP_JSON *doc = rp_json_parse(t.bytes.data, t.bytes.size, path, &err);
            const char *version = json_string_value(json_object_get(json_object_get(doc, "cuda"), "version"));
            if (version)
                rp_put_str(all, d.name[i], version, path);
            else
                rp_put(all, d.name[i], RP_STATE_ERROR, NULL, path, NULL, "no version in it");
            continue;
        }
        RP_TEXT old;
        rp_text_read(&old, p, RP_FORMAT(path, "/usr/local/%s/version.txt", d.name[i]));
        RP_FREE char *version = rp_text_field(&old, "CUDA Version", ' ');
        rp_put_found(all, d.name[i], version, &old);
    }
    json_object_set_new(p->out, "toolkits", all);
}

void rp_probe_cuda(struct rp_probe *p)
{
    RP_JSON *answer = rp_probe_query_files(p, "libraries", ask_libraries);
    json_t *all = json_object();
    for (size_t i = 0; i < json_array_size(answer) && i < MAX_LIBRARIES; i++)
        put_library(all, json_array_get(answer, i));
    json_object_set_new(p->out, "libraries", all);
    put_toolkits(p);
}
