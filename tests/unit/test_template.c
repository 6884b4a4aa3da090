/* Documents as text: figures, sections, lists and columns of a template. */
#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "report/figure.h"
#include "report/template.h"
#include "tests/unit/tap.h"

#include <jansson.h>

static void check_shown(int line, enum rp_fill as, const char *json, const char *template, const char *expected)
{
    RP_BUF text = {0};
    json_t *document = json_loads(json, 0, NULL);
    CHECK(document, "the document of line %d", line);
    rp_show(&text, as, document, template);
    json_decref(document);
    if (strcmp(rp_buf_text(&text), expected) != 0)
        CHECK(0, "line %d: '%s'", line, rp_buf_text(&text));
}
#define SHOWN(json, template, expected) check_shown(__LINE__, RP_FILL_TEXT, json, template, expected)
#define COLOURED(json, template, expected) check_shown(__LINE__, RP_FILL_COLOURED, json, template, expected)

TEST(figure_is_in_its_form)
{
    SHOWN("{\"n\": 3, \"x\": 0.5, \"list\": [\"a\", \"b\"]}", "{/n t} {/x d1*100} {/list t} {/none t}", "3 50.0 a b -");
    SHOWN("{\"digest\": \"0123456789\"}", "{/digest t4} {/digest t10}", "0123... 0123456789");
    SHOWN("{\"n\": 1536, \"word\": \"x\"}", "{/n b} {/word b}", "1.5 KiB -");
    SHOWN("{\"one\": 1, \"two\": 2}", "line{/one s}, line{/two s}", "line, lines");
    SHOWN("{\"at\": \"2026-11-27T12:00:00Z\", \"n\": 3}", "{/at a} {/n a}", "2026-11-27 -");
}

TEST(figure_with_a_width_is_filled_up_with_blanks)
{
    SHOWN("{\"n\": 7, \"word\": \"ab\", \"u\": \"\u00e4\"}", "{/n t 3}|{/word t -4}|{/u t 2}|{/u t -2}|",
          "  7|ab  | \u00e4|\u00e4 |");
    SHOWN("{\"word\": \"longer\"}", "{/word t 3}|{/word t -3}|{/none t 2}|", "longer|longer| -|");
}

TEST(state_is_coloured_on_a_terminal)
{
    const char *json = "{\"good\": \"passed\", \"bad\": \"failed\", \"other\": \"x\"}";
    const char *template = "{/good c:passed=32,FAILED=31 -7}|{/bad c:passed=32,FAILED=31}|{/other c:xy=31,passed=32}\n";
    SHOWN(json, template, "passed |FAILED|x\n");
    COLOURED(json, template, "\033[32mpassed \033[0m|\033[31mFAILED\033[0m|x\n");
    COLOURED(json, "{/good c:passed=32}\ta\nlonger\tb\n", "\033[32mpassed\033[0m  a\nlonger  b\n");
    COLOURED("{\"t\": \"\\u001b[31mpassed\"}", "{/t c:passed=32}", " [31mpassed");
}

static void check_wrapped(int line, int width, const char *template, const char *expected)
{
    RP_BUF text = {0};
    json_t *document = json_object();
    rp_show_wrapped(&text, RP_FILL_TEXT, document, template, width);
    json_decref(document);
    if (strcmp(rp_buf_text(&text), expected) != 0)
        CHECK(0, "line %d: '%s'", line, rp_buf_text(&text));
}

TEST(last_cell_is_wrapped_below_its_beginning)
{
    check_wrapped(__LINE__, 12, "a\tone two three\n", "a  one two\n   three\n");
    check_wrapped(__LINE__, 10, "a\tone two three\n", "a  one two\n   three\n"); /* to the last column */
    check_wrapped(__LINE__, 9, "a\tone two three\n", "a  one\n   two\n   three\n");
    check_wrapped(__LINE__, 0, "a\tone two three\n", "a  one two three\n");
    check_wrapped(__LINE__, 10, "one two three four\nx\n", "one two\n  three\n  four\nx\n");
    /* its column is too far to the right */
    check_wrapped(__LINE__, 8, "name of it\tone two\n", "name of it  one\n    two\n");
    check_wrapped(__LINE__, 4, "unbreakable x\n", "unbreakable\n  x\n");
    /* characters, not bytes */
    check_wrapped(__LINE__, 7, "\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4 b\n",
                  "\u00e4\u00e4\u00e4 \u00e4\u00e4\u00e4\n  b\n");
}

TEST(interval_of_equal_ends_is_one_number)
{
    SHOWN("{\"r\": [1.04e9, 1.01e9]}", "{/r i1*1e-9} {/r i2*1e-9}", "1.0 1.04 - 1.01");
    SHOWN("{\"s\": [9.987, 9.999], \"m\": [99.87, 99.99], \"l\": [998.7, 1001]}", "{/s i} {/m i} {/l i}",
          "9.99 - 10.00 99.9 - 100.0 999 - 1001");
    SHOWN("{\"s\": [1], \"t\": 1}", "{/s i1} {/t i1} {/none i}", "- - -");
}

TEST(section_is_there_if_its_value_is)
{
    const char *json = "{\"yes\": true, \"no\": false, \"null\": null, \"zero\": 0, \"n\": 7, \"empty\": \"\", "
                       "\"text\": \"t\", \"list\": [], \"x\": 0.5}";
    SHOWN(json, "[/yes:1][/n:2][/text:3][/x:4]", "1234");
    SHOWN(json, "[/no:1][/null:2][/zero:3][/empty:4][/list:5][/none:6]", "");
    SHOWN(json, "[!/yes:1][!/n:2][!/text:3][!/no:4][!/null:5][!/zero:6][!/empty:7][!/list:8][!/none:9]", "456789");
    SHOWN(json, "[/yes:a[/no:b[/n:c]][/n: {/n t}]d]", "a 7d");
    SHOWN(json, "[/no:{/n t}[/n:{/n t}]]e", "e");
}

TEST(section_of_a_list_is_repeated)
{
    SHOWN("{\"list\": [{\"a\": 1}, {\"a\": 2}]}", "[/list:[#:, ]{# t}={/a t}]", "0=1, 1=2");
    SHOWN("{\"list\": [\"x\", \"y\"]}", "[/list:({ t})]", "(x)(y)");
    SHOWN("{\"of\": {\"b/c\": {\"n\": 1}, \"a\": {\"n\": 2}}}", "[/of:{@ t} {/n t};]", "b/c 1;a 2;");
    SHOWN("{\"list\": [{\"in\": [1, 2]}, {\"in\": []}]}", "[/list:<[/in:{ t}][!/in:none]>]", "<12><none>");
}

TEST(columns_are_as_wide_as_their_cells)
{
    SHOWN("{}", "name\r#\ta\nlonger\r123\tb\n", "name      #  a\nlonger  123  b\n");
    SHOWN("{}", "\r1\tx\n\r10\ty\n", " 1  x\n10  y\n");
    SHOWN("{}", "\ta\nb\tc\n", "   a\nb  c\n");
    SHOWN("{}", "a\t\tb\nccc\td\t\n", "a       b\nccc  d\n"); /* no blanks at the end */
    SHOWN("{}", "a\t\tb\nc\t\r\n", "a  b\nc\n"); /* an empty column */
    SHOWN("{}", "a\tb\n\nlonger\tb\n", "a  b\n\nlonger  b\n"); /* two tables */
    SHOWN("{\"u\": \"\u00e4\u00f6\"}", "{/u t}\tb\nxyz\tc", "\u00e4\u00f6   b\nxyz  c");
}

TEST(cell_of_more_than_a_line_does_not_widen_its_column)
{
    char json[200];
    snprintf(json, sizeof json, "{\"long\": \"%081d\", \"wide\": \"%080d\"}", 0, 0);
    RP_FREE char *expected = rp_asprintf("%081d  x\nab  y\n", 0), *wide = rp_asprintf("%080d  x\nab%80sy\n", 0, "");
    SHOWN(json, "{/long t}\tx\nab\ty\n", expected);
    SHOWN(json, "{/wide t}\tx\nab\ty\n", wide);
}

TEST(value_is_neither_markup_nor_layout)
{
    SHOWN("{\"a\": \"[x]{y}\\t\\n\\r\\u001b[0m\", \"b\": [\"{\", \"]\"]}", "{/a t}|[/b:{ t}]\n", "[x]{y}    [0m|{]\n");
    SHOWN("{\"a\": \"[x]\\nb\\n\"}", "{/a l}", "[x]\nb\n");
}

TEST(numbers_of_quantities_are_grouped_and_names_are_not)
{
    static const char *const cases[][2] = {{"110106428", "110,106,428"},
                                           {"999", "999"},
                                           {"1000", "1,000"},
                                           {"-1234567.125 J", "-1,234,567.125 J"},
                                           {"12300 - 4560.75 MB", "12,300 - 4,560.75 MB"},
                                           {"0x1.65ca48p+3", "0x1.65ca48p+3"},
                                           {"580.159.04", "580.159.04"},
                                           {"2026-11-27", "2026-11-27"},
                                           {"avx512 20000", "avx512 20,000"},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        RP_BUF out = {0};
        rp_put_grouped(&out, cases[i][0]);
        CHECK_STR(rp_buf_text(&out), cases[i][1]);
    }
    RP_JSON *j = json_pack("{s:i, s:s, s:{s:s, s:i, s:s}}", "n", 70222, "name", "20261129", "leaf", "state", "ok",
                           "value", 192731, "source", "x");
    static const char *const figures[][3] = {{"/n", "d0", ">70,222<"},
                                             {"/n", "d1/10", ">7,022.2<"},
                                             {"/name", "t", ">20261129<"},
                                             {"/leaf", "r", ">192,731<"}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        RP_BUF out = {0};
        rp_figure(&out, j, "run.json", figures[i][0], figures[i][1]);
        CHECK(strstr(rp_buf_text(&out), figures[i][2]), "%s", rp_buf_text(&out));
    }
}
