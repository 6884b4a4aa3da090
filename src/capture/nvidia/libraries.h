/* Where a program's libraries may lie: the loader's directories in its order, then those that programs add themselves.
 *
 * What:    the list of directories, each once, with how it got there.
 * Flow:    LD_LIBRARY_PATH, /etc/ld.so.conf and what it includes, the usual directories; then CUDA toolkits, Python
 *          packages, conda.
 * Owner:   struct rp_libraries owns its texts.
 * Extend:  another place is a row in libraries.c.
 *
 * Lists of directories are personal and large: call it with a probe that records nothing.
 */
#pragma once

#include "capture/probe.h"

struct rp_library_dir {
    char *path;           /* without links */
    const char *found_by; /* "LD_LIBRARY_PATH", "ld.so.conf", "default", "toolkit", "python" */
    char *packages;       /* directory with the *.dist-info of its packages, or NULL */
};
struct rp_libraries {
    struct rp_library_dir *dir;
    int n;
};

void rp_libraries_find(struct rp_libraries *l, const struct rp_probe *p);
void rp_libraries_free(struct rp_libraries *l);
