/* Bundles with all that puts a run into context: a ledger, a run that they replicate, a countersignature. */
#pragma once

#include "base/clock.h"
#include "base/text.h"
#include "ledger/ledger.h"
#include "page/page.h"
#include "sign/countersign.h"
#include "tests/unit/agreement_fixture.h"

#define EVIL "<img src=x onerror=alert(1)>&\"'"

/* One verified bundle. */
struct shown {
    struct rp_verification v;
    struct rp_verified kept;
    struct rp_shown_bundle b;
};

static void show(struct shown *s, const char *file, const char *ledger, const char *original)
{
    struct rp_verify_opts o = {.keep = &s->kept, .ledger = ledger, .original = original};
    struct rp_err err = {0};
    RP_FREE char *path = fx_path(file);
    s->kept = (struct rp_verified){0};
    CHECK(rp_verify(&s->v, path, &o, &err) == 0, "%s: %s", file, err.msg);
    s->b = (struct rp_shown_bundle){.name = file, .v = &s->v, .kept = &s->kept};
}

static void shown_fini(struct shown *s)
{
    rp_verification_fini(&s->v);
    rp_verified_fini(&s->kept);
}

/* The words of a page: its text, one element a line, without tags and style. */
static __attribute__((unused)) void said_page(const struct rp_buf *page)
{
    static const char *const within[] = {"data", "code", "bdi", "span", "a", "b"};
    RP_BUF text = {0};
    for (const char *p = page->data; *p;) {
        size_t n = strcspn(p, "<");
        if (strspn(p, " \n") < n)
            rp_buf_add(&text, p, n);
        p += n;
        if (!*p)
            break;
        const char *name = p + 1 + (p[1] == '/');
        if (!RP_IS_IN(within, name, strcspn(name, " >")) && text.size && text.data[text.size - 1] != '\n')
            rp_buf_puts(&text, "\n");
        p = strncmp(name, "style", 5) == 0 ? strstr(p, "</style>") + 7 : strchr(p, '>');
        p++;
    }
    SAID(text.data);
}

/* What a Markdown file has above the report. */
static __attribute__((unused)) void said_markdown(const struct rp_buf *markdown)
{
    const char *end = strstr(markdown->data, "\n# ");
    RP_FREE char *box = rp_asprintf("%.*s", end ? (int)(end - markdown->data) : 0, markdown->data);
    SAID(box);
}

static const char *ledger_signer = "bob.pem";

/* What ends is the run of *mark. */
static void append(const char *path, enum rp_ledger_event e, json_t *fields, struct rp_ledger_ref *mark)
{
    struct rp_err err = {0};
    const struct rp_ledger_ref start = *mark, *of = rp_ledger_end(rp_ledger_event_name(e)) ? &start : NULL;
    FX_KEY *key = fx_key(ledger_signer);
    struct rp_ledger_writer w = {
        .path = path, .named = 1, .key = key, .made_ns = rp_wall_ns(), .by_file = 1, .running = -1};
    CHECK(rp_ledger_append(&w, e, of, fields, mark, &err) == 0, "%s", err.msg);
    rp_closep(&w.running);
}

/* The run cites that entry of the ledger. */
static void say_ledger(struct fx *x, const struct rp_ledger_ref *mark)
{
    set_path(x->facts, "ledger/reason", json_null());
    set_path(x->facts, "ledger/position", json_integer((json_int_t)mark->position));
    set_path(x->facts, "ledger/head", json_string(mark->head));
    set_path(x->facts, "ledger/earlier", json_integer((json_int_t)mark->earlier));
    set_path(x->facts, "ledger/at", json_string(mark->at));
    set_path(x->facts, "ledger/begun", json_string(mark->begun));
    set_path(x->facts, "ledger/key_made", json_string(mark->made));
    set_path(x->facts, "ledger/key_made_known_from", json_string("file"));
}

static void countersign(const char *file, const char *to)
{
    struct rp_err err;
    struct rp_bundle b;
    RP_BUF envelope = {0}, pem = {0}, packed = {0};
    RP_FREE char *path = fx_path(file), *path_to = fx_path(to);
    struct rp_countersignature c = {
        .role = "replicator", .at = "2026-11-21T06:27:54Z", .program = "repro 0.1.0", .note = "seen " EVIL};
    FX_KEY *k = fx_key("carol.pem");
    CHECK(rp_bundle_open(&b, path, &err) == 0, "%s", err.msg);
    CHECK(rp_countersign_seal(&envelope, &c, &rp_bundle_find(&b, "statement.dsse.json")->bytes, k, &err) == 0, "%s",
          err.msg);
    rp_key_public_pem(k, &pem);
    fx_add(&b, "signatures/0.dsse.json", envelope.data, envelope.size);
    fx_add(&b, "signatures/0.pem", pem.data, pem.size);
    CHECK(rp_bundle_pack(&b, &packed, &err) == 0 && rp_write_file(path_to, packed.data, packed.size, 0644, &err) == 0,
          "%s", err.msg);
    rp_bundle_fini(&b);
}

/* second.zst repeats first.zst after two attempts of which one failed, signed.zst is countersigned. */
static char *ledger_file;

static __attribute__((unused)) void make_bundles(void)
{
    struct fx x;
    struct rp_ledger_ref mark = {0};
    struct shown second;
    if (ledger_file)
        return;
    second_run(&x);
    say_agreement(&x);
    set_path(x.facts, "replicates/bundle", json_string("first" EVIL ".zst"));
    ledger_file = fx_path("ledger.jsonl");
    const char *recipe = json_string_value(json_object_get(x.run, "recipe_sha256"));
    append(ledger_file, RP_LEDGER_STARTED, json_pack("{s:s, s:s}", "recipe", recipe, "recipe_name", "tiny"), &mark);
    append(ledger_file, RP_LEDGER_FAILED, json_pack("{s:s}", "recipe", recipe), &mark);
    append(ledger_file, RP_LEDGER_STARTED, json_pack("{s:s, s:s}", "recipe", recipe, "recipe_name", "tiny"), &mark);
    append(ledger_file, RP_LEDGER_STARTED, json_pack("{s:s, s:s}", "recipe", recipe, "recipe_name", "tiny"), &mark);
    say_ledger(&x, &mark);
    seal_second(&x);
    show(&second, "second.zst", NULL, NULL);
    append(ledger_file, RP_LEDGER_SEALED,
           json_pack("{s:s, s:{s:s, s:s}}", "recipe", recipe, "bundle", "name", "second.zst", "statement",
                     second.v.statement),
           &mark);
    shown_fini(&second);
    fx_fini(&x);
    countersign("second.zst", "signed.zst");
}
