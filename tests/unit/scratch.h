/* Files of a test in a directory of its own, which is removed when the program ends.
 *
 * What:    scratch_dir(); scratch("name") -> a path in it; scratch_new() -> a new directory in it; put_file() writes a
 *          file.
 * Owner:   static storage of the test program. scratch_in may name another place than $TMPDIR before the first call.
 */
#pragma once

#include "tests/unit/tap.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static const char *scratch_in; /* NULL: $TMPDIR, or /tmp */
static char scratch_path[200];
static pid_t scratch_owner;

static inline int scratch_remove(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st, (void)type, (void)f;
    return remove(path);
}

static inline void tree_remove(const char *dir)
{
    nftw(dir, scratch_remove, 16, FTW_PHYS | FTW_DEPTH);
}

static inline void scratch_exit(void)
{
    if (getpid() == scratch_owner)
        tree_remove(scratch_path);
}

/* Other users may pass through it: some tests become nobody. */
static inline const char *scratch_dir(void)
{
    const char *in = scratch_in ? scratch_in : getenv("TMPDIR");
    if (*scratch_path)
        return scratch_path;
    snprintf(scratch_path, sizeof scratch_path, "%s/rp-test-XXXXXX", in && *in ? in : "/tmp");
    if (!mkdtemp(scratch_path) || chmod(scratch_path, 0711) < 0)
        abort();
    tap_hidden = scratch_path;
    scratch_owner = getpid();
    atexit(scratch_exit);
    return scratch_path;
}

/* SCRATCH/name; the text lives until eight calls later. */
static inline const char *scratch(const char *name)
{
    static char path[8][256];
    static int turn;
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", scratch_dir(), name);
    return p;
}

/* A new directory that everybody can read; the text lives until eight calls later. */
static inline const char *scratch_new(void)
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "new%d", number++);
    const char *path = scratch(name);
    if (mkdir(path, 0755) < 0)
        abort();
    return path;
}

static inline const char *put_file(const char *name, const void *data, size_t size)
{
    const char *path = scratch(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    return path;
}
