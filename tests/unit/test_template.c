/* Documents as text: figures, sections, lists and columns of a template. */
#include "base/buf.h"
#include "report/template.h"
#include "tests/unit/tap.h"

#include <jansson.h>

static void check_shown(int line, const char *json, const char *template, const char *expected)
{
    RP_BUF text = {0};
    json_t *document = json_loads(json, 0, NULL);
    CHECK(document, "the document of line %d", line);
    rp_show(&text, document, template);
    json_decref(document);
    if (strcmp(rp_buf_text(&text), expected) != 0)
        CHECK(0, "line %d: '%s'", line, rp_buf_text(&text));
}
#define SHOWN(json, template, expected) check_shown(__LINE__, json, template, expected)

TEST(figure_is_in_its_form)
{
    SHOWN("{\"n\": 3, \"x\": 0.5, \"list\": [\"a\", \"b\"]}", "{/n t} {/x d1*100} {/list t} {/none t}", "3 50.0 a b -");
    SHOWN("{\"digest\": \"0123456789\"}", "{/digest t4} {/digest t10}", "0123... 0123456789");
    SHOWN("{\"n\": 1536, \"word\": \"x\"}", "{/n b} {/word b}", "1.5 KiB -");
    SHOWN("{\"one\": 1, \"two\": 2}", "line{/one s}, line{/two s}", "line, lines");
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

TEST(value_is_neither_markup_nor_layout)
{
    SHOWN("{\"a\": \"[x]{y}\\t\\n\\r\\u001b[0m\", \"b\": [\"{\", \"]\"]}", "{/a t}|[/b:{ t}]\n", "[x]{y}    [0m|{]\n");
    SHOWN("{\"a\": \"[x]\\nb\\n\"}", "{/a l}", "[x]\nb\n");
}
