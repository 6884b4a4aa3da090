/* The run in context: the run that it replicates, the earlier attempts of its signer, and countersignatures, as the
 * bundle gives them. What a ledger, the original and trusted keys add depends on the reader, and is in the box. */
#include "page/section.h"

#include "base/json.h"
#include "report/tables.h"

#include <stdio.h>

void rp_section_agreement(struct rp_section *s)
{
    rp_section_fill(s, "<p>With the same settings and data, this run repeats the one in {/replicates/bundle t}, whose "
                       "statement has SHA-256 <code>{/replicates/statement t}</code> and was signed by "
                       "<code>{/replicates/signer t}</code>. The comparison was sealed with this run: <code>repro "
                       "verify BUNDLE --original FIRST</code> computes it again from both bundles.</p>\n");
    rp_section_table(s, rp_table_agreement);
    rp_section_table(s, rp_table_differences);
}

static void put_ledger_remarks(struct rp_section *s)
{
    const struct rp_ledger_facts *ledger = &s->facts->ledger;
    if (ledger->position == 1)
        rp_section_fill(s, "<p><b>The ledger begins with this run</b>: runs before it are not recorded.</p>\n");
    if (ledger->begun)
        rp_section_fill(s, "<p>The ledger begins at {/ledger/begun t}.</p>\n");
    if (ledger->key_made)
        rp_section_fill(
            s, "<p>Its key was made at {/ledger/key_made t}, known from its {/ledger/key_made_known_from t}.</p>\n");
    if (ledger->overlapping > 0)
        rp_section_fill(s, "<p>Other runs of that ledger in progress when it began: <b>{/ledger/overlapping d0}</b>. "
                           "The machine may have been shared.</p>\n");
    if (ledger->container_layer)
        rp_section_fill(s, "<p>The ledger lies on the layer of a container and is lost with it.</p>\n");
}

void rp_section_attempts(struct rp_section *s)
{
    if (s->facts->ledger.reason) {
        rp_section_fill(
            s,
            "<p>This run is not in a ledger, so the number of earlier attempts is unknown: {/ledger/reason t}.</p>\n");
        return;
    }
    rp_section_fill(
        s,
        s->b->v->run->command
            ? "<p>The command was started in line {/ledger/position d0} of its signer&#39;s ledger, the line with "
              "digest <code>"
              "{/ledger/head t}</code>. Attempts with the same words and inputs before it, according to that ledger: "
              "<b>"
              "{/ledger/earlier d0}</b>.</p>\n"
            : "<p>The run was started in line {/ledger/position d0} of its signer&#39;s ledger, the line with digest "
              "<code>"
              "{/ledger/head t}</code>. Runs of this recipe that were started before it, according to that ledger: <b>"
              "{/ledger/earlier d0}</b>.</p>\n");
    put_ledger_remarks(s);
    rp_section_fill(s,
                    "<p>The ledger itself is not in the bundle. Request it from the signer: <code>repro "
                    "verify BUNDLE --ledger FILE</code> finds the line and counts how the other attempts ended.</p>\n");
}

static void put_signature_figure(struct rp_section *s, const json_t *all, int64_t i, const char *key, const char *form)
{
    char pointer[64];
    rp_figure(s->out, all, RP_OF_SIGNATURES, RP_FORMAT(pointer, "/%lld/%s", (long long)i, key), form);
}

void rp_section_signatures(struct rp_section *s)
{
    const struct rp_countersigned_list *list = s->b->v->signatures;
    RP_JSON *all = rp_countersigned_json(s->b->v);
    rp_html_table(s->out, "Each signature is valid; its role is the one that its signer claims",
                  "role and time|key and note");
    for (int64_t i = 0; list && i < list->row_n; i++) {
        const struct rp_countersigned_answer *row = &list->row[i];
        rp_buf_printf(s->out, "<tr><th scope=\"row\">%s", rp_countersign_says(row) ? "says to be: " : "");
        put_signature_figure(s, all, i, "role", "t");
        rp_buf_puts(s->out, "<span class=\"below when\">");
        put_signature_figure(s, all, i, "at", "t");
        rp_buf_puts(s->out, "</span></th><td><code>");
        rp_html_text(s->out, row->fingerprint);
        rp_buf_puts(s->out, "</code>");
        if (row->replication) {
            rp_buf_puts(s->out, "<span class=\"below\">with the replication <code>");
            put_signature_figure(s, all, i, "replication", "t");
            rp_buf_puts(s->out, "</code></span>");
        }
        if (*row->note) {
            rp_buf_puts(s->out, "<span class=\"below\">");
            put_signature_figure(s, all, i, "note", "q");
            rp_buf_puts(s->out, "</span>");
        }
        rp_buf_puts(s->out, "</td></tr>\n");
    }
    rp_html_table_end(s->out);
}
