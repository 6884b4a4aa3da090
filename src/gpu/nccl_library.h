/* NCCL, loaded at run time from the container.
 *
 * What:    a table of the functions that the communicator calls, and the version in words.
 * Flow:    rp_nccl_load() -> struct rp_nccl; n->ncclSend(...) -> a result of NCCL, 0 for success.
 * Owner:   the library stays loaded.
 * Extend:  a function is a row of RP_NCCL_FUNCTIONS with the types of nccl.h; one that NCCL 2.14 lacks needs a higher
 *          RP_NCCL_OLDEST.
 *
 * No header of NCCL is needed: the values below have been the same since 2.14, the first version with communicators
 * that do not block.
 */
#pragma once

#include "base/err.h"

#include <cuda.h>
#include <stddef.h>

#define RP_NCCL_OLDEST 21400

enum {
    RP_NCCL_OK, RP_NCCL_CUDA, RP_NCCL_SYSTEM, RP_NCCL_INTERNAL, RP_NCCL_ARGUMENT, RP_NCCL_USAGE, RP_NCCL_REMOTE,
    RP_NCCL_IN_PROGRESS
};
enum { RP_NCCL_INT8 = 0 };

struct rp_nccl_id {
    unsigned char bytes[128];
};
/* ncclConfig_t as of 2.14; later versions take the fields that it lacks from their defaults. */
struct rp_nccl_config {
    size_t size;
    unsigned magic, version;
    int blocking;
};
#define RP_NCCL_CONFIG ((struct rp_nccl_config){sizeof(struct rp_nccl_config), 0xcafebeef, 21403, 0})
_Static_assert(sizeof(struct rp_nccl_config) == 24, "ncclConfig_t of NCCL 2.14");
typedef struct ncclComm *rp_nccl_handle;

#define RP_NCCL_FUNCTIONS(X)                                                                                           \
    X(int, ncclGetVersion, (int *version))                                                                             \
    X(int, ncclGetUniqueId, (struct rp_nccl_id * id))                                                                  \
    X(int, ncclCommInitRankConfig,                                                                                     \
      (rp_nccl_handle * comm, int ranks, struct rp_nccl_id id, int rank, struct rp_nccl_config *config))               \
    X(int, ncclCommGetAsyncError, (rp_nccl_handle comm, int *result))                                                  \
    X(int, ncclCommFinalize, (rp_nccl_handle comm))                                                                    \
    X(int, ncclCommDestroy, (rp_nccl_handle comm))                                                                     \
    X(int, ncclCommAbort, (rp_nccl_handle comm))                                                                       \
    X(int, ncclGroupStart, (void))                                                                                     \
    X(int, ncclGroupEnd, (void))                                                                                       \
    X(int, ncclSend, (const void *data, size_t count, int type, int peer, rp_nccl_handle comm, CUstream stream))       \
    X(int, ncclRecv, (void *data, size_t count, int type, int peer, rp_nccl_handle comm, CUstream stream))             \
    X(const char *, ncclGetErrorString, (int result))                                                                  \
    X(const char *, ncclGetLastError, (rp_nccl_handle comm))

struct rp_nccl {
#define X(type, name, args) type(*name) args;
    RP_NCCL_FUNCTIONS(X)
#undef X
    int version; /* 22005 */
};

/* Loaded once in a process. RP_UNAVAILABLE: no library, or one older than RP_NCCL_OLDEST. */
const struct rp_nccl *rp_nccl_load(struct rp_err *err) rp_must_check;
/* "2.20.5" for 22005, "2.8.4" for 2804. Returns text. */
const char *rp_nccl_version_text(char text[32], int version);
