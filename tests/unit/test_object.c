/* Objects of base/object.h: a struct, its JSON and its schema say the same of every type. */
#include "base/json.h"
#include "base/object.h"
#include "bundle/schema.h"
#include "tests/unit/tap.h"

#include <stddef.h>

#define RP_OBJECT_LIST "tests/unit/test_object.def"
#include "base/object_structs.inc.h"
#define RP_OBJECT_LIST "tests/unit/test_object.def"
#include "base/object_tables.inc.h"

#define ID "test/1"
#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static const char full[] =
    "{\"schema\": \"" ID
    "\", \"count\": 100, \"count_or_null\": 0, \"integer\": -9223372036854775807, \"integer_or_null\": 0,"
    "\"number\": 1.5, \"number_or_null\": 0.0, \"either_sign\": -1.5, \"either_sign_or_null\": 0.0, \"yes\": true,"
    "\"yes_or_null\": false, \"text\": \"\\u00e9\\n\\u0001|\", \"text_or_null\": \"\", \"name\": \"a_1\","
    "\"name_or_null\": \"b\", \"time\": \"2026-11-27T14:34:00Z\", \"time_or_null\": \"2026-11-27T14:34:01Z\","
    "\"digest\": \"" DIGEST "\", \"digest_or_null\": \"" DIGEST
    "\", \"colour\": \"red\", \"colour_or_null\": \"green\","
    "\"letters\": \"abc\", \"letters_or_null\": \"a\", \"bits\": {\"value\": 0.10000000149011612, \"hex\": "
    "\"0x1.99999ap-4\"},"
    "\"bits_or_null\": {\"value\": -0.0, \"hex\": \"-0x0p+0\"}, \"range\": [1.0, 2.0], \"range_or_null\": [0.0, 0.0],"
    "\"any\": [1, {\"a\": null}], \"any_or_null\": 7, \"part\": {\"name\": \"p\", \"size\": 3},"
    "\"maybe\": {\"name\": \"m\", \"size\": null}, \"list\": [{\"name\": \"x\", \"size\": 1}, {\"name\": \"y\", "
    "\"size\": null}],"
    "\"texts\": [\"\", \"b\"], \"numbers\": [3, 1, 2]}";

static struct rp_schema *schema_of(void)
{
    struct rp_err err;
    RP_JSON *doc = rp_object_schema(&rp_type_test_every, ID, "A test");
    struct rp_schema *s = rp_schema_new(doc, &err);
    CHECK(s, "%s", err.msg);
    return s;
}

static json_t *document(const struct rp_test_every *x)
{
    json_t *j = rp_object_json(x, &rp_type_test_every);
    json_object_set_new(j, "schema", json_string(ID));
    return j;
}

static json_t *full_document(void)
{
    struct rp_err err;
    json_t *j = rp_json_parse(full, sizeof full - 1, "full", &err);
    CHECK(j, "%s", err.msg);
    return j;
}

static void expect_equal(const json_t *is, const json_t *expected)
{
    RP_BUF a = {0}, b = {0};
    rp_json_write(&a, is);
    rp_json_write(&b, expected);
    CHECK_STR(rp_buf_text(&a), rp_buf_text(&b));
}

static int is_zero(const void *data, size_t size)
{
    const unsigned char *p = data;
    while (size && !*p++)
        size--;
    return !size;
}

/* ---- structs ---- */

TEST(what_is_initialised_is_null_where_it_may_be)
{
    struct rp_test_every x;
    memset(&x, 0x5a, sizeof x);
    rp_object_init(&x, &rp_type_test_every);
    CHECK(x.count == 0 && x.count_or_null == RP_NO_INTEGER && x.integer == 0 && x.integer_or_null == RP_NO_INTEGER,
          "integers");
    CHECK(x.number == 0 && isnan(x.number_or_null) && x.either_sign == 0 && isnan(x.either_sign_or_null), "numbers");
    CHECK(x.yes == 0 && x.yes_or_null == -1, "truth");
    CHECK(!x.text && !x.text_or_null && !x.name && !x.time && !*x.digest && !*x.digest_or_null && !x.colour &&
              !x.letters,
          "texts");
    CHECK(x.bits == 0 && isnan(x.bits_or_null) && x.range[1] == 0 && isnan(x.range_or_null[0]) &&
              isnan(x.range_or_null[1]),
          "floats");
    CHECK(!x.any && !x.any_or_null && !x.maybe && !x.list && !x.list_n && !x.texts && !x.texts_n && !x.numbers &&
              !x.numbers_n,
          "parts");
    CHECK(x.part.size == RP_NO_INTEGER, "a part");
    rp_object_fini(&x, &rp_type_test_every);
    CHECK(is_zero(&x, sizeof x), "something is left");
}

TEST(what_is_read_is_what_the_document_has)
{
    struct rp_test_every x;
    RP_JSON *j = full_document();
    rp_object_read(&x, &rp_type_test_every, j);
    CHECK(x.count == 100 && x.count_or_null == 0 && x.integer == -INT64_MAX && x.integer_or_null == 0, "integers");
    CHECK(x.number == 1.5 && x.number_or_null == 0 && x.either_sign == -1.5 && x.either_sign_or_null == 0, "numbers");
    CHECK(x.yes == 1 && x.yes_or_null == 0, "truth");
    CHECK_STR(x.text, "\xc3\xa9\n\001|");
    CHECK_STR(x.text_or_null, "");
    CHECK_STR(x.time, "2026-11-27T14:34:00Z");
    CHECK_STR(x.digest_or_null, DIGEST);
    CHECK_STR(x.colour_or_null, "green");
    CHECK(x.bits == 0.1f && x.bits_or_null == 0 && signbit(x.bits_or_null), "a float to its last bit");
    CHECK(x.range[0] == 1 && x.range[1] == 2 && json_array_size(x.any) == 2, "a range, and anything");
    CHECK(x.part.size == 3 && x.maybe && x.maybe->size == RP_NO_INTEGER && strcmp(x.maybe->name, "m") == 0, "parts");
    CHECK(x.list_n == 2 && strcmp(x.list[1].name, "y") == 0 && x.list[1].size == RP_NO_INTEGER, "a list");
    CHECK(x.texts_n == 2 && strcmp(x.texts[1], "b") == 0 && x.numbers_n == 3 && x.numbers[2] == 2, "lists of values");
    rp_object_fini(&x, &rp_type_test_every);
    CHECK(is_zero(&x, sizeof x), "something is left");
}

TEST(what_was_read_is_written_again_and_follows_the_schema)
{
    struct rp_err err;
    struct rp_test_every x, again;
    struct rp_schema *s = schema_of();
    RP_JSON *j = full_document();
    CHECK(rp_schema_check(s, j, "full", &err) == 0, "%s", err.msg);
    rp_object_read(&x, &rp_type_test_every, j);
    RP_JSON *written = document(&x);
    expect_equal(written, j);
    CHECK(rp_schema_check(s, written, "written", &err) == 0, "%s", err.msg);
    rp_object_read(&again, &rp_type_test_every, written);
    RP_JSON *twice = document(&again);
    expect_equal(twice, j);
    CHECK(json_object_get(written, "any") != json_object_get(j, "any"), "the struct borrows from the document");
    rp_object_fini(&x, &rp_type_test_every);
    rp_object_fini(&again, &rp_type_test_every);
    rp_schema_free(s);
}

/* Every value that may be null is, and parts and lists are absent or empty. */
TEST(what_is_unknown_is_null_and_never_zero)
{
    struct rp_err err;
    struct rp_test_every x, again;
    struct rp_schema *s = schema_of();
    RP_JSON *j = full_document();
    const char *key;
    json_t *v;
    void *next;
    json_object_foreach_safe(j, next, key, v)
    {
        if (strstr(key, "_or_null"))
            json_object_set_new(j, key, json_null());
        if (strcmp(key, "maybe") == 0 || strcmp(key, "texts") == 0)
            json_object_del(j, key);
        else if (strcmp(key, "list") == 0 || strcmp(key, "numbers") == 0)
            json_object_set_new(j, key, json_array());
    }
    CHECK(rp_schema_check(s, j, "nulls", &err) == 0, "%s", err.msg);
    rp_object_read(&x, &rp_type_test_every, j);
    RP_JSON *written = document(&x);
    expect_equal(written, j);
    CHECK(!json_object_get(written, "maybe") && !json_object_get(written, "texts"), "what there is not is absent");
    /* a document that lacks keys is read as one with nulls */
    rp_object_read(&again, &rp_type_test_every, NULL);
    CHECK(again.count_or_null == RP_NO_INTEGER && again.yes_or_null == -1 && isnan(again.bits_or_null) && !again.list_n,
          "nothing");
    rp_object_fini(&x, &rp_type_test_every);
    rp_object_fini(&again, &rp_type_test_every);
    rp_schema_free(s);
}

TEST(lists_grow_and_end)
{
    struct rp_test_every x;
    rp_object_init(&x, &rp_type_test_every);
    for (int i = 0; i < 1000; i++) {
        struct rp_test_part *one = rp_object_add(&x.list, &x.list_n, &rp_type_test_part);
        CHECK(one == &x.list[i] && x.list_n == i + 1 && !one->name && one->size == RP_NO_INTEGER, "element %d", i);
        one->name = rp_strdup("n");
        one->size = i;
    }
    for (int i = 0; i < 1000; i++)
        CHECK(x.list[i].size == i, "element %d", i);
    rp_object_fini(&x, &rp_type_test_every);
    CHECK(is_zero(&x, sizeof x), "something is left");
}

TEST(the_table_says_what_the_list_does)
{
    const struct rp_object_type *t = &rp_type_test_every;
    const struct rp_object_field *first = &t->field[0], *numbers = &t->field[t->n - 1];
    CHECK_STR(t->name, "test_every");
    CHECK_STR(t->meaning, "every type");
    CHECK(t->size == sizeof(struct rp_test_every) && first->type == RP_IS_COUNT && !first->or_null, "%zu bytes",
          t->size);
    CHECK_STR(first->name, "count");
    CHECK_STR(first->unit, "B");
    CHECK_STR(first->label, "a label");
    CHECK_STR(first->meaning, "a meaning");
    CHECK(numbers->type == RP_IS_INTEGERS && numbers->count == offsetof(struct rp_test_every, numbers_n),
          "the last row");
}

/* ---- the schema ---- */

/* What a value is replaced by (NULL: it goes), and where the message finds the fault. */
static const struct {
    const char *at, *value, *found;
} faults[] = {
    {"schema", "\"test/2\"", "/schema"},
    {"schema", NULL, "'schema'"},
    {"surprise", "1", "'surprise'"},
    {"part/surprise", "null", "/part"},
    {"list/1/surprise", "1", "/list/1"},
    {"maybe/surprise", "1", "/maybe"},
    {"bits/surprise", "1", "/bits"},
    {"count", NULL, "'count'"},
    {"count_or_null", NULL, "'count_or_null'"},
    {"part", NULL, "'part'"},
    {"part/size", NULL, "/part has no 'size'"},
    {"list/0/name", NULL, "/list/0 has no 'name'"},
    {"list", NULL, "'list'"},
    {"numbers", NULL, "'numbers'"},
    {"bits/hex", NULL, "/bits has no 'hex'"},
    {"count", "\"1\"", "/count"},
    {"count", "1.5", "/count"},
    {"count", "-1", "/count"},
    {"count", "101", "/count"},
    {"count", "null", "/count"},
    {"count", "true", "/count"},
    {"count_or_null", "1.0", "/count_or_null"},
    {"integer", "0.5", "/integer"},
    {"integer", "null", "/integer"},
    {"number", "-0.5", "/number"},
    {"number", "2.5", "/number"},
    {"number", "\"1\"", "/number"},
    {"number", "null", "/number"},
    {"either_sign", "\"-1\"", "/either_sign"},
    {"either_sign", "null", "/either_sign"},
    {"yes", "1", "/yes"},
    {"yes", "null", "/yes"},
    {"text", "\"abcdef\"", "/text"},
    {"text", "7", "/text"},
    {"text", "null", "/text"},
    {"name", "\"A\"", "/name"},
    {"name", "\"a234567890123456789012345678901234567890\"", "/name"},
    {"name", "null", "/name"},
    {"time", "\"2026-11-27 14:34:00\"", "/time"},
    {"time", "null", "/time"},
    {"digest", "\"00\"", "/digest"},
    {"digest", "null", "/digest"},
    {"digest_or_null", "\"\"", "/digest_or_null"},
    {"colour", "\"blue\"", "/colour"},
    {"colour", "\"red green\"", "/colour"},
    {"colour", "null", "/colour"},
    {"colour_or_null", "\"\"", "/colour_or_null"},
    {"letters", "\"abcd\"", "/letters"},
    {"letters", "null", "/letters"},
    {"bits", "0.1", "/bits"},
    {"bits", "null", "/bits"},
    {"bits/value", "\"0.1\"", "/bits/value"},
    {"range", "[1.0]", "/range"},
    {"range", "[1.0, 2.0, 3.0]", "/range"},
    {"range", "[-1.0, 2.0]", "/range/0"},
    {"range", "null", "/range"},
    {"any", "\"a\"", "/any"},
    {"any", "null", "/any"},
    {"any_or_null", "[]", "/any_or_null"},
    {"part", "null", "/part"},
    {"part/name", "null", "/part/name"},
    {"maybe", "null", "/maybe"},
    {"maybe", "[]", "/maybe"},
    {"list", "null", "/list"},
    {"list", "{}", "/list"},
    {"list", "[1]", "/list/0"},
    {"list", "[{\"name\": \"a\", \"size\": 1}, {\"name\": \"b\", \"size\": 1}, {\"name\": \"c\", \"size\": 1}]",
     "/list"},
    {"texts", "[\"a\", \"b\", \"c\"]", "/texts"},
    {"texts", "[1]", "/texts/0"},
    {"texts", "null", "/texts"},
    {"numbers", "[1, 2, 3, 4]", "/numbers"},
    {"numbers", "[1, -2]", "/numbers/1"},
    {"numbers", "[0.5]", "/numbers/0"},
};

/* The value at PATH of a document, or NULL: it goes. */
static void bend(json_t *j, const char *path, json_t *value)
{
    RP_FREE char *in = rp_strdup(path);
    char *key = strrchr(in, '/');
    if (key)
        *key++ = 0;
    json_t *parent = key ? (json_t *)rp_json_at(j, in) : j;
    CHECK(parent && (value ? json_object_set_new(parent, key ? key : in, value)
                           : json_object_del(parent, key ? key : in)) == 0,
          "no %s", path);
}

TEST(the_schema_refuses_what_is_not_of_its_type_and_says_where)
{
    struct rp_schema *s = schema_of();
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct rp_err err = {0};
        RP_JSON *j = full_document();
        bend(j, faults[i].at, faults[i].value ? json_loads(faults[i].value, JSON_DECODE_ANY, NULL) : NULL);
        CHECK(rp_schema_check(s, j, "doc", &err) < 0 && err.code == RP_MALFORMED, "%s: %s", faults[i].at,
              faults[i].value);
        CHECK(strstr(err.msg, faults[i].found), "%s is not named: %s", faults[i].found, err.msg);
    }
    rp_schema_free(s);
}

/* Documents that nothing checked before: a frame, a record, a file of another program. */
TEST(a_value_of_another_type_reads_as_absent_and_harms_no_other)
{
    static const char *const values[] = {"\"a\"", "7", "0.5", "true", "null", "[1, \"a\"]", "[[]]", "{\"a\": 1}", "{}"};
    const struct rp_object_type *t = &rp_type_test_every;
    struct rp_test_every fresh, all;
    RP_JSON *j = full_document();
    rp_object_init(&fresh, t);
    rp_object_read(&all, t, j);
    int refused = 0;
    for (int i = 0; i < t->n; i++)
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            struct rp_err err;
            RP_JSON *bent = json_deep_copy(j), *value = json_loads(values[k], JSON_DECODE_ANY, NULL);
            json_object_set(bent, t->field[i].name, value);
            struct rp_test_every x;
            if (rp_object_take(&x, t, bent, "doc", &err) < 0) {
                RP_FREE char *name = rp_asprintf("doc: '%s' is not ", t->field[i].name);
                refused += strncmp(err.msg, name, strlen(name)) == 0 || strstr(err.msg, "is missing");
            }
            rp_object_fini(&x, t);
            rp_object_read(&x, t, bent);
            for (int n = 0; n < t->n; n++) {
                RP_JSON *is = rp_object_value(&x, &t->field[n]), *was = rp_object_value(&all, &t->field[n]),
                        *none = rp_object_value(&fresh, &t->field[n]);
                CHECK(n == i || json_equal(is, was), "%s: %s changes %s", t->field[i].name, values[k],
                      t->field[n].name);
                const int is_wrong = t->field[n].type < RP_IS_TEXT && !json_is_number(value) && !json_is_boolean(value);
                CHECK(n != i || !is_wrong || json_equal(is, none), "%s: %s is read", t->field[n].name, values[k]);
            }
            rp_object_fini(&x, t);
        }
    CHECK(refused > 3 * t->n, "only %d of them are refused by name", refused);
    rp_object_fini(&all, t);
    rp_object_fini(&fresh, t);
}

/* A reader without this program learns what a value is. */
TEST(the_schema_describes_its_values)
{
    RP_JSON *s = rp_object_schema(&rp_type_test_every, ID, "A test");
    CHECK_STR(rp_json_text_at(s, "title"), "A test");
    CHECK_STR(rp_json_text_at(s, "properties/count/description"), "a meaning");
    CHECK_STR(rp_json_text_at(s, "properties/count/unit"), "B");
    CHECK_STR(rp_json_text_at(s, "properties/part/$ref"), "#/$defs/test_part");
    CHECK_STR(rp_json_text_at(s, "$defs/test_part/description"), "a part");
    CHECK_STR(rp_json_text_at(s, "properties/schema/const"), ID);
}
