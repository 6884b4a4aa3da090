#include "launch/launcher.h"

#include "base/buf.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct launcher_row {
    const char *id, *name;
    enum rp_launch_kind kind;
    const char *marks, *rank, *size, *local_rank, *local_size, *node, *nodes, *key;
};
static const struct launcher_row rows[] = {
#define LAUNCHER(row, id, name, kind, ...) {id, name, RP_LAUNCH_##kind, __VA_ARGS__},
#include "launch/launchers.def"
#undef LAUNCHER
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *rp_launch_ids(void)
{
    static const char list[] =
#define LAUNCHER(row, id, ...) "|" id
#define LAUNCHER_ALSO(...)
#include "launch/launchers.def"
#undef LAUNCHER
        ;
    return list + 1;
}

static int is_id(const char *text)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].id, text) == 0)
            return 1;
    return 0;
}

/* Launchers write numbers. Anything else is another program's variable, perhaps a secret: ignored, and not shown. */
static int read_number(const char *variable, int64_t *out)
{
    const char *text = *variable ? getenv(variable) : NULL;
    return text && rp_parse_count(text, out) == 0;
}

static int64_t number_or(const char *variable, int64_t otherwise)
{
    int64_t n;
    return read_number(variable, &n) ? n : otherwise;
}

static int has_marks(const struct launcher_row *r)
{
    for (const char *p = r->marks; *p; p += strspn(p, " ")) {
        char name[64];
        size_t n = strcspn(p, " ");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        if (!getenv(name))
            return 0;
        p += n;
    }
    return 1;
}

/* ---- one process per node ---- */

/* Every pod of an Indexed Job has an index, even if several of them are not meant to be one run. */
static int is_pod(const struct launcher_row *r)
{
    return strncmp(r->marks, "JOB_", 4) == 0;
}

/* A JobSet has several jobs, whose pods are counted from 0 in each. */
static int read_node(const struct launcher_row *r, int64_t *node)
{
    int64_t job, pods;
    if (*r->rank)
        return read_number(r->rank, node);
    if (!read_number("JOB_COMPLETION_INDEX", node) || !read_number("REPRO_JOBSET_INDEX", &job))
        return 0;
    pods = number_or("REPRO_JOBSET_PODS", 1);
    if (pods < 1 || job > INT32_MAX || pods > INT32_MAX || *node > INT32_MAX)
        return 0;
    *node += job * pods;
    return 1;
}

/* PyTorchJob's WORLD_SIZE is replicas times PET_NPROC_PER_NODE, in releases without the second: replicas. "1:4" of an
 * elastic job is not a number. */
static int64_t count_nodes(const struct launcher_row *r, const struct rp_launch_opts *o, int64_t per_node,
                           const char **variable)
{
    int64_t n;
    if (o->nodes > 0) {
        *variable = "--nodes";
        return o->nodes;
    }
    if (read_number(r->size, &n) && n > 0)
        return n;
    *variable = "WORLD_SIZE";
    if (strstr(r->marks, "WORLD_SIZE") && read_number("WORLD_SIZE", &n) && n > 0 &&
        n % (per_node > 0 ? per_node : 1) == 0)
        return per_node > 0 ? n / per_node : n;
    return 0;
}

static int read_nodes(struct rp_launch *l, const struct launcher_row *r, const struct rp_launch_opts *o,
                      struct rp_err *err)
{
    if (!read_node(r, &l->rank))
        return 0;
    int64_t per_node = number_or("PET_NPROC_PER_NODE", 0);
    l->ranks_per_node = o->ranks_per_node > 0 ? o->ranks_per_node : per_node;
    l->size = count_nodes(r, o, per_node, &l->size_variable);
    if (l->size == 0) {
        if (!o->several && is_pod(r)) {
            *l = (struct rp_launch){.size = 1, .row = -1, .local_rank = -1, .node = -1,
                                    .note = "this pod has JOB_COMPLETION_INDEX; --nodes N makes N of them one run"};
            return 1;
        }
        return rp_fail(err, RP_USAGE, "%s does not tell how many nodes the job has: give --nodes, or set %s", r->name,
                       r->size);
    }
    l->node = l->rank;
    l->nodes = l->size;
    return 1;
}

/* ---- one process per rank ---- */

/* There is a rank and no size. Rank 0 may be all there is, as of a program that was started by itself. */
static int without_size(struct rp_launch *l, const struct launcher_row *r, const struct rp_launch_opts *o,
                        struct rp_err *err)
{
    const char *space = getenv("PMIX_NAMESPACE");
    if (space && strncmp(space, "slurm.", 6) == 0) /* srun, whose own variables have told of one task */
        return 0;
    if (o->several || l->rank > 0)
        return rp_fail(err, RP_USAGE,
                       "%s of %s makes this process %" PRId64
                       ", and no variable tells of how many: set one to their number, and give --rank-from %s "
                       "--size-from VARIABLE",
                       r->rank, r->name, l->rank, r->rank);
    *l = (struct rp_launch){
        .size = 1,
        .row = -1,
        .local_rank = -1,
        .node = -1,
        .note =
            "a launcher has set a rank and no number of processes; --rank-from and --size-from make several one run"};
    return 1;
}

static int read_ranks(struct rp_launch *l, const struct launcher_row *r, const struct rp_launch_opts *o,
                      struct rp_err *err)
{
    if (!read_number(r->rank, &l->rank))
        return 0;
    const int sized = read_number(r->size, &l->size);
    if (!sized && *r->size && strstr(r->marks, r->size))
        return 0;
    if (!sized && strcmp(r->id, "mpich") != 0) /* whose process manager tells it */
        return without_size(l, r, o, err);
    /* a task of its own: the step of an interactive shell, or of another launcher */
    if (strcmp(r->id, "srun") == 0 && l->size < 2)
        return 0;
    l->size = sized ? l->size : 0;
    l->local_rank = number_or(r->local_rank, -1);
    l->local_size = number_or(r->local_size, 0);
    l->node = number_or(r->node, -1);
    l->nodes = number_or(r->nodes, 0);
    return 1;
}

/* 1: the variables of the row describe this process. */
static int read_row(struct rp_launch *l, const struct launcher_row *r, const struct rp_launch_opts *o,
                    struct rp_err *err)
{
    *l = (struct rp_launch){.kind = r->kind,
                            .row = (int)(r - rows),
                            .launcher = r->id,
                            .name = r->name,
                            .rank_variable = *r->rank ? r->rank : "REPRO_JOBSET_INDEX",
                            .size_variable = r->size,
                            .key_remedy = r->key,
                            .local_rank = -1,
                            .node = -1};
    if (!has_marks(r))
        return 0;
    int found = r->kind == RP_LAUNCH_NODES ? read_nodes(l, r, o, err) : read_ranks(l, r, o, err);
    if (found == 1 && l->kind != RP_LAUNCH_ALONE && *r->size && l->rank >= l->size)
        return rp_fail(err, RP_USAGE, "%s, set by %s, is %" PRId64 ", expected 0 to %s - 1, which is %" PRId64,
                       l->rank_variable, l->name, l->rank, l->size_variable, l->size - 1);
    return found;
}

/* ---- all of them ---- */

/* Does the outer launcher describe the agent that the inner one has on this node? Then both are right. */
static int is_agent(const struct rp_launch *outer, const struct rp_launch *inner)
{
    return inner->nodes > 0 && outer->rank == inner->node && outer->size == inner->nodes;
}

/* These may have started the daemons of another launcher, or a script that starts one. */
static int starts_daemons(const struct rp_launch *l)
{
    static const char *const ids[] = {"srun", "flux", "jsrun", "pals", "pmix"};
    return RP_IS_IN(ids, l->launcher, strlen(l->launcher));
}

/* Variables of a whole node describe the agent of torchrun. */
static int is_comparable(const struct rp_launch *first, const struct rp_launch *other)
{
    return first->kind == other->kind && other->launcher && !starts_daemons(first) && !starts_daemons(other) &&
           strcmp(first->launcher, other->launcher) != 0;
}

static int compare_rows(struct rp_launch *first, const struct rp_launch *other, struct rp_err *err)
{
    if (!is_comparable(first, other) ||
        (first->rank == other->rank && (first->size == other->size || !first->size || !other->size)))
        return 0;
    if (is_agent(first, other)) {
        *first = *other;
        return 0;
    }
    return rp_fail(err, RP_USAGE,
                   "two launchers disagree: by %s of %s this is process %" PRId64 " of %" PRId64
                   ", by %s of %s process %" PRId64 " of %" PRId64 "; choose one with --launcher %s or --launcher %s",
                   first->rank_variable, first->name, first->rank, first->size, other->rank_variable, other->name,
                   other->rank, other->size, first->launcher, other->launcher);
}

/* A batch script is one process, whatever the value of SLURM_NTASKS. */
static int check_batch(struct rp_launch *l, const struct rp_launch_opts *o, struct rp_err *err)
{
    int64_t tasks = number_or("SLURM_NTASKS", 1), nodes = number_or("SLURM_JOB_NUM_NODES", 1);
    const int is_one_task = number_or("SLURM_STEP_NUM_TASKS", 0) == 1 && tasks < 2; /* srun -n 1 */
    const char *elastic = getenv("PET_NNODES"); /* of Kubeflow, "1:4": PET_NODE_RANK is left to the rendezvous */
    if (!getenv("SLURM_JOB_ID") || getenv("SLURM_STEP_ID") || (tasks < 2 && nodes < 2)) {
        if (o->several && !is_one_task)
            l->note = "a key of the job is given, and nothing tells which of its processes this is: give --rank-from "
                      "and --size-from with the launcher's variables, or --nodes and --node-rank; for a run of this "
                      "process alone, also with --ranks, unset REPRO_JOB_KEY and leave --job-key out";
        else if (elastic && strcmp(elastic, "1") != 0)
            l->note = "PET_NNODES has several nodes, which torchrun would number, and this is one process: start repro "
                      "with torchrun, or give --nodes and --node-rank";
        return 0;
    }
    l->note = "the allocation has several tasks or nodes, and this is one process: srun starts one for each task";
    if (!o->several && o->nodes < 2)
        return 0;
    return rp_fail(err, RP_USAGE,
                   "this is one process of a batch script with %" PRId64 " tasks on %" PRId64
                   " nodes: start it with srun",
                   tasks, nodes);
}

static int from_options(struct rp_launch *l, const struct rp_launch_opts *o, struct rp_err *err)
{
    *l = (struct rp_launch){.kind = RP_LAUNCH_NODES,
                            .row = -1,
                            .launcher = "options",
                            .name = "the command line",
                            .rank_variable = "--node-rank",
                            .size_variable = "--nodes",
                            .key_remedy =
                                "export REPRO_JOB_KEY, the same value on every node ('repro launch key' makes one)",
                            .rank = o->node_rank1 - 1,
                            .size = o->nodes,
                            .local_rank = -1,
                            .node = o->node_rank1 - 1,
                            .nodes = o->nodes,
                            .ranks_per_node = o->ranks_per_node};
    if (o->nodes < o->node_rank1)
        return rp_fail(err, RP_USAGE, "--node-rank %" PRId64 " needs --nodes of at least %" PRId64, l->rank,
                       o->node_rank1);
    return 0;
}

/* Variables of a launcher that has no row, as the user names them; what they hold
 * is shown only where it is a number. */
static int from_variables(struct rp_launch *l, const struct rp_launch_opts *o, struct rp_err *err)
{
    char shown[72];
    const char *option[] = {"--rank-from", "--size-from"}, *variable[] = {o->rank_from, o->size_from};
    *l = (struct rp_launch){.kind = RP_LAUNCH_RANKS,
                            .row = -1,
                            .launcher = "variables",
                            .name = "the launcher of --rank-from",
                            .rank_variable = o->rank_from,
                            .size_variable = o->size_from,
                            .key_remedy =
                                "export REPRO_JOB_KEY, the same value for every process ('repro launch key' makes one)",
                            .local_rank = -1,
                            .node = -1};
    if (!o->rank_from || !o->size_from)
        return rp_fail(
            err, RP_USAGE,
            "--rank-from and --size-from go together: the launcher's variables with the rank and with the number of "
            "processes");
    if (o->launcher || o->node_rank1 > 0 || o->nodes > 0 || o->ranks_per_node > 0)
        return rp_fail(err, RP_USAGE, "--rank-from already sets the number of this process: leave out --%s",
                       o->launcher         ? "launcher"
                       : o->node_rank1 > 0 ? "node-rank"
                       : o->nodes > 0      ? "nodes"
                                           : "ranks-per-node");
    for (int i = 0; i < 2; i++)
        if (!read_number(variable[i], i ? &l->size : &l->rank))
            return rp_fail(err, RP_USAGE, "%s: the variable '%s' is %s", option[i], rp_excerpt(shown, variable[i]),
                           getenv(variable[i]) ? "not a number" : "not set here");
    if (l->rank >= l->size)
        return rp_fail(err, RP_USAGE, "--rank-from: '%s' is %" PRId64 ", expected 0 to '%s' - 1, which is %" PRId64,
                       o->rank_from, l->rank, o->size_from, l->size - 1);
    return 0;
}

int rp_launch_detect(struct rp_launch *l, const struct rp_launch_opts *given, struct rp_err *err)
{
    static const struct rp_launch_opts none;
    const struct rp_launch_opts *o = given ? given : &none;
    int known = 0;
    char shown[72];
    *l = (struct rp_launch){.size = 1, .row = -1, .local_rank = -1, .node = -1};
    if (o->rank_from || o->size_from)
        return from_variables(l, o, err);
    if (o->node_rank1 > 0)
        return from_options(l, o, err);
    if (o->launcher && !is_id(o->launcher))
        return rp_fail(err, RP_USAGE, "--launcher '%s': expected one of %s", rp_excerpt(shown, o->launcher),
                       rp_launch_ids());
    for (size_t i = 0; i < ROWS; i++) {
        struct rp_launch found;
        if (o->launcher && strcmp(o->launcher, rows[i].id) != 0)
            continue;
        /* launchers of ranks, and operators, run within pods */
        if (l->launcher && (rows[i].kind != l->kind || is_pod(&rows[i])))
            continue;
        struct rp_err ignored; /* of a set of variables that describes the job less well than the one found */
        int n = read_row(&found, &rows[i], o, l->launcher ? &ignored : err);
        if (n < 0 && l->launcher)
            continue;
        known |= n == 1;
        if (n < 0 || (n == 1 && l->launcher && compare_rows(l, &found, err) < 0))
            return -1;
        if (n == 1 && !l->launcher)
            *l = found;
    }
    if (o->launcher && !known)
        return rp_fail(err, RP_USAGE, "--launcher %s: its variables are not set here", o->launcher);
    return l->launcher ? 0 : check_batch(l, o, err);
}

static void put_known(json_t *j, const char *name, int64_t value, int64_t least)
{
    if (value >= least)
        json_object_set_new(j, name, json_integer(value));
}

json_t *rp_launch_to_json(const struct rp_launch *l)
{
    static const char *const kinds[] = {"alone", "ranks", "nodes"};
    json_t *j =
        json_pack("{s:s, s:s?, s:I}", "kind", kinds[l->kind], "launcher", l->launcher, "rank", (json_int_t)l->rank);
    put_known(j, "size", l->size, 1);
    put_known(j, "local_rank", l->local_rank, 0);
    put_known(j, "local_size", l->local_size, 1);
    put_known(j, "node", l->node, 0);
    put_known(j, "nodes", l->nodes, 1);
    put_known(j, "ranks_per_node", l->ranks_per_node, 1);
    if (l->launcher)
        json_object_set_new(j, "decided_by",
                            json_pack("[s, s*]", l->rank_variable, *l->size_variable ? l->size_variable : NULL));
    return j;
}
