/* Launches that come again and again as one graph.
 *
 * The host looks at the loss before a backward pass and at the norm before an update (NUMERICS.md, Stop), so a step of
 * one micro-batch is three graphs: forward, backward with the norm, update. What changes between two steps are a few
 * arguments: the step that dropout counts with, the learning rate, the scale of the gradient, and how many different
 * words there are. */
#include "backend/cuda/inner.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

#define SHORTEST 8  /* fewer launches go to the stream one by one */
#define GRAPHS 24   /* kept at most; what comes later is launched one by one */

struct graph_launch {
    enum rp_cuda_kernel kernel;
    struct rp_grid grid;
    size_t shared, args; /* args: offset in the list's bytes */
};

struct graph_list {
    struct graph_launch *launch;
    unsigned char *bytes;
    size_t n, room, size, space;
};

struct graph {
    struct graph_list list; /* as the graph has it */
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode *node;
};

struct rp_cuda_graphs {
    struct graph_list list; /* collected since the last flush */
    struct graph graph[GRAPHS];
    int graphs;
};

struct rp_cuda_graphs *rp_cuda_graphs_new(void)
{
    return rp_alloc(sizeof(struct rp_cuda_graphs));
}

static void list_free(struct graph_list *l)
{
    free(l->launch);
    free(l->bytes);
}

static void graph_free(struct rp_cuda *c, struct graph *g)
{
    if (g->exec)
        c->d->cuGraphExecDestroy(g->exec);
    if (g->graph)
        c->d->cuGraphDestroy(g->graph);
    free(g->node);
    list_free(&g->list);
}

void rp_cuda_graphs_free(struct rp_cuda *c)
{
    if (!c->graphs)
        return;
    for (int i = 0; i < c->graphs->graphs; i++)
        graph_free(c, &c->graphs->graph[i]);
    list_free(&c->graphs->list);
    free(c->graphs);
    c->graphs = NULL;
}

void rp_cuda_collect(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared,
                     const void *args)
{
    struct graph_list *l = &c->graphs->list;
    size_t bytes = (rp_cuda_kernels[kernel].args + 15) / 16 * 16;
    if (l->n == l->room) {
        l->room = l->room ? 2 * l->room : 256;
        l->launch = rp_realloc(l->launch, l->room * sizeof *l->launch);
    }
    if (l->size + bytes > l->space) {
        l->space = 2 * (l->space + bytes);
        l->bytes = rp_realloc(l->bytes, l->space);
    }
    l->launch[l->n++] = (struct graph_launch){kernel, grid, shared, l->size};
    memcpy(l->bytes + l->size, args, rp_cuda_kernels[kernel].args);
    l->size += bytes;
}

static int same_shape(const struct graph_list *a, const struct graph_list *b)
{
    if (a->n != b->n)
        return 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->launch[i].kernel != b->launch[i].kernel)
            return 0;
    return 1;
}

static int same_launch(const struct graph_list *a, const struct graph_list *b, size_t i)
{
    const struct graph_launch *x = &a->launch[i], *y = &b->launch[i];
    return x->shared == y->shared && x->grid.x == y->grid.x && x->grid.y == y->grid.y && x->grid.z == y->grid.z &&
           memcmp(a->bytes + x->args, b->bytes + y->args, rp_cuda_kernels[x->kernel].args) == 0;
}

static CUDA_KERNEL_NODE_PARAMS parameters(const struct rp_cuda *c, const struct graph_list *l, size_t i, void *slot[1])
{
    const struct graph_launch *x = &l->launch[i];
    slot[0] = l->bytes + x->args;
    return (CUDA_KERNEL_NODE_PARAMS){.func = c->kernel[x->kernel],
                                     .gridDimX = x->grid.x,
                                     .gridDimY = x->grid.y,
                                     .gridDimZ = x->grid.z,
                                     .blockDimX = rp_cuda_kernels[x->kernel].threads,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .sharedMemBytes = (unsigned)x->shared,
                                     .kernelParams = slot};
}

/* The driver copies arguments when a node is added or changed. */
static CUresult build(struct rp_cuda *c, struct graph *g, const struct graph_list *l)
{
    CUresult r = c->d->cuGraphCreate(&g->graph, 0);
    g->node = rp_alloc(l->n * sizeof *g->node);
    for (size_t i = 0; i < l->n && r == CUDA_SUCCESS; i++) {
        void *slot[1];
        CUDA_KERNEL_NODE_PARAMS p = parameters(c, l, i, slot);
        r = c->d->cuGraphAddKernelNode(&g->node[i], g->graph, i ? &g->node[i - 1] : NULL, i != 0, &p);
    }
    return r == CUDA_SUCCESS ? c->d->cuGraphInstantiate(&g->exec, g->graph, 0) : r;
}

static CUresult change(struct rp_cuda *c, struct graph *g, const struct graph_list *l)
{
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < l->n && r == CUDA_SUCCESS; i++) {
        void *slot[1];
        if (same_launch(l, &g->list, i))
            continue;
        g->list.launch[i] = l->launch[i]; /* the same kernels: the same offsets */
        memcpy(g->list.bytes + l->launch[i].args, l->bytes + l->launch[i].args,
               rp_cuda_kernels[l->launch[i].kernel].args);
        CUDA_KERNEL_NODE_PARAMS p = parameters(c, l, i, slot);
        r = c->d->cuGraphExecKernelNodeSetParams(g->exec, g->node[i], &p);
    }
    return r;
}

/* The graph of this list, made when it is new; NULL where there are too many. */
static struct graph *graph_for(struct rp_cuda *c, CUresult *r)
{
    struct rp_cuda_graphs *all = c->graphs;
    *r = CUDA_SUCCESS;
    for (int i = 0; i < all->graphs; i++)
        if (same_shape(&all->graph[i].list, &all->list)) {
            *r = change(c, &all->graph[i], &all->list);
            return &all->graph[i];
        }
    if (all->graphs == GRAPHS)
        return NULL;
    struct graph *g = &all->graph[all->graphs++];
    *r = build(c, g, &all->list);
    g->list = all->list;
    all->list = (struct graph_list){0};
    return g;
}

void rp_cuda_flush(struct rp_cuda *c)
{
    struct graph_list *l = c->graphs ? &c->graphs->list : NULL;
    if (!l || !l->n)
        return;
    CUresult r = CUDA_SUCCESS;
    struct graph *g = !c->has_failed && l->n >= SHORTEST ? graph_for(c, &r) : NULL;
    if (g && r == CUDA_SUCCESS)
        r = c->d->cuGraphLaunch(g->exec, c->stream);
    if (r != CUDA_SUCCESS)
        rp_cuda_failed(c, r, "launching a graph of kernels");
    for (size_t i = 0; g && r == CUDA_SUCCESS && i < g->list.n; i++)
        c->launches[g->list.launch[i].kernel]++;
    for (size_t i = 0; i < l->n && !g && !c->has_failed; i++)
        rp_cuda_launch_now(c, l->launch[i].kernel, l->launch[i].grid, l->launch[i].shared,
                           l->bytes + l->launch[i].args);
    l->n = l->size = 0;
}

void rp_cuda_launch(struct rp_cuda *c, enum rp_cuda_kernel kernel, struct rp_grid grid, size_t shared, const void *args)
{
    const struct rp_cuda_kernel_info *k = &rp_cuda_kernels[kernel];
    if (c->has_failed || !grid.x || !grid.y || !grid.z)
        return;
    RP_BUG_IF(shared > c->gpu.shared_max);
    if (shared > c->shared_set[kernel]) {
        CUresult r =
            c->d->cuFuncSetAttribute(c->kernel[kernel], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared);
        if (r != CUDA_SUCCESS) {
            rp_cuda_failed(c, r, k->name);
            return;
        }
        c->shared_set[kernel] = shared;
    }
    if (c->graphs)
        rp_cuda_collect(c, kernel, grid, shared, args);
    else
        rp_cuda_launch_now(c, kernel, grid, shared, args);
}
