/* Texts as tokens: the ids of the public tokenizer (vectors made by tests/oracle/bpe.py), and vocabularies that are
 * refused. */
#include "tests/unit/tap.h"

#include "base/buf.h"
#include "base/json.h"
#include "data/text/bpe.h"
#include "data/text/json_line.h"
#include "data/text/pretokens.h"
#include "tests/unit/scratch.h"

#define VECTORS "tests/vectors/bpe/"

static struct rp_err err;

/* ---- pre-tokens ---- */

static void check_pretokens(const char *text, const char *want)
{
    RP_BUF got = {0};
    for (size_t at = 0, n = strlen(text), length; at < n; at += length) {
        length = rp_pretoken(text + at, n - at);
        rp_buf_printf(&got, "%s%.*s", at ? "|" : "", (int)length, text + at);
    }
    CHECK_STR(rp_buf_text(&got), want);
}

TEST(texts_are_cut_as_by_gpt2s_expression)
{
    static const char *const c[][2] = {
        {"Hello world", "Hello| world"}, {"it's we're I've I'll he'd I'm", "it|'s| we|'re| I|'ve| I|'ll| he|'d| I|'m"},
        {"'S 's '", "'|S| '|s| '"}, {"a1b22 3", "a|1|b|22| 3"}, {"a  b", "a| | b"}, {"a \n b", "a| \n| b"},
        {"a\nb", "a|\n|b"}, {"a\n\nb", "a|\n|\n|b"}, {"  ", "  "}, {"a  ", "a|  "}, {" ", " "}, {"\ta", "\t|a"},
        {"!? .", "!?| ."}, {"'re", "'re"}, {"'r", "'|r"}, {"don''t", "don|''|t"},
        {"\u00e9t\u00e9 \u00bd\u0663 \u4e2d\u6587", "\u00e9t\u00e9| \u00bd\u0663| \u4e2d\u6587"},
        {"e\u0301", "e|\u0301"}, {"a\u00a0\u00a0b", "a|\u00a0|\u00a0|b"},
        {"a \u3000b", "a| |\u3000|b"},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        check_pretokens(c[i][0], c[i][1]);
}

TEST(classes_of_characters)
{
    static const struct {
        unsigned c;
        enum rp_char_class class;
    } c[] = {{0, RP_CHAR_OTHER}, {'A', RP_CHAR_LETTER}, {'z', RP_CHAR_LETTER}, {'0', RP_CHAR_NUMBER},
             {'9', RP_CHAR_NUMBER}, {' ', RP_CHAR_SPACE}, {'\r', RP_CHAR_SPACE}, {0x1c, RP_CHAR_OTHER},
             {0x7f, RP_CHAR_OTHER}, {0x80, RP_CHAR_OTHER}, {0x85, RP_CHAR_SPACE}, {0xaa, RP_CHAR_LETTER},
             {0xb2, RP_CHAR_NUMBER}, {0x301, RP_CHAR_OTHER}, {0x180e, RP_CHAR_OTHER}, {0x200a, RP_CHAR_SPACE},
             {0x200b, RP_CHAR_OTHER}, {0x2160, RP_CHAR_NUMBER},
             {0x1c89, RP_CHAR_LETTER} /* of Unicode 16 */,
             {0x323af, RP_CHAR_LETTER},
             {0x10ffff, RP_CHAR_OTHER}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        CHECK(rp_char_class_of(c[i].c) == c[i].class, "U+%04X is %d", c[i].c, rp_char_class_of(c[i].c));
}

/* ---- ids ---- */

/* The documents against the lines of ids.txt; twice, so that the second time comes from the cache. */
static void check_ids(struct rp_bpe *b)
{
    RP_TOKEN_DOCS docs = {0};
    RP_BUF want = {0};
    int64_t lines = 0;
    CHECK(rp_text_documents(b, VECTORS "texts.jsonl", &docs, NULL, &err) == 0 &&
              rp_text_documents(b, VECTORS "texts.jsonl", &docs, NULL, &err) == 0,
          "%s", err.msg);
    if (!CHECK(rp_read_file(&want, VECTORS "ids.txt", 1 << 20, &err) == 0, "%s", err.msg))
        return;
    for (size_t i = 0; i < want.size; i++)
        lines += want.data[i] == '\n';
    if (!CHECK(docs.n == 2 * lines && lines > 100, "%lld documents, %lld lines", (long long)docs.n, (long long)lines))
        return;
    char *at = want.data;
    size_t k = 0;
    for (int64_t d = 0; d < docs.n; d++) {
        at = d == lines ? want.data : at;
        for (; k < docs.end[d]; k++)
            if (!CHECK(*at != '\n' && strtoul(at, &at, 10) == docs.id[k], "document %lld: id %u", (long long)d,
                       docs.id[k]))
                return;
        CHECK(*at++ == '\n', "document %lld ends too early", (long long)d);
    }
}

TEST(ids_are_those_of_the_public_tokenizer)
{
    struct rp_bpe *b = rp_bpe_load(VECTORS "vocab.json", VECTORS "merges.txt", &err);
    if (!CHECK(b, "%s", err.msg))
        return;
    CHECK(rp_bpe_vocabulary(b) == 500 && rp_bpe_eod(b) == 0);
    check_ids(b);
    rp_bpe_free(b);
    b = rp_bpe_load_tokenizer(VECTORS "tokenizer.json", &err);
    if (CHECK(b, "%s", err.msg))
        check_ids(b);
    rp_bpe_free(b);
}

static int add_text(struct rp_bpe *b, const char *name, const char *text, size_t n, struct rp_token_docs *docs)
{
    return rp_text_documents(b, put_file(name, text, n), docs, NULL, &err);
}

TEST(files_and_lines_are_documents)
{
    static const struct {
        const char *name, *text;
        enum rp_code code;
    } bad[] = {
        {"a.txt", "ab\377c", RP_MALFORMED},
        {"a.txt", "ab\xe2\x82", RP_MALFORMED},
        {"a.jsonl", "{\"text\": \"a\"}\n{\"text\": 1}\n", RP_MALFORMED},
        {"a.json", "{\"text\": \"a\"}\n\n", RP_MALFORMED},
        {"a.jsonl", "[]\n", RP_MALFORMED},
        {"a.jsonl", "{\"text\": \"\\ud800\"}\n", RP_MALFORMED},
    };
    struct rp_bpe *b = rp_bpe_load(VECTORS "vocab.json", VECTORS "merges.txt", &err);
    RP_TOKEN_DOCS docs = {0};
    if (!CHECK(b, "%s", err.msg))
        return;
    CHECK(add_text(b, "a.txt", "the\nfox\n", 8, &docs) == 0 && docs.n == 1);
    CHECK(add_text(b, "a.jsonl", "{\"text\": \"the\"}\n{\"text\": \"\"}\n{\"text\": \"fox\"}", 44, &docs) == 0 &&
              docs.n == 3,
          "%s", err.msg);
    CHECK(add_text(b, "empty.txt", "", 0, &docs) == 0 && docs.n == 3);
    CHECK(add_text(b, "zero.txt", "a\0b", 3, &docs) == 0 && docs.n == 4 && docs.end[3] - docs.end[2] == 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(add_text(b, bad[i].name, bad[i].text, strlen(bad[i].text), &docs) < 0 && err.code == bad[i].code,
                err.msg);
    CHECK(rp_text_documents(b, scratch("none.txt"), &docs, NULL, &err) < 0 && err.code == RP_IO, "%s", err.msg);
    rp_bpe_free(b);
}

/* Lines as Python's json.dumps and other writers of corpora make them: what json.loads of Python 3.11 gives for "text",
 * NULL where it refuses the line or the text cannot be encoded, and a part of the message. */
static const struct {
    const char *line, *text, *why;
} python_lines[] = {
    {"{\"text\": \"a\", \"perplexity\": NaN, \"x\": [Infinity, -Infinity], \"id\": 18446744073709551616, \"y\": "
     "-1e999}",
     "a", NULL},
    {"{\"text\": \"a\", \"meta\": {\"k\": 1, \"k\": 2}, \"text\": \"b\"}\r\n", "b", NULL},
    {"{\"text\": 1, \"te\\u0078t\": \"\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\\\"\\\\\\u00e9\\u4E2D\"}",
     "\U0001f600/\b\f\n\r\t\"\\\u00e9\u4e2d", NULL},
    {"{\"meta\": \"\\ud800\", \"text\": \"\u00e9\"}", "\u00e9", NULL},
    {" \t{ \"a\" : [ ] , \"b\" : { } , \"c\" : [ { \"text\" : \"no\" } , null , true , false , 0.5E+3 ] , \"text\" : "
     "\"yes\" } \n",
     "yes", NULL},
    {"{\"text\": \"\\ud800\"}", NULL, "half of a surrogate pair"},
    {"{\"text\": \"\\ude00\\ud83d\"}", NULL, "half of a surrogate pair"},
    {"{\"text\": \"\\ud83d\\u0041\"}", NULL, "half of a surrogate pair"},
    {"{\"text\": \"a\", \"text\": 1}", NULL, "another type"},
    {"{}", NULL, "found none"},
    {"", NULL, "an empty line"},
    {"\xef\xbb\xbf{\"text\": \"a\"}", NULL, "byte order mark"},
    {"{\"text\": \"a\"} x", NULL, "found 'x'"},
    {"{\"text\": \"a\",}", NULL, "expected a key in double quotes"},
    {"{\"text\": \"a\" \"b\": 1}", NULL, "column 14: expected ',' or '}'"},
    {"{\"text\": \"a\"", NULL, "found the end of the line"},
    {"{\"text\": \"a", NULL, "found the end of the line"},
    {"{'text': 'a'}", NULL, "expected a key in double quotes"},
    {"{\"text\": \"a\tb\"}", NULL, "a control character"},
    {"{\"text\": \"\\x41\"}", NULL, "after a backslash"},
    {"{\"text\": \"\\u12g4\"}", NULL, "four hexadecimal digits"},
    {"{\"text\": \"a\", \"b\": \"\377\"}", NULL, "the byte ff is not UTF-8"},
    {"{\"text\": \"a\", \"b\": 01}", NULL, "found '1'"},
    {"{\"text\": \"a\", \"b\": 1.}", NULL, "found '.'"},
    {"{\"text\": \"a\", \"b\": +1}", NULL, "expected a value"},
    {"{\"text\": \"a\", \"b\": nan}", NULL, "expected a value"},
    {"{\"text\": \"a\", \"b\": [1}", NULL, "expected ',' or ']'"},
    {"[\"text\"]", NULL, "expected an object"},
};

TEST(lines_are_read_as_by_python)
{
    RP_BUF text = {0}, deep = {0};
    for (size_t i = 0; i < sizeof python_lines / sizeof *python_lines; i++) {
        const char *line = python_lines[i].line, *want = python_lines[i].text;
        const int refused = rp_json_line_text(line, strlen(line), &text, &err) < 0;
        if (want)
            CHECK(!refused && rp_buf_is(&text, want, strlen(want)), "%s: %s", line,
                  refused ? err.msg : rp_buf_text(&text));
        else
            CHECK(refused && err.code == RP_MALFORMED && strstr(err.msg, python_lines[i].why), "%s: %s", line,
                  refused ? err.msg : "read");
    }
    CHECK(rp_json_line_text("{\"text\": \"a\\u0000b\"}", 20, &text, &err) == 0 && rp_buf_is(&text, "a\0b", 3));
    CHECK(rp_json_line_text("{\"text\": \"a\0b\"}", 16, &text, &err) < 0 && strstr(err.msg, "\\u0000"), "%s", err.msg);
    rp_buf_puts(&deep, "{\"x\": ");
    for (int i = 0; i < 100000; i++)
        rp_buf_puts(&deep, "[");
    CHECK(rp_json_line_text(deep.data, deep.size, &text, &err) < 0 && strstr(err.msg, "nested deeper"), "%s", err.msg);
}

TEST(lines_that_cannot_be_read_are_left_out_and_counted)
{
    static const char lines[] = "{\"text\": \"the\"}\n\n{\"text\": \"\\ud800\"}\nnull\n{\"text\": \"fox\"}\n";
    struct rp_bpe *b = rp_bpe_load(VECTORS "vocab.json", VECTORS "merges.txt", &err);
    struct rp_text_skipped skipped = {0};
    RP_TOKEN_DOCS docs = {0};
    if (!CHECK(b, "%s", err.msg))
        return;
    CHECK(add_text(b, "a.jsonl", lines, strlen(lines), &docs) < 0 && strstr(err.msg, "line 2: an empty line") &&
              strstr(err.msg, "--skip-bad"),
          "%s", err.msg);
    docs.ids = 0;
    docs.n = 0;
    CHECK(rp_text_documents(b, put_file("a.jsonl", lines, strlen(lines)), &docs, &skipped, &err) == 0 && docs.n == 2 &&
              skipped.lines == 3,
          "%s", err.msg);
    CHECK(strstr(skipped.first.msg, "a.jsonl', line 2: an empty line"), "%s", skipped.first.msg);
    CHECK(rp_text_documents(b, scratch("none.jsonl"), &docs, &skipped, &err) < 0 && err.code == RP_IO, "%s", err.msg);
    rp_bpe_free(b);
}

/* The heap of merges: a word so long that looking at every pair for every merge would take minutes. */
TEST(a_long_word_takes_no_long_time)
{
    enum { LONG = 1 << 20 };
    struct rp_bpe *b = rp_bpe_load(VECTORS "vocab.json", VECTORS "merges.txt", &err);
    RP_TOKEN_DOCS docs = {0};
    RP_FREE char *text = rp_alloc(LONG);
    memset(text, 'a', LONG);
    CHECK(b && rp_bpe_encode(b, text, LONG, &docs, &err) == 0 && docs.ids < LONG, "%s", err.msg);
    rp_bpe_free(b);
}

/* ---- vocabularies that are refused ---- */

/* VECTORS/NAME with the first `from` replaced by `to`, as a file of that name. */
static const char *changed(const char *name, const char *from, const char *to)
{
    RP_BUF file = {0}, out = {0};
    RP_FREE char *path = rp_asprintf(VECTORS "%s", name);
    CHECK(rp_read_file(&file, path, 1 << 20, &err) == 0, "%s", err.msg);
    const char *at = strstr(rp_buf_text(&file), from);
    if (CHECK(at, "%s has no %s", name, from)) {
        rp_buf_add(&out, file.data, (size_t)(at - file.data));
        rp_buf_puts(&out, to);
        rp_buf_puts(&out, at + strlen(from));
    }
    return put_file(name, rp_buf_text(&out), out.size);
}

TEST(vocabularies_that_disagree_are_refused)
{
    static const struct {
        const char *file, *from, *to;
    } c[] = {
        {"vocab.json", "\"a\":65", "\"a\":66"},
        {"vocab.json", "\"a\":65", "\"a\":500"},
        {"vocab.json", "\"a\":65", "\"a\":-1"},
        {"vocab.json", "\"a\":65", "\"a\":\"65\""},
        {"vocab.json", "\"a\":65", "\"a\":65,\"a\":65"},
        {"vocab.json", "\"a\":65", "\"a(\":65"},
        {"vocab.json", "\"<|endoftext|>\":0", "\"<eos>\":0"},
        {"vocab.json", "{", "["},
        {"merges.txt", "t h", "t hh"},
        {"merges.txt", "t h\n", "t h\nt h\n"},
        {"merges.txt", "t h\n", "th\n"},
        {"merges.txt", "t h\n", "t h e\n"},
        {"merges.txt", "t h\n", "t h\n\n"},
        {"merges.txt", "t h\n", "! z\n"},
        {"tokenizer.json", "\"type\": \"BPE\"", "\"type\": \"Unigram\""},
        {"tokenizer.json", "\"add_prefix_space\": false", "\"add_prefix_space\": true"},
        {"tokenizer.json", "\"type\": \"ByteLevel\"", "\"type\": \"Split\""},
        {"tokenizer.json", "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}"},
        {"tokenizer.json", "\"ignore_merges\": false", "\"ignore_merges\": true"},
        {"tokenizer.json", "\"special\": true", "\"special\": false"},
        {"tokenizer.json", "\"id\": 0", "\"id\": 1"},
        {"tokenizer.json", "\"merges\"", "\"merged\""},
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        const char *path = changed(c[i].file, c[i].from, c[i].to);
        struct rp_bpe *b = *c[i].file == 'v'   ? rp_bpe_load(path, VECTORS "merges.txt", &err)
                           : *c[i].file == 'm' ? rp_bpe_load(VECTORS "vocab.json", path, &err)
                                               : rp_bpe_load_tokenizer(path, &err);
        REFUSED(!b && err.code == RP_MALFORMED, err.msg);
        rp_bpe_free(b);
    }
    CHECK(!rp_bpe_load(scratch("none.json"), VECTORS "merges.txt", &err) && err.code == RP_IO);
    REFUSED(!rp_bpe_load(put_file("list.json", "[]", 2), VECTORS "merges.txt", &err) && err.code == RP_MALFORMED,
            err.msg);
    REFUSED(!rp_bpe_load(VECTORS "vocab.json", put_file("nul.txt", "t h\0\n", 5), &err) && err.code == RP_MALFORMED,
            err.msg);
}

/* tokenizer.json with another value at a place. */
TEST(values_of_a_tokenizer_that_are_refused)
{
    static const struct {
        const char *in, *key, *value; /* NULL: nothing there */
        int at;
    } rows[] = {{"model/merges", NULL, "7", 0},       {"model/merges", NULL, "[\"t\"]", 1},
                {"model/merges", NULL, "\"th\"", 1},  {"added_tokens/0", "id", NULL, 0},
                {"added_tokens/0", "id", "\"0\"", 0}, {"added_tokens/0", "content", NULL, 0},
                {"added_tokens/0", "content", "7", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_BUF file = {0}, out = {0};
        CHECK(rp_read_file(&file, VECTORS "tokenizer.json", 1 << 20, &err) == 0, "%s", err.msg);
        RP_JSON *j = rp_json_parse(file.data, file.size, "t", &err);
        json_t *in = (json_t *)rp_json_at(j, rows[i].in),
               *value = rows[i].value ? json_loads(rows[i].value, JSON_DECODE_ANY, NULL) : NULL;
        if (!CHECK(in, "no %s", rows[i].in))
            continue;
        if (!rows[i].key)
            json_array_set_new(in, (size_t)rows[i].at, value);
        else if (value)
            json_object_set_new(in, rows[i].key, value);
        else
            json_object_del(in, rows[i].key);
        rp_json_write(&out, j);
        struct rp_bpe *b = rp_bpe_load_tokenizer(put_file("bent.json", out.data, out.size), &err);
        REFUSED(!b && err.code == RP_MALFORMED, err.msg);
        rp_bpe_free(b);
    }
}

/* Merges as lists of two, as newer versions write them, or as one text. */
TEST(both_forms_of_merges)
{
    RP_JSON *j = NULL;
    RP_BUF file = {0}, out = {0};
    if (!CHECK(rp_read_file(&file, VECTORS "tokenizer.json", 1 << 20, &err) == 0 &&
                   (j = rp_json_parse(file.data, file.size, "t", &err)),
               "%s", err.msg))
        return;
    json_t *merges = json_object_get(json_object_get(j, "model"), "merges"), *m;
    size_t i;
    json_array_foreach(merges, i, m) {
        const char *left = json_string_value(json_array_get(m, 0)), *right = json_string_value(json_array_get(m, 1));
        if (CHECK(left && right)) {
            RP_FREE char *both = rp_asprintf("%s %s", left, right);
            json_array_set_new(merges, i, json_string(both));
        }
    }
    rp_json_write(&out, j);
    struct rp_bpe *b = rp_bpe_load_tokenizer(put_file("old.json", out.data, out.size), &err);
    if (CHECK(b, "%s", err.msg))
        check_ids(b);
    rp_bpe_free(b);
}
