#include "gpu/nccl_library.h"

#include "base/library.h"

#define REMEDY                                                                                                         \
    "ranks on GPUs exchange through NCCL 2.14 or later: install libnccl2, or nvidia-nccl-cu12 of PyPI and put its "    \
    "folder into "                                                                                                     \
    "LD_LIBRARY_PATH"

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define X(type, name, args) {#name, offsetof(struct rp_nccl, name)},
    RP_NCCL_FUNCTIONS(X)
#undef X
};

const char *rp_nccl_version_text(char text[32], int n)
{
    const int small = n < 10000; /* until 2.8 */
    snprintf(text, 32, "%d.%d.%d", small ? n / 1000 : n / 10000, small ? n / 100 % 10 : n / 100 % 100, n % 100);
    return text;
}

static int load(struct rp_nccl *n, struct rp_err *err)
{
    char text[32];
    int version = 0;
    void *library = rp_library_open("libnccl.so.2");
    if (!library) {
        const char *why = dlerror();
        return rp_fail(err, RP_UNAVAILABLE, "%s; " REMEDY, why ? why : "libnccl.so.2 cannot be loaded");
    }
    *(void **)(void *)&n->ncclGetVersion = dlsym(library, "ncclGetVersion");
    if (!n->ncclGetVersion || n->ncclGetVersion(&version) != RP_NCCL_OK)
        return rp_fail(err, RP_UNAVAILABLE, "libnccl.so.2 does not report its version; " REMEDY);
    if (version < RP_NCCL_OLDEST)
        return rp_fail(err, RP_UNAVAILABLE, "libnccl.so.2 is version %s; " REMEDY, rp_nccl_version_text(text, version));
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f)
            return rp_fail(err, RP_UNAVAILABLE, "libnccl.so.2, version %s, lacks %s; " REMEDY,
                           rp_nccl_version_text(text, version), functions[i].name);
        *(void **)(void *)((char *)n + functions[i].offset) = f;
    }
    n->version = version;
    return 0;
}

const struct rp_nccl *rp_nccl_load(struct rp_err *err)
{
    static struct rp_nccl loaded;
    if (!loaded.version && load(&loaded, err) < 0)
        return NULL;
    return &loaded;
}
