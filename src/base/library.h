/* Libraries of a driver, loaded at run time.
 *
 * What:    finds one library by its name: by the loader's search, else in folders of drivers that the loader does not
 *          search.
 * Flow:    rp_library_open("libcuda.so.1") -> a handle for dlsym(), or NULL and dlerror() with the message of the
 *          loader's search.
 * Owner:   the caller; drivers' libraries are never closed.
 * Extend:  a folder is a word of RP_LIBRARY_FOLDERS.
 *
 * Inline, because only programs with glibc can load libraries, and the static one is built from every .c file of this
 * folder.
 */
#pragma once

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

/* Kubernetes' device plugins mount the first; container runtimes the second, whose cache of the loader may be an older
 * one; WSL; NixOS. */
#ifndef RP_LIBRARY_FOLDERS
#define RP_LIBRARY_FOLDERS \
    "/usr/local/nvidia/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/wsl/lib", "/run/opengl-driver/lib"
#endif

static inline void *rp_library_open(const char *name)
{
    static const char *const folders[] = {RP_LIBRARY_FOLDERS};
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !library; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s", folders[i], name);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL); /* again, so that dlerror() is about the name */
}
