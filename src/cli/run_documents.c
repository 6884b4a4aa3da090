/* What goes into the bundle of a run. */
#include "base/text.h"
#include "cli/run_session.h"

/* "replicates" of facts.json */
static json_t *original_json(const struct rp_original *first)
{
    char safe[100];
    return json_pack("{s:s, s:s, s:s}", "statement", first->v->statement, "bundle",
                     rp_ascii(safe, sizeof safe, rp_base_name(first->path)), "signer", first->v->fingerprint);
}

static json_t *data_json(const struct rp_run_session *r)
{
    return json_pack("{s:b, s:s*, s:s*, s:s}", "pinned", r->data.pinned, "archive", r->data.archive, "archive_sha256",
                     r->data.sha256, "digest", r->data.digest);
}

/* The records of every rank, as one list and as members. */
static int add_records(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err)
{
    const struct rp_outcome *o = &r->outcome;
    rp_all_ranks_init(&r->ranks, r->degrees);
    for (int i = 0; i < o->ranks; i++) {
        const struct rp_buf *steps = &o->rank[i].steps;
        struct rp_records one;
        if (rp_records_parse_rank(&one, i, rp_buf_text(steps), steps->size, err) < 0 ||
            rp_all_ranks_add(&r->ranks, &r->records, &one, err) < 0 ||
            rp_bundle_add(b, RP_OF_RANK(i, ".jsonl"), rp_buf_text(steps), steps->size, err) < 0)
            return -1;
    }
    return 0;
}

/* Device samples of every rank as members, and their figures. */
static int add_telemetry(const struct rp_run_session *r, struct rp_figures *figures, struct rp_bundle *b,
                         struct rp_err *err)
{
    const int ranks = r->outcome.ranks;
    for (int i = 0; i < ranks; i++) {
        struct rp_telemetry parsed = {0};
        RP_BUF lines = {0};
        rp_sampling_write(&lines, &r->outcome.rank[i].telemetry);
        if (!lines.size)
            continue;
        if (rp_telemetry_parse(&parsed, RP_OF_RANK(i, ".telemetry.jsonl"), rp_telemetry_most(ranks),
                               rp_buf_text(&lines), lines.size, err) < 0)
            return -1;
        rp_derive_telemetry(figures, i, &parsed, &r->ranks.share[i]);
        rp_telemetry_fini(&parsed);
        if (rp_bundle_add(b, RP_OF_RANK(i, ".telemetry.jsonl"), lines.data, lines.size, err) < 0)
            return -1;
    }
    return 0;
}

static int add_capture(struct rp_bundle *b, int host, const char *what, const json_t *capture, struct rp_err *err)
{
    RP_BUF text = {0};
    if (!capture)
        return 0;
    rp_json_write(&text, capture);
    return rp_bundle_add(b, RP_OF_NODE(host, what), text.data, text.size, err);
}

static int node_count(const struct rp_run_session *r)
{
    return r->hosts > 1 ? r->hosts : 1; /* 0: no job of several processes */
}

/* Adds the captures of every node, and what hwloc saw there. */
static int add_nodes(const struct rp_run_session *r, const struct rp_captures *node, struct rp_bundle *b,
                     struct rp_err *err)
{
    for (int h = 0; h < node_count(r); h++) {
        const struct rp_buf *xml = h ? &r->host_xml[h] : &r->hwloc_xml;
        if (add_capture(b, h, ".before.json", node[h].before, err) < 0 ||
            add_capture(b, h, ".after.json", node[h].after, err) < 0 ||
            (xml->size && rp_bundle_add(b, RP_OF_NODE(h, ".hwloc.xml"), xml->data, xml->size, err) < 0))
            return -1;
    }
    return 0;
}

static void seal_facts(const struct rp_run_session *r, struct rp_facts *facts)
{
    const struct rp_outcome *o = &r->outcome;
    const struct rp_run_job *j = &r->job_of_many;
    RP_FREE const json_t **hello = rp_alloc((size_t)o->ranks * sizeof *hello),
                         **done = rp_alloc((size_t)o->ranks * sizeof *done);
    RP_FREE const char **no_telemetry = rp_alloc((size_t)o->ranks * sizeof *no_telemetry);
    for (int i = 0; i < o->ranks; i++) {
        const char *why = o->rank[i].telemetry.reason;
        hello[i] = o->rank[i].hello;
        done[i] = o->rank[i].done;
        no_telemetry[i] = *why ? why : NULL;
    }
    RP_BUF reason = {0};
    if (o->status != RP_RUN_COMPLETE)
        rp_run_reason_text(&reason, &o->reason);
    RP_JSON *launch = j->several ? rp_launch_to_json(&j->joining.launch) : NULL;
    RP_JSON *processes = j->several ? rp_join_to_json(&j->joining.join) : NULL;
    RP_JSON *challenge = r->o->challenge ? rp_challenge_json(&r->challenge) : NULL;
    RP_JSON *data = data_json(r), *ledger = rp_attempt_json(&r->attempt);
    RP_JSON *replicates = r->from->first ? original_json(r->from->first) : NULL;
    RP_READ(capture_document, before, r->before);
    rp_facts_seal(facts, &(struct rp_seal){
                             .status = rp_run_status_name(o->status),
                             .reason = o->status == RP_RUN_COMPLETE ? NULL : rp_buf_text(&reason),
                             .started_ns = r->started_ns,
                             .ended_ns = r->ended_ns,
                             .recipe = &r->recipe,
                             .identified = before.identified,
                             .backend = r->backend->name,
                             .data = data,
                             .init = r->checkpoint,
                             .plan = &r->plan,
                             .launch = launch,
                             .processes = processes,
                             .degrees = r->degrees,
                             .host = r->rank_host,
                             .hello = hello,
                             .done = done,
                             .no_telemetry = no_telemetry,
                             .slowest = r->ranks.slowest,
                             .ledger = ledger,
                             .challenge = challenge,
                             .replicates = replicates,
                         });
}

static int derive_agreement(const struct rp_run_session *r, struct rp_run_documents *d, struct rp_err *err)
{
    const struct rp_original *first = r->from->first;
    if (!first)
        return 0;
    const struct rp_run *other = &first->kept->run;
    d->figures.agreement = rp_alloc(sizeof *d->figures.agreement);
    return rp_agreement_derive(
        d->figures.agreement,
        &(struct rp_agreement_side){other->facts, other->figures, other->node[0].before, &other->records},
        &(struct rp_agreement_side){&d->facts, &d->figures, r->before, &r->records}, err);
}

static int derive_figures(struct rp_run_session *r, const struct rp_captures *node, struct rp_bundle *b,
                          struct rp_err *err)
{
    struct rp_run_documents *d = r->run;
    struct rp_run is = {.facts = &d->facts, /* borrowed, as all its parts */
                        .node = (struct rp_captures *)node,
                        .nodes = node_count(r),
                        .recipe = r->recipe,
                        .records = r->records,
                        .ranks = r->ranks};
    RP_FORMAT(is.recipe_sha256, "%s", r->recipe.sha256);
    if (is.recipe.train_batch_size == RP_BATCH_MAX)
        is.recipe.train_batch_size = (int64_t)r->plan.batch;
    if (rp_derive(&d->figures, &is, err) < 0 || add_telemetry(r, &d->figures, b, err) < 0)
        return -1;
    rp_derive_telemetry_of_all(&d->figures, &d->facts, &r->records);
    if (d->facts.rank_n) {
        rp_run_place_text(r->where, &is);
        rp_run_devices_text(r->devices, &is);
    }
    return derive_agreement(r, d, err);
}

static int add_json(struct rp_bundle *b, const char *name, const json_t *j, struct rp_err *err)
{
    RP_BUF text = {0};
    rp_json_write(&text, j);
    return rp_bundle_add(b, name, text.data, text.size, err);
}

int rp_run_add_documents(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err)
{
    RP_FREE struct rp_captures *node = rp_alloc((size_t)node_count(r) * sizeof *node);
    for (int h = 0; h < node_count(r); h++)
        node[h] =
            h ? (struct rp_captures){r->host_before[h], r->host_after[h]} : (struct rp_captures){r->before, r->after};
    if (add_records(r, b, err) < 0)
        return -1;
    struct rp_run_documents *d = r->run = rp_alloc(sizeof *d);
    d->references = 1;
    seal_facts(r, &d->facts);
    if (derive_figures(r, node, b, err) < 0)
        return -1;
    rp_run_documents_write(d);
    if (add_json(b, "facts.json", d->facts_json, err) < 0 || add_json(b, "run.json", d->figures_json, err) < 0 ||
        rp_bundle_add(b, "recipe.yaml", r->recipe.source.data, r->recipe.source.size, err) < 0 ||
        (r->o->challenge &&
         rp_bundle_add(b, RP_CHALLENGE_MEMBER, r->challenge_bytes.data, r->challenge_bytes.size, err) < 0))
        return -1;
    return add_nodes(r, node, b, err);
}
