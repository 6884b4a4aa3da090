/* Where ranks ran: devices, processors and memory of each against the captures of its node, and against each other. */
#include "base/buf.h"
#include "base/text.h"
#include "capture/topology/pci.h"
#include "capture/value.h"
#include "verify/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- processors ---- */

struct places {
    unsigned char *node, *taken, *rank; /* processors: of a node, of its ranks so far, of one rank */
    int *gpu, gpus;                     /* [ranks] the first rank of the node at each address */
    int shared;                         /* ranks of a node that share processors, or a GPU */
    char text[160];
};

/* Only of a node that has it. Processors of two ranks may be the same. */
static int check_cpus(struct places *p, const struct rp_run *r, int rank, struct rp_err *err)
{
    const char *own = r->facts->rank[rank].cpus;
    const char *online = rp_known_text(rp_run_capture(r, (int)r->facts->rank[rank].node, 0), "probes.cpu.online");
    if (!own)
        return 0;
    memset(p->rank, 0, RP_CPUS_MAX);
    memset(p->node, 0, RP_CPUS_MAX);
    for (const char *c = own; *c; c++) /* digits of numbers alone: a list cannot contain others */
        if (*c == '0' && (c == own || c[-1] < '0') && c[1] >= '0')
            return rp_fail(err, RP_MISMATCH, "'%.40s' has numbers of processors with leading zeros", own);
    if (rp_cpu_list(p->rank, own) < 0)
        return rp_fail(err, RP_MISMATCH, "'%.40s' is not a list of processor numbers in ascending ranges", own);
    const int known = online && rp_cpu_list(p->node, online) == 0;
    for (int i = 0; i < RP_CPUS_MAX; i++) {
        if (known && p->rank[i] && !p->node[i])
            return rp_fail(err, RP_MISMATCH, "it could run on processor %d, but its node has the processors %.80s", i,
                           online);
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
static int check_address(const json_t *capture, const struct rp_device_facts *d, struct rp_err *err)
{
    const char *number;
    char safe[72];
    int listed = 0;
    json_t *gpu;
    json_object_foreach((json_t *)rp_group(capture, "probes.gpu.devices"), number, gpu) {
        char address[24];
        const char *at = rp_known_text(gpu, "pci_address"), *name = rp_known_text(gpu, "name");
        if (!at || rp_pci_address(address, at) < 0)
            continue;
        listed = 1;
        if (strcmp(address, d->pci_address) != 0)
            continue;
        if (name && strncmp(name, d->name, strlen(name)) != 0)
            return rp_fail(err, RP_MISMATCH, "the captured GPU at %s is '%s', not the one that trained", address,
                           rp_excerpt(safe, name));
        return 0;
    }
    return listed ? rp_fail(err, RP_MISMATCH, "the capture has no GPU at the address %s", d->pci_address) : 0;
}

/* By address: numbers of GPUs begin at 0 in every process that got some by CUDA_VISIBLE_DEVICES. */
static int check_gpu(struct places *p, const struct rp_run *r, int rank, struct rp_err *err)
{
    const struct rp_rank_facts *ranks = r->facts->rank;
    const struct rp_device_facts *d = ranks[rank].device;
    int at = 0;
    if (!d || !d->pci_address)
        return 0;
    for (int after = 0; after < 2; after++)
        if (check_address(rp_run_capture(r, (int)ranks[rank].node, after), d, err) < 0)
            return -1;
    while (at < p->gpus && strcmp(ranks[p->gpu[at]].device->pci_address, d->pci_address) != 0)
        at++;
    if (at < p->gpus && !is_instance(d->name) && !p->shared++)
        RP_FORMAT(p->text, "ranks %d and %d have one GPU, at %s", p->gpu[at], rank, d->pci_address);
    if (at == p->gpus)
        p->gpu[p->gpus++] = rank;
    return 0;
}

/* Ranks on GPUs of a node count as that many GPUs: two without addresses may have one, which the capture does not
 * contradict. */
static void warn_of_hidden_gpu(const struct rp_run *r, int node, struct rp_check_result *result)
{
    const struct rp_rank_facts *ranks = r->facts->rank;
    int on_gpu = 0, without = -1;
    for (int i = 0; i < r->ranks.ranks; i++) {
        if (ranks[i].node != node || rp_rank_on_cpu(r->facts, i) || !ranks[i].device)
            continue;
        on_gpu++;
        without = without < 0 && !ranks[i].device->pci_address ? i : without;
    }
    if (on_gpu > 1 && without >= 0)
        rp_check_warn(result,
                      "rank %d does not have the address of its GPU, which every GPU has: it may be that of another "
                      "rank",
                      without);
}

/* ---- memory ---- */

/* Ranks that divide the model have parts of the parameters: check_plan.c sizes those. */
static double whole_parameters(const struct rp_run *r)
{
    return r->facts->layout.tensor * r->facts->layout.pipeline > 1 ? 0 : 4 * (double)r->figures->model.parameters;
}

/* What was reserved lies between the size of the parameters and the plan, which is that of the only rank: those of
 * others differ. */
static int check_device_memory(const struct rp_run *r, int rank, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_device_bytes *is = r->facts->rank[rank].device_bytes;
    const double parameters = whole_parameters(r);
    const int64_t total = r->facts->plan.total_bytes;
    if (is && ((r->facts->rank_n == 1 && is->reserved > total) || (double)is->reserved < parameters))
        return rp_fail(err, RP_MISMATCH,
                       "device_bytes/reserved is %" PRId64 "; the plan has %" PRId64 ", of which %.0f are parameters",
                       is->reserved, total, parameters);
    if (!is && rp_facts_complete(r->facts))
        rp_check_warn(result,
                      "facts.json has no rank/%d/device_bytes, the memory taken of the device, which every GPU reports",
                      rank);
    return 0;
}

static int check_memory(const struct rp_run *r, int rank, struct rp_check_result *result, struct rp_err *err)
{
    const struct rp_rank_facts *is = &r->facts->rank[rank];
    const double peak = (double)is->peak_rss_bytes, parameters = whole_parameters(r);
    double total;
    if (rp_known_number(rp_run_capture(r, (int)is->node, 0), "probes.memory.total", &total) == 0 && peak > total)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, but the machine had %.0f", peak, total);
    if (!rp_rank_on_cpu(r->facts, rank))
        return check_device_memory(r, rank, result, err);
    if (is->peak_rss_bytes >= 0 && peak < parameters)
        return rp_fail(err, RP_MISMATCH, "peak_rss_bytes is %.0f, less than the parameters alone, %.0f", peak,
                       parameters);
    if (is->device_bytes)
        return rp_fail(err, RP_MISMATCH, "device_bytes: the CPU backend has no memory of its own");
    return 0;
}

/* ---- all ranks ---- */

static int check_node(struct places *p, const struct rp_verify_state *s, int node, struct rp_check_result *result,
                      struct rp_err *err)
{
    const struct rp_captures *on = &s->run.node[node];
    char who[RP_WHO], where[RP_WHO];
    p->gpus = 0;
    memset(p->taken, 0, RP_CPUS_MAX);
    for (int i = 0; i < s->run.ranks.ranks; i++) {
        if (s->run.facts->rank[i].node != node || !on->before || !on->after) /* captures: of a run that failed */
            continue;
        if (rp_verify_device(s, i, result, err) < 0 || check_cpus(p, &s->run, i, err) < 0 ||
            check_gpu(p, &s->run, i, err) < 0 || check_memory(&s->run, i, result, err) < 0)
            return *rp_run_rank_text(who, &s->run, "", i, rp_run_node_text(where, &s->run, " on ", node, ""))
                       ? rp_wrap(err, "%s", who)
                       : -1;
    }
    return 0;
}

int rp_verify_places(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    RP_FREE unsigned char *sets = rp_alloc((size_t)3 * RP_CPUS_MAX);
    RP_FREE int *gpu = rp_alloc((size_t)s->run.ranks.ranks * sizeof *gpu);
    struct places p = {.node = sets, .taken = sets + RP_CPUS_MAX, .rank = sets + (size_t)2 * RP_CPUS_MAX, .gpu = gpu};
    char where[RP_WHO];
    for (int node = 0; node < s->run.nodes; node++) {
        const int before = p.shared;
        if (check_node(&p, s, node, result, err) < 0)
            return -1;
        warn_of_hidden_gpu(&s->run, node, result);
        if (p.shared && !before)
            snprintf(p.text + strlen(p.text), sizeof p.text - strlen(p.text), "%s",
                     rp_run_node_text(where, &s->run, " of ", node, ""));
    }
    return p.shared && result->state == RP_CHECK_PASSED ? rp_check_note(result, "%s: they take turns", p.text) : 0;
}
