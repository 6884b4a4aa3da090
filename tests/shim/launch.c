/* Modules, launches and graphs of the tests' libcuda. */
#include "tests/shim/driver.h"
#include "tests/shim/tensor_map.h"

#include <stdio.h>
#include <stdlib.h>

struct CUgraph_st {
    struct shim_work *node;
    size_t nodes, space;
    int gone;   /* destroyed */
    long users; /* executable graphs made from it, and the host until it is destroyed */
};
struct CUgraphExec_st {
    struct shim_work *node;
    size_t nodes;
    CUgraph graph;
    uint64_t bytes;
};

/* ---- kernels ---- */

struct CUfunc_st {
    char name[64];
    struct CUfunc_st *next;
    size_t shared;
    CUmodule module;
};
struct CUmod_st {
    struct CUfunc_st *functions;
    uint64_t bytes; /* that it has taken */
};

/* What the driver takes for itself; 0: there is no room. */
static int take_own(uint64_t *bytes)
{
    uint64_t own = shim_number("SHIM_OWN", 0);
    if (*bytes || !own)
        return 1;
    if (own > shim_free())
        return 0;
    shim_used += *bytes = own;
    return 1;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    ENTER_CONTEXT;
    const char *wrong = shim_module(image);
    if (wrong) {
        fprintf(stderr, "shim: %s\n", wrong);
        return CUDA_ERROR_INVALID_IMAGE;
    }
    const char *when = getenv("CUDA_MODULE_LOADING");
    CUmodule m = calloc(1, sizeof *m);
    if (!m || (when && strcmp(when, "EAGER") == 0 && !take_own(&m->bytes))) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *module = m;
    shim_held[MODULE]++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    GIVE_BACK;
    if (!shim_broken && shim_is_busy())
        return shim_misused("a module is unloaded while work is queued");
    while (module->functions) {
        struct CUfunc_st *f = module->functions;
        module->functions = f->next;
        free(f);
    }
    shim_used -= module->bytes;
    free(module);
    shim_held[MODULE]--;
    return entered_;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    ENTER_CONTEXT;
    if (strncmp(name, "rp_", 3) != 0 || !shim_args_size(name + 3))
        return CUDA_ERROR_NOT_FOUND;
    struct CUfunc_st *f = calloc(1, sizeof *f);
    snprintf(f->name, sizeof f->name, "%s", name + 3);
    f->next = module->functions;
    f->shared = 49152;
    f->module = module;
    module->functions = f;
    *function = f;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute which, int value)
{
    ENTER_CONTEXT;
    if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > shim_shared_most())
        return CUDA_ERROR_INVALID_VALUE;
    f->shared = (size_t)value;
    return CUDA_SUCCESS;
}

/* A launch as work, or an error where no driver would take it. */
static CUresult set_launch(struct shim_work *w, CUfunction f, struct shim_dim grid, struct shim_dim block,
                           size_t shared, void **parameters, void **extra)
{
    if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
        block.x * block.y * block.z > 1024 || shared > f->shared || extra || !parameters)
        return CUDA_ERROR_INVALID_VALUE;
    if (!take_own(&f->module->bytes)) /* loaded at the first launch, unless it was before */
        return CUDA_ERROR_OUT_OF_MEMORY;
    *w = (struct shim_work){.kind = LAUNCH, .kernel = f->name, .grid = grid, .block = block, .shared = shared};
    memcpy(w->args, parameters[0], shim_args_size(f->name));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **parameters, void **extra)
{
    ENTER_CONTEXT;
    struct shim_work w;
    CUresult r =
        set_launch(&w, f, (struct shim_dim){gx, gy, gz}, (struct shim_dim){bx, by, bz}, shared, parameters, extra);
    return r == CUDA_SUCCESS ? shim_submit(stream, &w) : r;
}

/* ---- tensor maps ---- */

/* Matrices of numbers of 16 bits, boxes of lines of 128 bytes, swizzled; what NVIDIA's driver refuses of these is
 * refused. */
EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *from,
                                       const cuuint64_t *numbers, const cuuint64_t *pitch, const cuuint32_t *box,
                                       const cuuint32_t *step, CUtensorMapInterleave interleave,
                                       CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                       CUtensorMapFloatOOBfill fill)
{
    ENTER_CONTEXT;
    (void)promotion;
    if (shim_number("SHIM_TENSOR_MAPS", 1) == 0)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (type != CU_TENSOR_MAP_DATA_TYPE_UINT16 || rank != 2 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE || step[0] != 1 ||
        step[1] != 1 || (uintptr_t)map % 64)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)from % 16 || pitch[0] % 16 || pitch[0] >= (cuuint64_t)1 << 40 || numbers[0] < 1 || numbers[1] < 1 ||
        numbers[0] > (cuuint64_t)1 << 32 || numbers[1] > (cuuint64_t)1 << 32 || box[0] < 1 || box[0] * 2 > 128 ||
        box[1] < 1 || box[1] > 256)
        return CUDA_ERROR_INVALID_VALUE;
    const struct shim_tensor_map made = {
        SHIM_TENSOR_MAP, (uintptr_t)from, {numbers[0], numbers[1]}, pitch[0], {box[0], box[1]}};
    memset(map, 0, sizeof *map);
    memcpy(map, &made, sizeof made);
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

static CUresult set_node(struct shim_work *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct shim_dim grid = {p->gridDimX, p->gridDimY, p->gridDimZ}, block = {p->blockDimX, p->blockDimY, p->blockDimZ};
    return set_launch(w, p->func, grid, block, p->sharedMemBytes, p->kernelParams, p->extra);
}

static void leave(CUgraph g)
{
    if (--g->users)
        return;
    free(g->node);
    free(g);
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags)
{
    ENTER_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = calloc(1, sizeof **graph);
    (*graph)->users = 1;
    shim_held[GRAPH]++;
    return CUDA_SUCCESS;
}

/* Nodes depend on the one before, so that they run in the order in which they were added; a node is its number from
 * 1. */
EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph g, const CUgraphNode *before, size_t n,
                                        const CUDA_KERNEL_NODE_PARAMS *p)
{
    ENTER_CONTEXT;
    struct shim_work w;
    if (n != (g->nodes != 0) || (n && (size_t)(uintptr_t)*before != g->nodes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = set_node(&w, p);
    if (r != CUDA_SUCCESS)
        return r;
    if (g->nodes == g->space) {
        g->space = g->space ? 2 * g->space : 64;
        g->node = realloc(g->node, g->space * sizeof *g->node);
        if (!g->node)
            abort();
    }
    g->node[g->nodes++] = w;
    *node = (CUgraphNode)(uintptr_t)g->nodes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    ENTER_CONTEXT;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphExec_st *x = malloc(sizeof *x);
    if (!x)
        abort();
    *x = (struct CUgraphExec_st){malloc(graph->nodes * sizeof *x->node), graph->nodes, graph, 0};
    if (!x->node || !take_own(&x->bytes)) {
        free(x->node);
        free(x);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(x->node, graph->node, graph->nodes * sizeof *x->node);
    graph->users++;
    *exec = x;
    shim_held[EXEC]++;
    return CUDA_SUCCESS;
}

/* What was launched before keeps its arguments. The node is one of the graph, which has to be there still. */
EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    ENTER_CONTEXT;
    size_t i = (size_t)(uintptr_t)node - 1;
    if (exec->graph->gone || i >= exec->nodes || strcmp(exec->node[i].kernel, p->func->name) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return set_node(&exec->node[i], p);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    ENTER_CONTEXT;
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < exec->nodes && r == CUDA_SUCCESS; i++)
        r = shim_submit(stream, &exec->node[i]);
    return r;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    GIVE_BACK;
    graph->gone = 1;
    leave(graph);
    shim_held[GRAPH]--;
    return entered_;
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    GIVE_BACK;
    leave(exec->graph);
    shim_used -= exec->bytes;
    free(exec->node);
    free(exec);
    shim_held[EXEC]--;
    return entered_;
}
