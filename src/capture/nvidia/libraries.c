#include "capture/nvidia/libraries.h"

#include "capture/privacy/variables.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DIRS = 256, MAX_INCLUDES = 64, MAX_NAMES = 4096 };

static const char *const usual[] = {"/lib/x86_64-linux-gnu",
                                    "/usr/lib/x86_64-linux-gnu",
                                    "/lib/aarch64-linux-gnu",
                                    "/usr/lib/aarch64-linux-gnu",
                                    "/lib64",
                                    "/usr/lib64",
                                    "/lib",
                                    "/usr/lib"};
static const char *const vendor[] = {"/usr/local/nvidia/lib64",
                                     "/usr/local/nvidia/lib",
                                     "/usr/lib/wsl/lib",
                                     "/usr/lib/aarch64-linux-gnu/nvidia", /* of JetPack, and before 6 */
                                     "/usr/lib/aarch64-linux-gnu/tegra",
                                     "/opt/hpcx/ucx/lib",
                                     "/opt/amazon/efa/lib",
                                     "/opt/amazon/openmpi/lib"};

/* Live, what the process has; of a recorded machine, what its record shows. */
static char *variable_of(const struct rp_probe *p, const char *name)
{
    if (p->live)
        return getenv(name) ? rp_strdup(getenv(name)) : NULL;
    RP_TEXT t;
    rp_environ_read(&t, p);
    const char *v = rp_environ_get(&t, name);
    return v ? rp_strdup(v) : NULL;
}

static void add_dir(struct rp_libraries *l, const struct rp_probe *p, const char *path, const char *found_by,
                    const char *packages)
{
    char place[PATH_MAX];
    if (path[0] != '/' || l->n == MAX_DIRS || rp_resolve(p->root, path, 1, place, NULL, NULL) < 0)
        return;
    for (int i = 0; i < l->n; i++)
        if (strcmp(l->dir[i].path, place) == 0) {
            if (packages && !l->dir[i].packages)
                l->dir[i].packages = rp_strdup(packages);
            return;
        }
    if (rp_probe_exists(p, place))
        l->dir[l->n++] = (struct rp_library_dir){rp_strdup(place), found_by, packages ? rp_strdup(packages) : NULL};
}

static void add_configured(struct rp_libraries *l, const struct rp_probe *p, const char *file, int *left);

/* "include /etc/ld.so.conf.d/[*].conf": every .conf of the directory, or the file itself */
static void add_included(struct rp_libraries *l, const struct rp_probe *p, char *pattern, int *left)
{
    RP_DIRLIST d = {0};
    char *star = strchr(pattern, '*'), *slash = strrchr(pattern, '/');
    if (!star) {
        add_configured(l, p, pattern, left);
        return;
    }
    if (!slash || slash > star)
        return;
    *slash = 0;
    rp_dirlist_read(&d, p, pattern, MAX_NAMES);
    for (int i = 0; i < d.n; i++) {
        size_t n = strlen(d.name[i]);
        RP_FREE char *file = rp_asprintf("%s/%s", pattern, d.name[i]);
        if (n > 5 && strcmp(d.name[i] + n - 5, ".conf") == 0)
            add_configured(l, p, file, left);
    }
}

static void add_configured(struct rp_libraries *l, const struct rp_probe *p, const char *file, int *left)
{
    char *at = NULL;
    if ((*left)-- <= 0)
        return;
    RP_TEXT t;
    rp_text_read(&t, p, file);
    for (char *line; (line = rp_text_line(&t, &at));) {
        line[strcspn(line, "#")] = 0;
        RP_FREE char *word = rp_trimmed(line, strlen(line));
        if (strncmp(word, "include", 7) == 0 && (word[7] == ' ' || word[7] == '\t'))
            add_included(l, p, word + 7 + strspn(word + 7, " \t"), left);
        else
            add_dir(l, p, word, "ld.so.conf", NULL);
    }
}

/* /usr/local/cuda-12.4/lib64 and the like; pip's own toolkit has its packages next to lib. */
static void add_toolkits(struct rp_libraries *l, const struct rp_probe *p)
{
    static const char *const below[] = {"lib64", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib", "lib"};
    RP_DIRLIST d = {0};
    rp_dirlist_read(&d, p, "/usr/local", MAX_NAMES);
    for (int i = 0; i < d.n; i++)
        for (size_t k = 0; k < sizeof below / sizeof *below && strncmp(d.name[i], "cuda", 4) == 0; k++) {
            RP_FREE char *path = rp_asprintf("/usr/local/%s/%s", d.name[i], below[k]);
            RP_FREE char *packages = rp_asprintf("/usr/local/%s/dist-info", d.name[i]);
            add_dir(l, p, path, "toolkit", packages);
        }
}

/* SITE/nvidia/NAME/lib and SITE/torch/lib of the Python installations below PREFIX/lib. */
static void python_packages(struct rp_libraries *l, const struct rp_probe *p, const char *prefix)
{
    static const char *const sites[] = {"site-packages", "dist-packages"};
    RP_DIRLIST versions = {0};
    RP_FREE char *lib = rp_asprintf("%s/lib", prefix);
    rp_dirlist_read(&versions, p, lib, MAX_NAMES);
    for (int i = 0; i < versions.n; i++)
        for (int k = 0; k < 2 && strncmp(versions.name[i], "python3", 7) == 0; k++) {
            RP_FREE char *site = rp_asprintf("%s/%s/%s", lib, versions.name[i], sites[k]),
                         *nvidia = rp_asprintf("%s/nvidia", site);
            RP_DIRLIST packages = {0};
            rp_dirlist_read(&packages, p, nvidia, MAX_NAMES);
            for (int j = 0; j < packages.n; j++) {
                RP_FREE char *path = rp_asprintf("%s/%s/lib", nvidia, packages.name[j]);
                add_dir(l, p, path, "python", site);
            }
            RP_FREE char *torch = rp_asprintf("%s/torch/lib", site);
            add_dir(l, p, torch, "python", site);
        }
}

/* The installation of the python3 that a shell would start: three parts above its file, where no link of an environment
 * is followed. */
static void started_python(struct rp_libraries *l, const struct rp_probe *p)
{
    RP_FREE char *path = variable_of(p, "PATH");
    char *save = NULL;
    for (char *dir = path ? strtok_r(path, ":", &save) : NULL; dir; dir = strtok_r(NULL, ":", &save)) {
        RP_FREE char *python = rp_asprintf("%s/python3", dir);
        char *slash = strrchr(dir, '/');
        if (dir[0] != '/' || !rp_probe_exists(p, python))
            continue;
        if (slash > dir && strcmp(slash, "/bin") == 0) {
            *slash = 0;
            python_packages(l, p, dir);
        }
        return;
    }
}

void rp_libraries_find(struct rp_libraries *l, const struct rp_probe *p)
{
    static const char *const homes[][2] = {{"VIRTUAL_ENV", ""}, {"CONDA_PREFIX", ""}, {"HOME", "/.local"}};
    static const char *const prefixes[] = {"/opt/conda", "/opt/venv", "/usr/local", "/usr"};
    int files = MAX_INCLUDES;
    *l = (struct rp_libraries){.dir = rp_alloc(MAX_DIRS * sizeof *l->dir)};
    RP_FREE char *first = variable_of(p, "LD_LIBRARY_PATH");
    char *save = NULL;
    for (char *d = first ? strtok_r(first, ":;", &save) : NULL; d; d = strtok_r(NULL, ":;", &save))
        add_dir(l, p, d, "LD_LIBRARY_PATH", NULL);
    add_configured(l, p, "/etc/ld.so.conf", &files);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        add_dir(l, p, usual[i], "default", NULL);
    for (size_t i = 0; i < sizeof vendor / sizeof *vendor; i++)
        add_dir(l, p, vendor[i], "toolkit", NULL);
    add_toolkits(l, p);
    started_python(l, p);
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        RP_FREE char *v = variable_of(p, homes[i][0]), *prefix = v ? rp_asprintf("%s%s", v, homes[i][1]) : NULL;
        RP_FREE char *lib = prefix && i == 1 ? rp_asprintf("%s/lib", prefix) : NULL;
        if (prefix)
            python_packages(l, p, prefix);
        if (lib)
            add_dir(l, p, lib, "conda", NULL);
    }
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        python_packages(l, p, prefixes[i]);
    add_dir(l, p, "/opt/conda/lib", "conda", NULL);
}

void rp_libraries_free(struct rp_libraries *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->dir[i].path);
        free(l->dir[i].packages);
    }
    free(l->dir);
    *l = (struct rp_libraries){0};
}
