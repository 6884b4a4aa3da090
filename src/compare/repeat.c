/* How to repeat a bundle, the sections that Paddle's report left empty: environment, docker flags, steps, commands. */
#include "compare/layout.h"

#include "base/json.h"
#include "base/text.h"
#include "bundle/bundle.h"
#include "capture/value.h"
#include "report/escape.h"
#include "run/run.h"

#include <inttypes.h>
#include <string.h>

static void put_environment(struct rp_doc *d, const struct rp_result *row)
{
    const json_t *probes = rp_group(row->environment, "probes");
    rp_doc_title(d, "Environment");
    rp_doc_table(d, "quantity|value");
    rp_layout_turned(d, RP_TABLE_paddle_environment, &(struct rp_line){.row = row});
    rp_doc_line(d, "Docker flags, inferred by the launch probe from what was in effect, as the capture has them");
    const char *command = rp_known_text(probes, "launch.command");
    RP_FREE char *words = command ? rp_shell_words(command, "docker run") : NULL;
    RP_FREE char *whole = command && !words ? rp_shell_word(command) : NULL; /* which no honest capture has */
    if (command)
        rp_doc_command(d, "%s", words ? words : whole);
    else
        rp_doc_line(d, "%s: the probe did not recognize a container (%s)", RP_NO_EVIDENCE,
                    rp_state_at(probes, "launch.command"));
}

static void put_steps(struct rp_doc *d, const struct rp_result *row)
{
    const struct rp_results *r = &row->run->figures.results;
    const char *window = row->timed_window ? row->timed_window : RP_UNKNOWN;
    const char *estimator = row->estimator ? row->estimator : RP_UNKNOWN;
    rp_doc_line(d,
                "Steps: %" PRId64 " of warm-up, then %" PRId64 " timed in %" PRId64
                " repeat%s; timed window: %s; estimator: %s",
                r->steps.warm_up, r->steps.timed, r->windows_n, rp_s(r->windows_n), window, estimator);
}

/* A file name for the recipe in the bundle: its name without "embedded:" and without folders. Never one that another
 * program reads: .bashrc. */
static char *recipe_file(const char *recipe)
{
    static const char prefix[] = "embedded:";
    int embedded = strncmp(recipe, prefix, sizeof prefix - 1) == 0;
    const char *name = rp_base_name(recipe + (embedded ? sizeof prefix - 1 : 0));
    name += strspn(name, ".");
    return rp_asprintf("%s%s", *name ? name : RP_UNKNOWN, embedded || !rp_ends_with(name, ".yaml") ? ".yaml" : "");
}

/* The settings that are neither the recipe's nor defaults. */
static void add_settings(struct rp_buf *line, const struct rp_facts *f)
{
    static const char *const others[] = {"recipe", "default", "backend section"};
    const char *key;
    json_t *entry;
    json_object_foreach(f->recipe, key, entry) {
        const struct rp_recorded is = rp_recorded(entry);
        RP_BUF text = {0};
        if (RP_IS_IN(others, is.origin, strlen(is.origin)))
            continue;
        rp_json_write_plain(&text, is.value);
        RP_FREE char *pair = rp_asprintf("%s=%s", key, rp_buf_text(&text)), *word = rp_shell_word(pair);
        rp_buf_printf(line, " --set %s", word);
    }
}

/* The commands to repeat and check the run. */
static void put_commands(struct rp_doc *d, const struct rp_result *row)
{
    RP_BUF line = {0};
    RP_FREE char *file = rp_shell_word(row->source.file), *plain = recipe_file(row->run->facts.recipe_name);
    RP_FREE char *name = rp_shell_word(plain);
    rp_buf_printf(&line, "repro run %s", name);
    add_settings(&line, &row->run->facts);
    rp_doc_line(d, "Commands: to run it again from the recipe in the bundle, and to check it");
    rp_doc_command(d, "repro inspect %s recipe.yaml > %s", file, name);
    rp_doc_command(d, "%s", rp_buf_text(&line));
    rp_doc_command(d, "repro verify %s --replay 1", file);
    rp_doc_command(d, "repro inspect %s %s", file, RP_OF_RANK(0, ".jsonl"));
}

void rp_bundle_put(struct rp_doc *d, const struct rp_result *row)
{
    rp_doc_heading(d, "%s (%s)", row->source.file, row->source.verdict ? row->source.verdict : RP_UNKNOWN);
    put_environment(d, row);
    put_steps(d, row);
    put_commands(d, row);
}
