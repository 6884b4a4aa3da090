/* facts.json and run.json of a run or a command, as structs and as one document. */
#include "run/run.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_CLOCK_MOST ((int64_t)1 << 60)

int rp_facts_nodes(const struct rp_facts *f)
{
    int64_t n = 1;
    for (int64_t i = 0; i < f->rank_n; i++)
        n = f->rank[i].node >= n ? f->rank[i].node + 1 : n;
    return (int)n;
}

/* What other values are looked up by has to exist. */
static int check_lists(const struct rp_facts *a, const struct rp_figures *b, struct rp_err *err)
{
    const int64_t nodes = rp_facts_nodes(a);
    const struct {
        const char *what;
        int64_t is, expected;
    } equal[] = {
        {"run.json: the length of rank", b->rank_n, a->rank_n},
        {"run.json: world/ranks", b->world.ranks, a->rank_n},
        {"run.json: world/nodes", b->world.nodes, nodes},
        {"run.json: the length of node", b->node_n, nodes},
        {"facts.json: layout/data x tensor x pipeline", a->layout.data * a->layout.tensor * a->layout.pipeline,
         a->rank_n},
    };
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++)
        if (equal[i].is != equal[i].expected)
            return rp_fail(err, RP_MALFORMED, "%s is %" PRId64 ", expected %" PRId64, equal[i].what, equal[i].is,
                           equal[i].expected);
    if (a->rank_n < 1 || nodes > a->rank_n)
        return rp_fail(err, RP_MALFORMED, "facts.json: %" PRId64 " ranks are on %" PRId64 " nodes", a->rank_n, nodes);
    if (b->world.slowest >= b->rank_n)
        return rp_fail(err, RP_MALFORMED, "run.json: world/slowest is %" PRId64 " of %" PRId64 " ranks",
                       b->world.slowest, b->rank_n);
    if (a->ceilings && a->ceilings->rank >= a->rank_n)
        return rp_fail(err, RP_MALFORMED, "facts.json: ceilings/rank is %" PRId64 " of %" PRId64 " ranks",
                       a->ceilings->rank, a->rank_n);
    return 0;
}

struct rp_run_documents *rp_run_documents_read(json_t *facts, json_t *figures, struct rp_err *err)
{
    struct rp_run_documents *d = rp_alloc(sizeof *d);
    d->references = 1;
    d->facts_json = json_incref(facts);
    d->figures_json = json_incref(figures);
    rp_object_read(&d->facts, &rp_type_facts, facts);
    rp_object_read(&d->figures, &rp_type_figures, figures);
    if (check_lists(&d->facts, &d->figures, err) == 0)
        return d;
    rp_run_documents_free(d);
    return NULL;
}

/* Texts that a command lacks are empty: what prints them needs no case for it. */
static void fill_texts(struct rp_run_documents *d)
{
    d->facts.recipe_name = rp_strdup(d->command->name);
    char **const empty[] = {&d->facts.backend,      &d->facts.data.digest,         &d->figures.numerics,
                            &d->figures.model.name, &d->figures.model.sample_unit, &d->figures.results.throughput.unit};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++)
        *empty[i] = rp_strdup("");
}

/* Numbers of processes and nodes that other values are looked up by exist; clocks are those of machines. */
static int check_command_lists(const struct rp_command_facts *a, const struct rp_command_figures *b, struct rp_err *err)
{
    int64_t of[3] = {a->ended_by, a->log ? a->log->process : 0, 0}, node = 0;
    for (int64_t i = 0; i < a->process_n; i++) {
        const struct rp_command_process *p = &a->process[i];
        const struct rp_clock_facts *c = &p->clock;
        if (p->node > node)
            return rp_fail(err, RP_MALFORMED,
                           "facts.json: process %" PRId64 " is on node %" PRId64 " before any is on node %" PRId64, i,
                           p->node, node);
        node += p->node == node;
        if (c->monotonic_ns > COMMAND_CLOCK_MOST || c->monotonic_ns < -COMMAND_CLOCK_MOST ||
            c->error_ns > RP_CLOCK_ERROR_MOST || c->error_ns < -1 ||
            (i == 0 && (c->monotonic_ns || c->wall_ns || c->error_ns)))
            return rp_fail(err, RP_MALFORMED,
                           "facts.json: the clock of process %" PRId64 " is too far from that of process 0", i);
        if ((p->start_ns == RP_NO_INTEGER) != (p->end_ns == RP_NO_INTEGER) || p->end_ns < p->start_ns)
            return rp_fail(err, RP_MALFORMED, "facts.json: process %" PRId64 " ended before it began", i);
    }
    for (int64_t i = 0; i < a->file_n; i++)
        of[2] = a->file[i].process > of[2] ? a->file[i].process : of[2];
    for (int64_t i = 0; i < a->device_n; i++)
        of[2] = a->device[i].process > of[2] ? a->device[i].process : of[2];
    for (int i = 0; i < 3; i++)
        if (of[i] >= a->process_n)
            return rp_fail(err, RP_MALFORMED, "facts.json: process %" PRId64 " is named, but not listed", of[i]);
    if (b->device_n != a->device_n || b->node_n != node)
        return rp_fail(err, RP_MALFORMED,
                       "run.json has %" PRId64 " devices and %" PRId64 " nodes, facts.json %" PRId64 " and %" PRId64,
                       b->device_n, b->node_n, a->device_n, node);
    return 0;
}

/* Who was where, as of the processes of a run: checks of clocks and captures need no case for a command. */
static void fill_processes(struct rp_facts *f, const struct rp_command_facts *c)
{
    for (int64_t i = 0; i < c->process_n; i++) {
        struct rp_process_facts *p = rp_object_add(&f->process, &f->process_n, &rp_type_process_facts);
        p->first_rank = i;
        p->ranks = 1;
        p->host = c->process[i].node;
        p->clock = c->process[i].clock;
    }
}

struct rp_run_documents *rp_run_documents_read_command(json_t *facts, json_t *figures, struct rp_err *err)
{
    struct rp_run_documents *d = rp_alloc(sizeof *d);
    *d = (struct rp_run_documents){.references = 1,
                                   .command = rp_alloc(sizeof *d->command),
                                   .observed = rp_alloc(sizeof *d->observed),
                                   .facts_json = json_incref(facts),
                                   .figures_json = json_incref(figures)};
    rp_object_read(d->command, &rp_type_command_facts, facts);
    rp_object_read(d->observed, &rp_type_command_figures, figures);
    RP_JSON *shared = json_copy(facts);
    json_object_del(shared, "process"); /* which have another form */
    rp_object_read(&d->facts, &rp_type_facts, shared);
    rp_object_read(&d->figures, &rp_type_figures, figures);
    fill_texts(d);
    if (check_command_lists(d->command, d->observed, err) == 0) {
        fill_processes(&d->facts, d->command);
        return d;
    }
    rp_run_documents_free(d);
    return NULL;
}

/* Of the log of a command; NULL: there is none, or there are several. */
static const json_t *only_result(const struct rp_run_documents *d)
{
    const struct rp_log_figures *log = d->command ? d->observed->log : NULL;
    return log && json_array_size(log->result) == 1 ? json_array_get(log->result, 0) : NULL;
}

double rp_run_throughput(const struct rp_run_documents *d, const char **unit)
{
    *unit = d->command ? "" : d->figures.results.throughput.unit;
    if (!d->command)
        return d->figures.results.throughput.value;
    RP_READ(log_result, result, only_result(d));
    if (!isnan(result.throughput.value))
        *unit = rp_json_text_at(only_result(d), "throughput/unit"); /* borrowed from the document */
    return result.throughput.value;
}

double rp_run_minutes(const struct rp_run_documents *d)
{
    RP_READ(log_result, result, only_result(d));
    return result.time_to_train_min;
}

struct rp_run_documents *rp_run_documents_use(struct rp_run_documents *d)
{
    if (d)
        d->references++;
    return d;
}

static void forget_json(struct rp_run_documents *d)
{
    json_decref(d->facts_json);
    json_decref(d->figures_json);
    json_decref(d->shown);
    d->facts_json = d->figures_json = d->shown = NULL;
}

void rp_run_documents_shrink(struct rp_run_documents *d)
{
    struct rp_facts *f = &d->facts;
    forget_json(d);
    while (f->tensor_root_n)
        rp_object_fini(&f->tensor_root[--f->tensor_root_n], &rp_type_tensor_root);
    free(f->tensor_root);
    f->tensor_root = NULL;
}

void rp_run_documents_free(struct rp_run_documents *d)
{
    if (!d || --d->references > 0)
        return;
    forget_json(d);
    rp_object_fini(&d->facts, &rp_type_facts);
    rp_object_fini(&d->figures, &rp_type_figures);
    if (d->command) {
        rp_object_fini(d->command, &rp_type_command_facts);
        rp_object_fini(d->observed, &rp_type_command_figures);
    }
    free(d->command);
    free(d->observed);
    free(d);
}

/* Adds to `to` what only `from` has. */
static void merge_objects(json_t *to, const json_t *from)
{
    const char *key;
    json_t *v;
    size_t i;
    if (json_is_array(to) && json_is_array(from))
        json_array_foreach((json_t *)from, i, v)
            merge_objects(json_array_get(to, i), v);
    if (!json_is_object(to) || !json_is_object(from))
        return;
    json_object_foreach((json_t *)from, key, v) {
        json_t *is = json_object_get(to, key);
        if (is)
            merge_objects(is, v);
        else
            json_object_set(to, key, v);
    }
}

const json_t *rp_run_shown(struct rp_run_documents *d)
{
    if (!d || d->shown)
        return d ? d->shown : NULL;
    d->shown = json_deep_copy(d->figures_json);
    merge_objects(d->shown, d->facts_json);
    json_object_set(d->shown, "run.json", d->figures_json);
    return d->shown;
}
