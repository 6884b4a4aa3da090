/* The bundle of a command, for tests: made here, sealed, and attacked.
 *
 * What:    struct command: facts, captures, streams and samples of a command whose log is its standard output.
 * Flow:    COMMAND(c); changes of c.facts; derive(&c); command_seal(); verify. attack_command() of a struct bend.
 * Owner:   COMMAND() frees it.
 * Extend:  a member is a line of command_members().
 */
#pragma once

#include "tests/unit/attack.h"

#include "run/derive.h"
#include "run/seal.h"

#define FACTS "facts.json"
#define RUN "run.json"
#define START_NS 5000000000 /* by the clock of the host */
#define OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const char log_text[] = "step,timestamp,loss\n0,0.0,2.5\n1,0.5,2.5\n2,1.0,2.4\n3,1.5,2.4\n4,2.0,2.4\n";

struct command {
    struct fx x; /* captures, times, build */
    struct rp_run_documents doc;
    struct rp_command_facts *facts;
    struct rp_buf out, errors, file;
    struct rp_buf samples[2]; /* of its devices */
};

static void command_fini(struct command *c)
{
    json_decref(c->doc.facts_json);
    json_decref(c->doc.figures_json);
    rp_object_fini(c->doc.command, &rp_type_command_facts);
    rp_object_fini(c->doc.observed, &rp_type_command_figures);
    free(c->doc.command);
    free(c->doc.observed);
    rp_buf_fini(&c->out);
    rp_buf_fini(&c->errors);
    rp_buf_fini(&c->file);
    for (int i = 0; i < 2; i++)
        rp_buf_fini(&c->samples[i]);
    fx_fini(&c->x);
}

static void name_file(struct rp_command_facts *f, const char *role, const char *name)
{
    struct rp_named_file *one = rp_object_add(&f->file, &f->file_n, &rp_type_named_file);
    one->role = rp_strdup(role);
    one->name = rp_strdup(name);
    one->bytes = 5;
    RP_FORMAT(one->sha256, "%s", FX_ROOT);
    one->existed = 1;
}

static void derive(struct command *c)
{
    struct rp_err err = {0}, why = {0};
    const struct rp_captures node = {c->x.before, c->x.after};
    char at[RP_MEMBER_NAME];
    const char *log = rp_command_log_member(at, c->facts);
    rp_object_fini(c->doc.observed, &rp_type_command_figures);
    CHECK(rp_derive_command(c->doc.observed, c->facts, &node,
                            !log                              ? NULL
                            : strcmp(log, RP_LOG_STDOUT) == 0 ? &c->out
                            : strcmp(log, RP_LOG_STDERR) == 0 ? &c->errors
                                                              : &c->file,
                            &why, &err) == 0,
          "%s", err.msg);
    for (int i = 0; i < c->facts->device_n; i++) {
        struct rp_telemetry t;
        const struct rp_command_process *p = &c->facts->process[c->facts->device[i].process];
        if (!c->samples[i].size)
            continue;
        const int failed = rp_telemetry_parse(&t, "samples", 4096, c->samples[i].data, c->samples[i].size, &err) < 0;
        CHECK(!failed, "%s", err.msg);
        if (failed)
            continue;
        rp_derive_device(c->doc.observed, i, &t, p);
        rp_telemetry_fini(&t);
    }
    rp_derive_devices(c->doc.observed);
    rp_run_documents_write(&c->doc);
}

/* 1.5 s on node 0. */
static void add_process(struct command *c)
{
    struct rp_command_process *p = rp_object_add(&c->facts->process, &c->facts->process_n, &rp_type_command_process);
    p->node = 0;
    p->exit_status = 0;
    p->stopped = 0;
    p->start_ns = START_NS;
    p->end_ns = START_NS + 1500000000;
    p->user_s = 1.25;
    p->system_s = 0;
    p->peak_rss_bytes = 1 << 20;
    p->standard_output = rp_alloc(sizeof *p->standard_output);
    p->standard_error = rp_alloc(sizeof *p->standard_error);
    p->clock = (struct rp_clock_facts){0};
}

/* A complete command whose log is its standard output: 4 steps of 64 samples in 2 s. */
static void command_init(struct command *c)
{
    static const char *const words[] = {"python", "train.py", "--lr", "1e-5"};
    *c = (struct command){.doc = {.references = 1}};
    fx_init(&c->x);
    fx_capture_both(&c->x, "cpu", "threads", json_integer(8));
    struct rp_command_facts *f = c->facts = c->doc.command = rp_alloc(sizeof *f);
    c->doc.observed = rp_alloc(sizeof *c->doc.observed);
    rp_object_read(f, &rp_type_command_facts, c->x.facts); /* what both kinds have */
    f->name = rp_strdup("python");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        rp_texts_add(&f->argv, &f->argv_n, rp_strdup(words[i]));
    f->ended_by = 0;
    f->no_telemetry = rp_strdup("no GPU was found");
    add_process(c);
    f->log = rp_alloc(sizeof *f->log);
    rp_object_init(f->log, &rp_type_log_facts);
    f->log->format = rp_strdup("csv");
    f->log->from = rp_strdup("stdout");
    f->log->name = rp_strdup("python");
    f->log->unit = rp_strdup("images/s");
    rp_texts_add(&f->log->set, &f->log->set_n, rp_strdup("global_batch=64"));
    name_file(f, "input", "train.py");
    name_file(f, "output", "model.pt");
    rp_buf_puts(&c->out, log_text);
    rp_buf_puts(&c->errors, "a warning\n");
    f->log->process = 0;
    f->process->standard_output->bytes = (int64_t)c->out.size;
    f->process->standard_error->bytes = (int64_t)c->errors.size;
    derive(c);
}

static struct command command_new(void)
{
    struct command c;
    command_init(&c);
    return c;
}
#define COMMAND(c) __attribute__((cleanup(command_fini))) struct command c = command_new()

static void command_members(struct rp_bundle *b, const struct command *c)
{
    *b = (struct rp_bundle){0};
    fx_add_json(b, FACTS, c->doc.facts_json);
    fx_add_json(b, RUN, c->doc.figures_json);
    fx_add_json(b, RP_OF_NODE(0, ".before.json"), c->x.before);
    fx_add_json(b, RP_OF_NODE(0, ".after.json"), c->x.after);
    fx_add(b, RP_LOG_STDOUT, rp_buf_text(&c->out), c->out.size);
    fx_add(b, RP_LOG_STDERR, rp_buf_text(&c->errors), c->errors.size);
    for (int i = 1; i < c->facts->process_n; i++) {
        if (!c->facts->process[i].standard_output)
            continue;
        fx_add(b, RP_OF_PROCESS(i, ".stdout"), "", 0);
        fx_add(b, RP_OF_PROCESS(i, ".stderr"), "", 0);
    }
    for (int i = 0; i < c->facts->device_n; i++)
        if (c->samples[i].size)
            fx_add(b, RP_OF_DEVICE(i), c->samples[i].data, c->samples[i].size);
    if (c->facts->log && c->facts->log->file)
        fx_add(b, RP_LOG_FILE, rp_buf_text(&c->file), c->file.size);
}

static void command_seal(const struct command *c, const char *key, const char *file)
{
    struct rp_err err = {0};
    struct rp_bundle b;
    RP_FREE char *path = fx_path(file);
    FX_KEY *k = fx_key(key);
    command_members(&b, c);
    RP_BUF bytes = {0};
    int failed = rp_bundle_seal(&b, k, &bytes, &err) < 0 || rp_write_file(path, bytes.data, bytes.size, 0644, &err) < 0;
    CHECK(failed == 0, "seal: %s", err.msg);
    rp_bundle_fini(&b);
}

static __attribute__((unused)) void replace_text(char **to, const char *text)
{
    free(*to);
    *to = rp_strdup(text);
}

static __attribute__((unused)) void attack_command(const struct command *c, const struct bend *r)
{
    command_seal(c, attack_signer(r), "attack");
    attack_sealed(r, c->doc.facts_json, c->doc.figures_json);
    attack_expect(r->name, NULL, r->check, r->status);
}
