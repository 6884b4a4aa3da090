/* Any bytes as one member of an honest bundle, sealed again by an attacker, through verify: a verdict, one printable
 * line for each refusal, and what is accepted follows from the records. The first byte says which member and how:
 *
 *   & 15  0 run.json, 1 recipe.yaml, 2 and 3 captures, 4 records, 5 telemetry, 6 facts.json, 7 SHA256SUMS,
 *         8 and 9 its signatures, 10 key.pem, 11 verify.sh, 12 the statement's payload, 13 hwloc, 14 a
 *         counter-signature, 15 its key
 *   & 16  the bytes are lines of changes (patch.h) to the honest member, where that is JSON
 *   & 64  all figures are made again; of run.json they are what is bent
 *   & 128 nothing is sealed again: the honest signature stays */
#include "report/template.h"
#include "tests/fuzz/honest.h"

#include "bundle/schema.h"
#include "compare/result.h"
#include "export/export.h"
#include "page/page.h"
#include "run/agreement.h"
#include "sign/countersign.h"
#include "tests/fuzz/patch.h"
#include "verify/policy/policy.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const int fuzz_is_slow; /* replay.c */
const int fuzz_is_slow = 1;

static const char *const members[16] = {
    "run.json", "recipe.yaml", "env/node0.before.json", "env/node0.after.json", "steps/rank0.jsonl",
    "steps/rank0.telemetry.jsonl", "facts.json", "SHA256SUMS", "SHA256SUMS.sig", "SHA256SUMS.minisig", "key.pem",
    "verify.sh", "statement.dsse.json", "env/node0.hwloc.xml", "signatures/0.dsse.json", "signatures/0.pem"};
enum { RUN, RECIPE, BEFORE, AFTER, STEPS, SAMPLES, FACTS, STATEMENT = 12, COUNTER = 14 };
enum { LINES = 16, FIGURES = 64, AS_SIGNED = 128 };

static struct rp_key_pair *author, *attacker;
static char authors[RP_FINGERPRINT_SIZE];
static struct fx honest;        /* made once, as the two bundles: this is slow enough */
static struct rp_bundle by[2];  /* sealed by the attacker and by the author */
static char first[64];          /* the run that it repeats: a file */
static struct rp_policy policy; /* that asks for much */
static const char rules[] =
    "signed_by: [SHA256:" FX_ROOT "]\nmax_age_days: 3650\nrecipes: [bert_fp32]\nprograms: [" FX_ROOT "]\n"
    "clean_tree: true\ncomplete: true\nmin_steps: 3\nmin_repeats: 2\nmin_ranks: 2\nin_ledger: true\nmax_failed_before: "
    "0\n"
    "bits_equal: true\nthroughput_within_percent: 5\nno_throttling: true\nno_warnings: true\ncountersigned_by: [x]\n"
    "checks: {key: passed, outliers: note}\n";

/* The honest bundle repeats another, which is the same run. */
static void say_agreement(void)
{
    struct rp_verification v;
    struct rp_verified kept = {0};
    struct rp_err err = {0};
    struct rp_bundle b;
    honest_seal(&b, &honest, author);
    MUST(honest_file(&b, first) >= 0 && rp_verify(&v, first, &(struct rp_verify_opts){.keep = &kept}, &err) == 0);
    struct rp_records records;
    fx_keyed(&honest.steps);
    MUST(fx_documents(&honest, "complete", NULL, &err) == 0 &&
         rp_records_parse(&records, honest.steps.data, honest.steps.size, &err) == 0);
    const struct rp_agreement_side there = {kept.run.facts, kept.run.figures, kept.run.node[0].before,
                                            &kept.run.records},
                                   here = {&honest.doc->facts, &honest.doc->figures, honest.before, &records};
    struct rp_agreement agreement;
    MUST(rp_agreement_derive(&agreement, &there, &here, &err) == 0);
    json_object_set_new(
        honest.facts, "replicates",
        json_pack("{s:s, s:s, s:s}", "statement", v.statement, "bundle", "first.zst", "signer", v.fingerprint));
    json_object_set_new(honest.run, "agreement", rp_object_json(&agreement, &rp_type_agreement));
    rp_object_fini(&agreement, &rp_type_agreement);
    rp_records_fini(&records);
    rp_verified_fini(&kept);
    rp_verification_fini(&v);
    rp_bundle_fini(&b);
}

static void start(void)
{
    struct rp_err err;
    if (author)
        return;
    author = fx_key("author");
    attacker = fx_key("attacker");
    rp_key_fingerprint(author, authors);
    honest_fx(&honest);
    say_agreement();
    MUST(rp_policy_parse(&policy, rules, sizeof rules - 1, "policy", &err) == 0);
    honest_seal(&by[0], &honest, attacker);
    honest_seal(&by[1], &honest, author);
    scratch_exit();
    MUST(!tap_failures);
}

/* A copy that the target may bend; the recipe is the honest one's. */
static void copy_fx(struct fx *x)
{
    struct rp_err err;
    RP_JSON *facts = json_deep_copy(honest.facts), *run = json_deep_copy(honest.run);
    *x = honest;
    x->steps = x->telemetry = (struct rp_buf){0};
    rp_buf_add(&x->steps, honest.steps.data, honest.steps.size);
    rp_buf_add(&x->telemetry, honest.telemetry.data, honest.telemetry.size);
    x->doc = rp_run_documents_read(facts, run, &err);
    MUST(x->doc != NULL);
    x->facts = x->doc->facts_json;
    x->run = x->doc->figures_json;
    x->before = json_deep_copy(honest.before);
    x->after = json_deep_copy(honest.after);
}

static void copy_bundle(struct rp_bundle *b, const struct rp_bundle *from)
{
    struct rp_err err;
    *b = (struct rp_bundle){0};
    for (int i = 0; i < from->n; i++)
        MUST(rp_bundle_add(b, from->member[i].name, rp_buf_text(&from->member[i].bytes), from->member[i].bytes.size,
                           &err) == 0);
}

/* ---- the attack ---- */

static void replace(struct rp_buf *b, const void *data, size_t size)
{
    rp_buf_fini(b);
    rp_buf_add(b, data, size);
}

/* The changes of the lines to the member as it is. */
static void change(struct rp_buf *b, const char *text, size_t size, int is_lines)
{
    struct rp_err err;
    RP_BUF list = {0};
    if (is_lines) {
        rp_buf_puts(&list, "[");
        for (size_t i = 0; i + 1 < b->size; i++)
            rp_buf_add(&list, b->data[i] == '\n' ? "," : &b->data[i], 1);
        rp_buf_puts(&list, "]");
    }
    const struct rp_buf *from = is_lines ? &list : b;
    RP_JSON *doc = rp_json_parse(rp_buf_text(from), from->size, "honest", &err);
    json_t *line;
    size_t i;
    if (!doc) {
        replace(b, text, size);
        return;
    }
    patch_json(doc, text, size);
    rp_buf_fini(b);
    if (!is_lines)
        rp_json_write(b, doc);
    else
        json_array_foreach(doc, i, line)
            rp_json_write_line(b, line);
}

static void bend_member(struct rp_buf *b, int member, int how, const char *text, size_t size)
{
    int is_json = member == RUN || member == FACTS || member == BEFORE || member == AFTER || member == STATEMENT ||
                  member == COUNTER;
    if (how & LINES && (is_json || member == STEPS || member == SAMPLES))
        change(b, text, size, !is_json);
    else
        replace(b, text, size);
}

/* The facts, from which figures are made as far as they fit the lists of the run. */
static int bend_facts(struct fx *x, json_t *j)
{
    struct rp_err err = {0};
    struct rp_run_documents *fit = rp_run_documents_read(j, x->run, &err);
    rp_run_documents_free(fit);
    if (!fit)
        return -1;
    fx_restore(x->facts, j);
    if (fx_make(x, NULL, NULL, &err) < 0)
        return -1;
    json_object_set(x->run, "agreement", json_object_get(honest.run, "agreement"));
    return 0;
}

static int bend_recipe(struct fx *x, const char *text, size_t size)
{
    struct rp_err err = {0};
    struct rp_plan plan = {0};
    if (rp_recipe_parse(&x->recipe, text, size, "tiny.yaml", "cuda", NULL, 0, &err) < 0) {
        x->recipe = honest.recipe;
        return -1;
    }
    const struct rp_device_opts device = {.isa = "avx2", .threads = 1};
    return rp_train_plan(&plan, &x->recipe, NULL, &rp_backend_cpu, &device, rp_backend_cpu.memory(&device), &err);
}

/* The parts from which all figures are made. Text that is none of them is put into the bundle as it is, by
 * bend_sealed(). */
static int bend_source(struct fx *x, int member, int how, const char *text, size_t size)
{
    struct rp_err err = {0};
    json_t **capture = member == BEFORE ? &x->before : &x->after;
    if (member == STEPS || member == SAMPLES) {
        bend_member(member == STEPS ? &x->steps : &x->telemetry, member, how, text, size);
    } else if (member == RECIPE) {
        if (bend_recipe(x, text, size) < 0)
            return -1;
    } else {
        RP_BUF again = {0};
        rp_json_write(&again, member == FACTS ? x->facts : *capture);
        bend_member(&again, member, how, text, size);
        RP_JSON *j = rp_json_parse(rp_buf_text(&again), again.size, "bent", &err);
        const struct rp_schema *schema = member == FACTS ? rp_facts_schema("facts", &err) : rp_schema_load("env", &err);
        if (!j || rp_schema_check(schema, j, "bent", &err) < 0)
            return -1;
        if (member == FACTS)
            return bend_facts(x, j);
        json_decref(*capture);
        *capture = json_incref(j);
    }
    return fx_documents(x, "complete", NULL, &err);
}

static struct rp_buf *bytes_of(struct rp_bundle *b, const char *name)
{
    struct rp_err err;
    if (!rp_bundle_find(b, name))
        MUST(rp_bundle_add(b, name, "", 0, &err) == 0);
    return attack_bytes(b, name);
}

static void countersign(struct rp_bundle *b, const struct rp_key_pair *key)
{
    struct rp_err err;
    struct rp_countersignature c = {
        .role = "reviewer", .at = "2026-11-21T06:27:54Z", .program = "repro 1", .note = "n"};
    struct rp_buf *seal = bytes_of(b, members[COUNTER]), *pem;
    MUST(rp_countersign_seal(seal, &c, attack_bytes(b, members[STATEMENT]), key, &err) == 0);
    pem = bytes_of(b, members[COUNTER + 1]);
    rp_key_public_pem(key, pem);
}

/* 1: the member has other bytes than the honest one. */
static int bend_sealed(struct rp_bundle *b, int member, int how, const char *text, size_t size)
{
    const char *name = members[member];
    int added = !rp_bundle_find(b, name);
    if (member >= COUNTER) {
        countersign(b, how & AS_SIGNED ? attacker : author);
        added = 0;
    }
    struct rp_buf *is = bytes_of(b, name);
    RP_BUF was = {0};
    rp_buf_add(&was, is->data, is->size);
    if (member == STATEMENT && !(how & AS_SIGNED)) {
        struct rp_envelope e;
        struct rp_err err;
        MUST(rp_dsse_parse(&e, is->data, is->size, &err) == 0);
        bend_member(&e.payload, member, how, text, size);
        attack_sign(b, NULL, NULL, &e.payload, attacker);
        rp_envelope_fini(&e);
        return 1;
    }
    bend_member(is, member, how, text, size);
    int other = added || !rp_buf_is(&was, is->data, is->size);
    if (!(how & AS_SIGNED) && member < STATEMENT + 2) {
        attack_sums(b, name, attacker);
        attack_sign(b, honest.facts, honest.run, NULL, attacker);
    }
    return other;
}

/* ---- the verdict ---- */

static double rate(const struct rp_step_record *r, int64_t until)
{
    return r->samples / ((double)(until - r->start_ns) * 1e-9);
}

/* Between the slowest and the fastest step, whatever the estimator is. */
static void follows(const struct rp_verification *v, const struct rp_verified *kept)
{
    const double value = v->run->figures.results.throughput.value;
    double low = INFINITY, high = 0;
    const struct rp_step_record *r = kept->run.records.r;
    for (int64_t i = 0; i < kept->run.records.n; i++) {
        int64_t next = i + 1 < kept->run.records.n && r[i + 1].start_ns > r[i].end_ns ? r[i + 1].start_ns : r[i].end_ns;
        if (r[i].step < 0)
            continue;
        low = fmin(low, rate(&r[i], next));
        high = fmax(high, rate(&r[i], r[i].end_ns));
    }
    MUST(isnan(value) || (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)));
}

/* Whoever goes on with a bundle that verified. */
static void use(const struct rp_verification *v, const struct rp_verified *kept)
{
    struct rp_err err = {0};
    struct rp_rows rows = {0};
    RP_BUF page = {0}, markdown = {0}, log = {0};
    struct rp_shown_bundle b = {.name = "x.repro.tar.zst", .v = v, .kept = kept};
    rp_page_html(&page, &b, 1);
    rp_page_markdown(&markdown, &b, 1);
    MUST(!strstr(page.data, "<script"));
    RP_JSON *row = rp_result_to_json(rp_rows_add_verified(&rows, v, kept));
    struct rp_export_source from = {.verification = v, .kept = kept, .name = "x", .result = row, .status = "onprem"};
    for (const struct rp_exporter *e = rp_exporters; e->name; e++)
        if (e->write(&log, &from, &err) < 0)
            MUST(err.code != RP_BUG && *err.msg);
    rp_rows_fini(&rows);
}

static void show(const struct rp_verification *v)
{
    RP_BUF text = {0}, ascii = {0};
    RP_JSON *j = rp_verification_json(v);
    rp_verification_text(&text, RP_FILL_TEXT, j, NULL, 1, 0);
    printable(rp_buf_text(&text), 1);
    rp_json_write_ascii(&ascii, j);
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        printable(v->check[i].text, 0);
}

static enum rp_verdict judge(const char *path, struct rp_verify_opts o, int member)
{
    struct rp_verification v;
    struct rp_verified kept = {0};
    struct rp_err err = {0};
    o.keep = &kept;
    int rc = rp_verify(&v, path, &o, &err), refused = 0;
    enum rp_verdict verdict = v.verdict;
    for (int i = 0; i < RP_CHECK_COUNT; i++)
        refused += v.check[i].state == RP_CHECK_FAILED;
    MUST((rc < 0) == (verdict <= RP_VERDICT_POLICY) && verdict != RP_VERDICT_INCONCLUSIVE);
    MUST((rc < 0) == (refused > 0 || verdict == RP_VERDICT_OTHER_VERSION));
    MUST(rc == 0 || (err.code != RP_OK && err.code != RP_BUG && err.code != RP_IO && *err.msg));
    printable(err.msg, 0);
    show(&v);
    if (rc == 0) {
        follows(&v, &kept);
        MUST(member == RUN || member == RECIPE || member == STEPS ||
             json_equal(json_object_get(v.run->figures_json, "results"), json_object_get(honest.run, "results")));
        use(&v, &kept);
    }
    rp_verified_fini(&kept);
    rp_verification_fini(&v);
    return verdict;
}

/* The bundle with what follows from the bent part made again. 0, or -1: the part is not even one that could be made
 * into others. */
static int bend_all(struct rp_bundle *b, int member, int how, const char *text, size_t size)
{
    struct fx x;
    copy_fx(&x);
    int failed = bend_source(&x, member, how, text, size) < 0;
    if (!failed)
        honest_seal(b, &x, attacker);
    if (x.recipe.source.data == honest.recipe.source.data)
        x.recipe = (struct rp_recipe){0};
    fx_fini(&x);
    return failed ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rp_bundle b;
    char path[64];
    if (!size)
        return 0;
    start();
    const char *text = (const char *)data + 1;
    int member = *data & 15, how = *data & ~15, is_signed = !!(how & AS_SIGNED), other = 1;
    if (is_signed || !(how & FIGURES) || member == RUN || member > FACTS ||
        bend_all(&b, member, how, text, size - 1) < 0) {
        copy_bundle(&b, &by[is_signed]);
        other = bend_sealed(&b, member, how, text, size - 1);
    }
    int fd = honest_file(&b, path), taken = rp_verdict_shows(judge(path, (struct rp_verify_opts){0}, member));
    MUST(!is_signed || taken != other);
    if (taken) {
        enum rp_verdict again = judge(path, (struct rp_verify_opts){.original = first}, member);
        MUST(!is_signed || again != RP_VERDICT_FAILED);
        MUST(judge(path, (struct rp_verify_opts){.policy = &policy}, member) == RP_VERDICT_POLICY);
        /* who asks for the author */
        MUST(is_signed || judge(path, (struct rp_verify_opts){.trust = authors}, member) == RP_VERDICT_FAILED);
    }
    MUST(!tap_failures);
    close(fd);
    rp_bundle_fini(&b);
    return 0;
}
