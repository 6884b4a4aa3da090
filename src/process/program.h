/* An embedded program, made executable.
 *
 * What:    the embedded zstd frame -> its bytes -> a descriptor that can be executed.
 * Flow:    rp_program_gpu(), then rp_program_open() in one way after the other: each may be forbidden by a kernel,
 *          container or mount.
 * Owner:   the caller closes the descriptor. A file in the cache stays for the next run.
 * Extend:  another way is a value of enum rp_program_way and a branch of rp_program_open(); rp_process_start_program()
 *          tries all.
 */
#pragma once

#include "base/buf.h"

enum rp_program_way {
    /* a sealed memfd: nothing is written. Not with vm.memfd_noexec=2, nor where seccomp forbids it */
    RP_PROGRAM_MEMORY,
    /* STORE/NAME-<sha256>, written once, 0700, compared at every use. Not on a file system mounted noexec */
    RP_PROGRAM_FILE,
    RP_PROGRAM_WAYS
};

#define RP_PROGRAM_MAX (256u << 20) /* unpacked */

/* repro-gpu: RP_UNAVAILABLE if this build has none. */
int rp_program_gpu(struct rp_buf *out, struct rp_err *err) rp_must_check;
/* A descriptor of exactly these bytes that no other user can change, at least 10, closed on exec; -1. path: set to the
 * name of the file; may be NULL, and is not touched by RP_PROGRAM_MEMORY. */
int rp_program_open(const struct rp_buf *program, const char *name, enum rp_program_way way, char **path,
                    struct rp_err *err) rp_must_check;
