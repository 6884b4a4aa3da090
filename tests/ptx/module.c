/* Modules of PTX: what a driver is given, or every file of a directory.
 *
 *   PTX_DIR=DIRECTORY    the kernels are those of its files, and of DIRECTORYa: compute_90a; without it those of the
 *                        PTX that the program gives the driver
 */
#include "tests/ptx/ptx.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

const char simt_form[] = "PTX";

void simt_describe(const struct simt_kernel *k, u32 pc, char *out, size_t room)
{
    const struct ptx_insn *i = &k->code[pc];
    const char *line = k->line[i->line] ? k->line[i->line] : "";
    snprintf(out, room, "%s:%d: %s", k->file, i->line, line + strspn(line, " \t"));
}

void simt_fill_registers(struct simt_warp *w)
{
    if (w->kernel->has_proxies) /* parameters are memory, and what grid.c fills does not change between launches */
        ptx_products_begin(w);
}

static void read_directory(const char *path, int is_wanted)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char full[4096];
        if (e->d_name[0] == '.' ||
            strchr(e->d_name, '.')) /* next to the images are the names of their sources and digests */
            continue;
        snprintf(full, sizeof full, "%s/%s", path, e->d_name);
        char *text = simt_read_file(full);
        ptx_read(full, text);
        free(text);
    }
    if (is_wanted && (!d || !simt_kernels))
        simt_refuse("there are no kernels in '%s'", path);
    if (d)
        closedir(d);
}

/* A module that the program loads. NULL, or why it is refused. */
const char *shim_module(const void *image)
{
    const char *directory = simt_setting("DIR");
    if (directory && !simt_kernels) {
        char more[4096];
        read_directory(directory, 1);
        snprintf(more, sizeof more, "%sa", directory);
        read_directory(more, 0);
    } else if (!directory && memcmp(image, "//", 2) == 0)
        ptx_read("module", image);
    else if (!directory)
        return "the program has machine code for this GPU, not PTX: set PTX_DIR, or SHIM_CAPABILITY to one that it has "
               "no machine code for";
    return NULL;
}
