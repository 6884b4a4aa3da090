/* Files of a test in a directory of its own, which vanishes at exit.
 *
 * What:    scratch("name") -> path, put_file() writes one, tree_remove().
 * Owner:   static storage of the test program.
 */
#ifndef RP_TESTS_SCRATCH_H
#define RP_TESTS_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char scratch_dir[64];
static pid_t scratch_owner;

static inline int scratch_remove(const char *path, const struct stat *st, int type, struct FTW *f)
{
    (void)st;
    (void)f;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

static inline void tree_remove(const char *dir)
{
    nftw(dir, scratch_remove, 16, FTW_PHYS | FTW_DEPTH);
}

static inline void scratch_exit(void)
{
    if (getpid() == scratch_owner)
        tree_remove(scratch_dir);
}

/* SCRATCH/name; the text lives until eight calls later. */
static inline const char *scratch(const char *name)
{
    static char path[8][256];
    static int turn;
    if (!*scratch_dir) {
        snprintf(scratch_dir, sizeof scratch_dir, "/tmp/rp-scratch-XXXXXX");
        if (!mkdtemp(scratch_dir))
            abort();
        scratch_owner = getpid();
        atexit(scratch_exit);
    }
    char *p = path[turn++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", scratch_dir, name);
    return p;
}

static inline const char *put_file(const char *name, const void *data, size_t size)
{
    const char *path = scratch(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    return path;
}

#endif
