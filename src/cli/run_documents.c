/* What goes into the bundle of a run. */
#include "cli/run_session.h"

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

/* The device samples of rank i as a member, and their figures: of the only rank r->telemetry. *figures NULL: there are none. */
static int add_telemetry(struct rp_run_session *r, struct rp_bundle *b, int i, json_t **figures, struct rp_err *err)
{
    const struct rp_sampling *is = &r->outcome.rank[i].telemetry;
    const int ranks = r->outcome.ranks;
    struct rp_telemetry parsed = {0};
    RP_BUF lines = {0};
    rp_sampling_write(&lines, is);
    *figures = *is->reason ? json_pack("{s:s}", "reason", is->reason) : NULL;
    if (!lines.size)
        return 0;
    if (rp_telemetry_parse(&parsed, i, ranks, rp_buf_text(&lines), lines.size, err) < 0)
        return -1;
    json_decref(*figures);
    *figures = ranks > 1 ? rp_telemetry_of_rank(&parsed, &r->ranks.share[i]) : NULL;
    if (ranks > 1)
        rp_telemetry_fini(&parsed);
    else
        r->telemetry = parsed;
    return rp_bundle_add(b, RP_OF_RANK(i, ".telemetry.jsonl"), lines.data, lines.size, err);
}

/* telemetry: [ranks] */
static json_t *world_json(const struct rp_run_session *r, const json_t *const *telemetry)
{
    const struct rp_outcome *o = &r->outcome;
    RP_FREE const json_t **hello = rp_alloc((size_t)o->ranks * sizeof *hello), **done = rp_alloc((size_t)o->ranks * sizeof *done);
    for (int i = 0; i < o->ranks; i++) {
        hello[i] = o->rank[i].hello;
        done[i] = o->rank[i].done;
    }
    const struct rp_run_job *j = &r->job_of_many;
    RP_JSON *launch = j->several ? rp_launch_to_json(&j->joining.launch) : NULL, *processes = j->several ? rp_join_to_json(&j->joining.join) : NULL;
    return rp_world_json(&(struct rp_world_doc){.degrees = r->degrees, .host = r->rank_host, .launch = launch, .processes = processes,
                                                .all = o->ranks > 1 ? &r->ranks : NULL, .hello = hello, .done = done,
                                                .telemetry = telemetry});
}

static int add_capture(struct rp_bundle *b, int host, const char *what, const json_t *capture, struct rp_err *err)
{
    RP_BUF text = {0};
    if (!capture)
        return 0;
    rp_json_write(&text, capture);
    return rp_bundle_add(b, RP_OF_NODE(host, what), text.data, text.size, err);
}

/* Captures of hosts that are not this one. */
static int add_hosts(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err)
{
    for (int h = 1; h < r->hosts; h++)
        if (add_capture(b, h, ".before.json", r->host_before[h], err) < 0 || add_capture(b, h, ".after.json", r->host_after[h], err) < 0 ||
            (r->host_xml[h].size && rp_bundle_add(b, RP_OF_NODE(h, ".hwloc.xml"), r->host_xml[h].data, r->host_xml[h].size, err) < 0))
            return -1;
    return 0;
}

/* The ranks, with telemetry of each; NULL: *err. */
static json_t *add_ranks(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err)
{
    const int n = r->outcome.ranks;
    RP_FREE json_t **figures = rp_alloc((size_t)n * sizeof *figures);
    int failed = add_records(r, b, err) < 0;
    for (int i = 0; i < n && !failed; i++)
        failed = add_telemetry(r, b, i, &figures[i], err) < 0;
    json_t *world = failed ? NULL : world_json(r, (const json_t *const *)figures);
    for (int i = 0; i < n; i++)
        json_decref(figures[i]);
    return world;
}

int rp_run_add_documents(struct rp_run_session *r, struct rp_bundle *b, struct rp_err *err)
{
    const struct rp_outcome *o = &r->outcome;
    const struct rp_rank_outcome *first_rank = &o->rank[0];
    RP_JSON *world = add_ranks(r, b, err);
    if (!world)
        return -1;
    RP_JSON *challenge = r->o->challenge ? rp_challenge_json(&r->challenge) : NULL;
    RP_JSON *data = data_json(r), *plan = rp_plan_to_json(&r->plan), *ledger = rp_attempt_json(&r->attempt);
    const struct rp_original *first = r->from->first;
    RP_JSON *replicates = first ? rp_original_json(first) : NULL;
    struct rp_agreement_side other = {0};
    if (first)
        other = (struct rp_agreement_side){first->v->run, first->kept->run.node[0].before, &first->kept->run.records};
    RP_BUF run_text = {0}, before = {0}, after = {0};
    struct rp_run_doc doc = {.status = rp_run_status_name(o->status),
                             .reason = o->status == RP_RUN_COMPLETE ? NULL : o->reason.msg,
                             .recipe = &r->recipe,
                             .data = data,
                             .init = r->checkpoint,
                             .plan = plan,
                             .backend = r->backend->name,
                             .device = json_object_get(first_rank->hello, "device"),
                             .done = o->rank[r->ranks.slowest].done,
                             .world = world,
                             .records = &r->records,
                             .telemetry = r->telemetry.n ? &r->telemetry : NULL,
                             .no_telemetry = *first_rank->telemetry.reason ? first_rank->telemetry.reason : NULL,
                             .before = r->before,
                             .after = r->after,
                             .started_ns = r->started_ns,
                             .ended_ns = r->ended_ns,
                             .challenge = challenge,
                             .ledger = ledger,
                             .replicates = replicates,
                             .first = first ? &other : NULL};
    r->run = rp_run_json(&doc, err);
    if (!r->run)
        return -1;
    rp_json_write(&run_text, r->run);
    rp_json_write(&before, r->before);
    rp_json_write(&after, r->after);
    struct rp_report_source source = {
        .run = r->run, .before = r->before, .after = r->after, .recipe = &r->recipe.source, .records = &r->records};
    if (rp_bundle_add(b, "run.json", run_text.data, run_text.size, err) < 0 ||
        rp_bundle_add(b, "recipe.yaml", r->recipe.source.data, r->recipe.source.size, err) < 0 ||
        (challenge && rp_bundle_add(b, RP_CHALLENGE_MEMBER, r->challenge_bytes.data, r->challenge_bytes.size, err) < 0) ||
        rp_bundle_add(b, RP_OF_NODE(0, ".before.json"), before.data, before.size, err) < 0 ||
        rp_bundle_add(b, RP_OF_NODE(0, ".after.json"), after.data, after.size, err) < 0 ||
        (r->hwloc_xml.size && rp_bundle_add(b, RP_OF_NODE(0, ".hwloc.xml"), r->hwloc_xml.data, r->hwloc_xml.size, err) < 0) ||
        add_hosts(r, b, err) < 0)
        return -1;
    return rp_reports_add(b, &source, err);
}
