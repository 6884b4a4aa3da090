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

#define CPUS_MAX 65536 /* numbers of processors, as in threads of run.schema.json */

const json_t *rp_verify_rank(const struct rp_verify_state *s, int64_t rank)
{
    return json_array_get(rp_json_at(s->run, "world/rank"), (size_t)rank);
}

int rp_verify_on_cpu(const struct rp_verify_state *s, int rank)
{
    return strcmp(rp_run_rank_kind(s->run, rank), "cpu") == 0;
}

struct rp_verify_state rp_verify_node(const struct rp_verify_state *s, int node)
{
    struct rp_verify_state one = *s;
    if (node > 0) {
        one.before = node < s->nodes ? s->node[node].before : NULL;
        one.after = node < s->nodes ? s->node[node].after : NULL;
    }
    return one;
}

/* ---- processors ---- */

/* Sets the bits of "0-3,8"; -1 for another form, or a number that is too large. */
static int parse_list(unsigned char *set, const char *list)
{
    while (*list) {
        char *end;
        if (*list < '0' || *list > '9')
            return -1;
        const long first = strtol(list, &end, 10);
        long last = first;
        if (*end == '-' && end[1] >= '0' && end[1] <= '9')
            last = strtol(end + 1, &end, 10);
        if (last < first || last >= CPUS_MAX || (*end && *end != ','))
            return -1;
        for (long i = first; i <= last; i++)
            set[i] = 1;
        list = *end ? end + 1 : end;
    }
    return 0;
}

int rp_verify_processors(const json_t *run, int node, int most)
{
    const json_t *all = rp_json_at(run, "world/rank"), *one;
    RP_FREE unsigned char *set = rp_alloc(CPUS_MAX);
    size_t i;
    int n = 0;
    json_array_foreach((json_t *)all, i, one) {
        const char *cpus = json_string_value(json_object_get(one, "cpus"));
        if (rp_json_integer_at(one, "node") == node && strcmp(rp_run_rank_kind(run, (int)i), "cpu") == 0 && (!cpus || parse_list(set, cpus) < 0))
            return most;
    }
    for (int k = 0; k < CPUS_MAX; k++)
        n += set[k];
    return n && n < most ? n : most;
}

struct places {
    unsigned char *node, *taken, *rank; /* processors: of a node, of its ranks so far, of one rank */
    int *node_of;                       /* [ranks] */
    char (*gpu)[24];                    /* [ranks] addresses of the node's ranks so far */
    int64_t *gpu_of, gpus;              /* [ranks] the first rank at that address */
    int shared;                         /* ranks of a node that share processors, or a GPU */
    char text[160];
};

/* Only of a node that has it. Processors of two ranks may be the same. */
static int check_cpus(struct places *p, const struct rp_verify_state *one, int64_t rank, struct rp_err *err)
{
    const char *own = json_string_value(json_object_get(rp_verify_rank(one, rank), "cpus"));
    const char *online = rp_known_text(json_object_get(one->before, "probes"), "cpu.online");
    if (!own)
        return 0;
    memset(p->rank, 0, CPUS_MAX);
    memset(p->node, 0, CPUS_MAX);
    if (parse_list(p->rank, own) < 0)
        return rp_fail(err, RP_MISMATCH, "'%.40s' are no numbers of processors in ascending ranges", own);
    const int known = online && parse_list(p->node, online) == 0;
    for (int i = 0; i < CPUS_MAX; i++) {
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

static int check_gpu(struct places *p, const struct rp_verify_state *one, int64_t rank, struct rp_err *err)
{
    struct rp_device_info d;
    int64_t at = 0;
    if (rp_device_from_json(&d, json_object_get(rp_verify_rank(one, rank), "device")) < 0 || !*d.pci_address)
        return 0;
    if (check_address(one->before, &d, err) < 0 || check_address(one->after, &d, err) < 0)
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

static int check_memory(const struct rp_verify_state *one, int64_t rank, struct rp_err *err)
{
    const json_t *is = rp_verify_rank(one, rank);
    double total, peak = rp_json_number_at(is, "peak_rss_bytes");
    if (rp_known_number(json_object_get(one->before, "probes"), "memory.total", &total) == 0 && peak > total)
        return rp_fail(err, RP_MISMATCH, "its peak_rss_bytes is %.0f, but its node had %.0f", peak, total);
    const json_t *taken = json_object_get(is, "device_bytes"), *whole = json_object_get(one->run, "device_bytes");
    if (rank == one->ranks.slowest && taken && !(whole && json_equal(taken, whole)))
        return rp_fail(err, RP_MISMATCH, "its device_bytes are not those of run.json, although it is the slowest");
    if (taken && rp_verify_on_cpu(one, (int)rank))
        return rp_fail(err, RP_MISMATCH, "it has device_bytes; the CPU backend has no memory of its own");
    return 0;
}

/* run.json has the most that any rank took. */
static int check_most_memory(const struct rp_verify_state *s, struct rp_err *err)
{
    int64_t most = -1;
    for (int64_t i = 0; i < s->ranks.ranks; i++) {
        const json_t *peak = json_object_get(rp_verify_rank(s, i), "peak_rss_bytes");
        most = json_is_integer(peak) && json_integer_value(peak) > most ? json_integer_value(peak) : most;
    }
    const json_t *is = json_object_get(s->run, "peak_rss_bytes");
    const int64_t peak = json_is_integer(is) ? json_integer_value(is) : -1;
    return peak == most ? 0 : rp_fail(err, RP_MISMATCH, "run.json: peak_rss_bytes is %lld, the most of any rank %lld", (long long)peak,
                                      (long long)most);
}

/* ---- all ranks ---- */

static int check_node(struct places *p, const struct rp_verify_state *s, int node, struct rp_err *err)
{
    const struct rp_verify_state one = rp_verify_node(s, node);
    const json_t *first = json_array_get(rp_json_at(s->run, "world/processes"), 0);
    p->gpus = 0;
    memset(p->taken, 0, CPUS_MAX);
    for (int64_t i = 0; i < s->ranks.ranks; i++) {
        if (p->node_of[i] != node || !one.before || !one.after) /* captures: of a run that failed */
            continue;
        const int set = !first || i < rp_json_integer_at(first, "ranks"); /* other processes may have others */
        if (rp_verify_device_of(&one, json_object_get(rp_verify_rank(s, i), "device"), set, err) < 0 ||
            check_cpus(p, &one, i, err) < 0 || check_gpu(p, &one, i, err) < 0 || check_memory(&one, i, err) < 0)
            return s->nodes > 1 ? rp_wrap(err, "rank %lld on node %d", (long long)i, node) : rp_wrap(err, "rank %lld", (long long)i);
    }
    return 0;
}

int rp_verify_places(const struct rp_verify_state *s, struct rp_check_result *result, struct rp_err *err)
{
    const size_t ranks = (size_t)s->ranks.ranks;
    if (ranks < 2)
        return 0;
    RP_FREE unsigned char *sets = rp_alloc((size_t)3 * CPUS_MAX);
    RP_FREE int *node_of = rp_alloc(ranks * sizeof *node_of);
    RP_FREE char(*gpu)[24] = rp_alloc(ranks * sizeof *gpu);
    RP_FREE int64_t *gpu_of = rp_alloc(ranks * sizeof *gpu_of);
    struct places p = {.node = sets, .taken = sets + CPUS_MAX, .rank = sets + (size_t)2 * CPUS_MAX, .node_of = node_of, .gpu = gpu,
                       .gpu_of = gpu_of};
    const json_t *first = json_object_get(rp_verify_rank(s, 0), "device"), *device = json_object_get(s->run, "device");
    if (check_most_memory(s, err) < 0)
        return -1;
    if (json_is_object(first) && !json_equal(first, device))
        return rp_fail(err, RP_MISMATCH, "'device' of run.json is not that of rank 0");
    for (size_t i = 0; i < ranks; i++)
        node_of[i] = (int)rp_json_integer_at(rp_verify_rank(s, (int64_t)i), "node");
    for (int node = 0; node < s->nodes; node++) {
        const int before = p.shared;
        if (check_node(&p, s, node, err) < 0)
            return -1;
        if (p.shared && !before && s->nodes > 1)
            snprintf(p.text + strlen(p.text), sizeof p.text - strlen(p.text), " of node %d", node);
    }
    return p.shared && result->state == RP_CHECK_PASSED ? rp_check_note(result, "%s: they take turns", p.text) : 0;
}
