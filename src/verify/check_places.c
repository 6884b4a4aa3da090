/* Where ranks ran: devices, processors and memory of each against the captures of its node, and against each other. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "capture/topology/pci.h"
#include "capture/value.h"
#include "run/results.h"
#include "verify/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- processors ---- */

struct places {
    unsigned char *node, *taken, *rank; /* processors: of a node, of its ranks so far, of one rank */
    int *node_of;                       /* [ranks] */
    char (*gpu)[24];                    /* [ranks] addresses of the node's ranks so far */
    int64_t *gpu_of, gpus;              /* [ranks] the first rank at that address */
    int shared;                         /* ranks of a node that share processors, or a GPU */
    char text[160];
};

/* Only of a node that has it. Processors of two ranks may be the same. */
static int check_cpus(struct places *p, const struct rp_run *r, int64_t rank, struct rp_err *err)
{
    const char *own = json_string_value(json_object_get(rp_run_rank(r, rank), "cpus"));
    const char *online = rp_known_text(rp_run_capture(r, rp_run_node_of(r, rank), 0), "probes.cpu.online");
    if (!own)
        return 0;
    memset(p->rank, 0, RP_CPUS_MAX);
    memset(p->node, 0, RP_CPUS_MAX);
    if (rp_cpu_list(p->rank, own) < 0)
        return rp_fail(err, RP_MISMATCH, "'%.40s' are no numbers of processors in ascending ranges", own);
    const int known = online && rp_cpu_list(p->node, online) == 0;
    for (int i = 0; i < RP_CPUS_MAX; i++) {
        if (known && p->rank[i] && !p->node[i])
            return rp_fail(err, RP_MISMATCH, "it could run on processor %d, but its node has the processors %.80s", i, online);
        if (p->rank[i] && p->taken[i] && !p->shared++)
            RP_FORMAT(p->text, "ranks share processor %d", i);
        p->taken[i] |= p->rank[i];
    }
    return 0;
}

/* ---- GPUs ---- */

/* Instances of a divided GPU have its address. */
static int is_instance(const char *name)
{
    return strstr(name, " MIG ") != NULL;
}

/* The captured GPU at that address has the name of the rank's. */
static int check_address(const json_t *capture, const struct rp_device_info *d, struct rp_err *err)
{
    const json_t *devices = rp_group(json_object_get(capture, "probes"), "gpu.devices");
    const char *number;
    char safe[72];
    int listed = 0;
    json_t *gpu;
    json_object_foreach((json_t *)devices, number, gpu) {
        char address[24];
        const char *at = rp_known_text(gpu, "pci_address"), *name = rp_known_text(gpu, "name");
        if (!at || rp_pci_address(address, at) < 0)
            continue;
        listed = 1;
        if (strcmp(address, d->pci_address) != 0)
            continue;
        if (name && strncmp(name, d->name, strlen(name)) != 0)
            return rp_fail(err, RP_MISMATCH, "the captured GPU at %s is '%s', not the one that trained", address, rp_excerpt(safe, name));
        return 0;
    }
    return listed ? rp_fail(err, RP_MISMATCH, "the capture has no GPU at the address %s", d->pci_address) : 0;
}

static int check_gpu(struct places *p, const struct rp_run *r, int64_t rank, struct rp_err *err)
{
    struct rp_device_info d;
    int64_t at = 0;
    if (rp_device_from_json(&d, json_object_get(rp_run_rank(r, rank), "device")) < 0 || !*d.pci_address)
        return 0;
    const int node = rp_run_node_of(r, rank);
    if (check_address(rp_run_capture(r, node, 0), &d, err) < 0 ||
        check_address(rp_run_capture(r, node, 1), &d, err) < 0)
        return -1;
    while (at < p->gpus && strcmp(p->gpu[at], d.pci_address) != 0)
        at++;
    if (at < p->gpus && !is_instance(d.name) && !p->shared++)
        RP_FORMAT(p->text, "ranks %lld and %lld have one GPU, at %s", (long long)p->gpu_of[at], (long long)rank, d.pci_address);
    if (at == p->gpus) {
        memcpy(p->gpu[at], d.pci_address, sizeof p->gpu[at]);
        p->gpu_of[p->gpus++] = rank;
    }
    return 0;
}

/* ---- memory ---- */

static int check_memory(const struct rp_run *r, int64_t rank, struct rp_err *err)
{
    const json_t *is = rp_run_rank(r, rank);
    double total, peak = rp_json_number_at(is, "peak_rss_bytes");
    if (rp_known_number(rp_run_capture(r, rp_run_node_of(r, rank), 0), "probes.memory.total", &total) == 0 &&
        peak > total)
        return rp_fail(err, RP_MISMATCH, "its peak_rss_bytes is %.0f, but its node had %.0f", peak, total);
    const json_t *taken = json_object_get(is, "device_bytes"), *whole = json_object_get(r->json, "device_bytes");
    if (rank == r->ranks.slowest && taken && !(whole && json_equal(taken, whole)))
        return rp_fail(err, RP_MISMATCH, "its device_bytes are not those of run.json, although it is the slowest");
    if (taken && rp_run_on_cpu(r, rank))
        return rp_fail(err, RP_MISMATCH, "it has device_bytes; the CPU backend has no memory of its own");
    return 0;
}

/* run.json has the most that any rank took. */
static int check_most_memory(const struct rp_verify_state *s, struct rp_err *err)
{
    int64_t most = -1;
    for (int64_t i = 0; i < s->run.ranks.ranks; i++) {
        const json_t *peak = json_object_get(rp_run_rank(&s->run, i), "peak_rss_bytes");
        most = json_is_integer(peak) && json_integer_value(peak) > most ? json_integer_value(peak) : most;
    }
    const json_t *is = json_object_get(s->run.json, "peak_rss_bytes");
    const int64_t peak = json_is_integer(is) ? json_integer_value(is) : -1;
    return peak == most ? 0 : rp_fail(err, RP_MISMATCH, "run.json: peak_rss_bytes is %lld, the most of any rank %lld", (long long)peak,
                                      (long long)most);
}

/* ---- all ranks ---- */

static int check_node(struct places *p, const struct rp_verify_state *s, int node, struct rp_check_result *result,
                      struct rp_err *err)
{
    const struct rp_captures *on = &s->run.node[node];
    const json_t *first = json_array_get(rp_json_at(s->run.json, "world/processes"), 0);
    p->gpus = 0;
    memset(p->taken, 0, RP_CPUS_MAX);
    for (int64_t i = 0; i < s->run.ranks.ranks; i++) {
        if (p->node_of[i] != node || !on->before || !on->after) /* captures: of a run that failed */
            continue;
        const int set = !first || i < rp_json_integer_at(first, "ranks"); /* other processes may have others */
        if (rp_verify_rank_device(s, (int)i, set, result, err) < 0 || check_cpus(p, &s->run, i, err) < 0 ||
            check_gpu(p, &s->run, i, err) < 0 || check_memory(&s->run, i, err) < 0)
            return s->run.nodes > 1 ? rp_wrap(err, "rank %lld on node %d", (long long)i, node)
                                    : rp_wrap(err, "rank %lld", (long long)i);
    }
    return 0;
}

int rp_verify_places(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const size_t ranks = (size_t)s->run.ranks.ranks;
    if (ranks < 2)
        return 0;
    RP_FREE unsigned char *sets = rp_alloc((size_t)3 * RP_CPUS_MAX);
    RP_FREE int *node_of = rp_alloc(ranks * sizeof *node_of);
    RP_FREE char(*gpu)[24] = rp_alloc(ranks * sizeof *gpu);
    RP_FREE int64_t *gpu_of = rp_alloc(ranks * sizeof *gpu_of);
    struct places p = {.node = sets,
                       .taken = sets + RP_CPUS_MAX,
                       .rank = sets + (size_t)2 * RP_CPUS_MAX,
                       .node_of = node_of,
                       .gpu = gpu,
                       .gpu_of = gpu_of};
    const json_t *first = json_object_get(rp_run_rank(&s->run, 0), "device"),
                 *device = json_object_get(s->run.json, "device");
    if (check_most_memory(s, err) < 0)
        return -1;
    if (json_is_object(first) && !json_equal(first, device))
        return rp_fail(err, RP_MISMATCH, "'device' of run.json is not that of rank 0");
    for (size_t i = 0; i < ranks; i++)
        node_of[i] = (int)rp_json_integer_at(rp_run_rank(&s->run, (int64_t)i), "node");
    for (int node = 0; node < s->run.nodes; node++) {
        const int before = p.shared;
        if (check_node(&p, s, node, result, err) < 0)
            return -1;
        if (p.shared && !before && s->run.nodes > 1)
            snprintf(p.text + strlen(p.text), sizeof p.text - strlen(p.text), " of node %d", node);
    }
    return p.shared && result->state == RP_CHECK_PASSED ? rp_check_note(result, "%s: they take turns", p.text) : 0;
}
