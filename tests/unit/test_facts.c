/* facts.json and run.json as their lists have them: every document that the structs can say follows its schema and
 * is canonical. */
#include "base/json.h"
#include "bundle/bundle.h"
#include "bundle/schema.h"
#include "run/facts.h"
#include "tests/unit/tap.h"

static const struct {
    const char *name, *id;
    const struct rp_object_type *type;
} documents[] = {{"facts", RP_FACTS_SCHEMA, &rp_type_facts}, {"run", RP_FIGURES_SCHEMA, &rp_type_figures}};
enum { DOCUMENTS = sizeof documents / sizeof *documents };

#define DIGEST "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

/* ---- documents made from the lists ---- */

/* A text that follows the pattern of a field, or a document that follows its schema: a new one of them is a row
 * here. */
static const char *sample_of(const struct rp_object_field *f)
{
    static const char *const rows[][2] = {
        {"^[a-z0-9]{1,15}$", "avx2"},
        {"^[0-9]{1,3}[.][0-9]{1,3}$", "9.0"},
        {"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}[.][0-7]$", "0000:19:00.0"},
        {"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$", "0-3,8"},
        {"^SHA256:[0-9a-f]{64}$", "SHA256:" DIGEST},
        {"^[a-z][a-z0-9_]{0,30}/s$", "sequences/s"},
        {RP_SCHEMA_SETTING, "4"},
        {RP_SCHEMA_SETTINGS, "{\"train.batch_size\": {\"value\": 4, \"origin\": \"recipe\"}}"},
        {RP_SCHEMA_CAPTURED, "{\"state\": \"ok\", \"value\": 4, \"unit\": \"B\"}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], f->limit) == 0)
            return rows[i][1];
    CHECK(0, "%s: no sample of %s", f->name, f->limit);
    return "null";
}

static json_t *make(const struct rp_object_type *type, int least);

static json_t *make_list(const struct rp_object_field *f, int least)
{
    json_t *list = json_array();
    for (int i = 0; i < 2 && !least; i++)
        json_array_append_new(list, f->type == RP_IS_LIST    ? make(f->of, i)
                                    : f->type == RP_IS_TEXTS ? json_string("t")
                                                             : json_integer(i));
    return list;
}

/* least: the least that a document may say, or all; NULL: the key is absent. */
static json_t *make_value(const struct rp_object_field *f, int least)
{
    if (least && f->or_null)
        return json_null();
    switch (f->type) {
    case RP_IS_COUNT:
        return json_integer(1);
    case RP_IS_INTEGER:
        return json_integer(-1);
    case RP_IS_NUMBER:
    case RP_IS_SIGNED:
        return json_real(0.5);
    case RP_IS_BOOL:
        return json_true();
    case RP_IS_TIME:
        return json_string("2026-11-27T14:34:00Z");
    case RP_IS_SHA256:
        return json_string(DIGEST);
    case RP_IS_CHOICE:
        return json_stringn(f->limit, strcspn(f->limit, " "));
    case RP_IS_MATCH:
        return json_string(sample_of(f));
    case RP_IS_FLOAT:
        return json_pack("{s:f, s:s}", "value", 0.5, "hex", "0x1p-1");
    case RP_IS_INTERVAL:
        return json_pack("[f, f]", 0.5, 1.5);
    case RP_IS_JSON:
        return json_loads(sample_of(f), JSON_DECODE_ANY, NULL);
    case RP_IS_PART:
        return make(f->of, least);
    case RP_IS_PART_OR_NONE:
        return least ? NULL : make(f->of, 0);
    case RP_IS_LIST:
    case RP_IS_TEXTS:
    case RP_IS_INTEGERS:
        return least && f->type == RP_IS_TEXTS ? NULL : make_list(f, least);
    default: /* texts */
        return json_string("t");
    }
}

static json_t *make(const struct rp_object_type *type, int least)
{
    json_t *j = json_object();
    for (int i = 0; i < type->n; i++) {
        json_t *v = make_value(&type->field[i], least);
        if (v)
            json_object_set_new(j, type->field[i].name, v);
    }
    return j;
}

/* ---- tests ---- */

TEST(the_schemas_of_both_documents_can_be_compiled)
{
    struct rp_err err = {0};
    for (int i = 0; i < DOCUMENTS; i++) {
        RP_JSON *doc = rp_facts_schema_json(documents[i].name);
        struct rp_schema *s = rp_schema_new(doc, &err);
        CHECK(s, "%s: %s", documents[i].name, err.msg);
        rp_schema_free(s);
        const struct rp_schema *once = rp_facts_schema(documents[i].name, &err),
                               *again = rp_facts_schema(documents[i].name, &err);
        CHECK(once && once == again, "%s: %s", documents[i].name, err.msg);
    }
    CHECK(!rp_facts_schema_json("nothing"), "a schema of nothing");
}

/* Whatever the lists allow is read, written to the same bytes, in the one spelling that verify accepts. */
TEST(a_document_that_is_written_is_canonical_and_follows_its_schema)
{
    for (int i = 0; i < 2 * DOCUMENTS; i++) {
        const struct rp_object_type *type = documents[i / 2].type;
        const char *name = documents[i / 2].name;
        struct rp_err err = {0};
        int own = 0;
        RP_BUF first = {0}, second = {0};
        RP_JSON *made = make(type, i % 2);
        RP_FREE void *object = rp_alloc(type->size);
        rp_object_read(object, type, made);
        RP_JSON *written = rp_object_json(object, type);
        rp_object_fini(object, type);
        json_object_set_new(made, "schema", json_string(documents[i / 2].id));
        json_object_set_new(written, "schema", json_string(documents[i / 2].id));
        rp_json_write(&first, made);
        rp_json_write(&second, written);
        CHECK_STR(second.data, first.data);
        CHECK(rp_schema_check(rp_facts_schema(name, &err), written, name, &err) == 0, "%s", err.msg);
        RP_JSON *parsed = rp_json_parse_own(second.data, second.size, 100000, &own, name, &err);
        CHECK(parsed && own, "%s is not canonical: %s", name, err.msg);
    }
}

/* One unknown key, wherever it is. */
static void surprise(const struct rp_schema *schema, const json_t *root, json_t *j, const char *path)
{
    const char *key;
    json_t *v;
    size_t i;
    struct rp_err err;
    if (json_is_object(j)) {
        json_object_set_new(j, "surprise", json_true());
        CHECK(rp_schema_check(schema, root, "doc", &err) < 0 && strstr(err.msg, "surprise"),
              "%s: a key without a meaning fits", path);
        json_object_del(j, "surprise");
    }
    json_object_foreach(j, key, v) {
        RP_FREE char *below = rp_asprintf("%s/%s", path, key);
        if (strcmp(below, "/recipe") != 0) /* any key, which check_schema looks up */
            surprise(schema, root, v, below);
    }
    json_array_foreach(j, i, v)
        surprise(schema, root, v, path);
}

TEST(no_object_has_a_key_without_a_meaning)
{
    for (int i = 0; i < DOCUMENTS; i++) {
        struct rp_err err = {0};
        RP_JSON *j = make(documents[i].type, 0);
        json_object_set_new(j, "schema", json_string(documents[i].id));
        const struct rp_schema *schema = rp_facts_schema(documents[i].name, &err);
        CHECK(schema && rp_schema_check(schema, j, "doc", &err) == 0, "%s", err.msg);
        surprise(schema, j, j, "");
    }
}

static const struct rp_object_field *field_of(const struct rp_object_type *type, const char *name)
{
    for (int i = 0; i < type->n; i++)
        if (strcmp(type->field[i].name, name) == 0)
            return &type->field[i];
    return NULL;
}

static void only_once(const struct rp_object_type *a, const struct rp_object_type *b, const char *path)
{
    for (int i = 0; i < a->n; i++) {
        const struct rp_object_field *one = &a->field[i], *other = field_of(b, one->name);
        RP_FREE char *at = rp_asprintf("%s/%s", path, one->name);
        if (!other)
            continue;
        if (CHECK(one->of && other->of && (one->type == RP_IS_LIST) == (other->type == RP_IS_LIST),
                  "%s is in both documents", at))
            only_once(one->of, other->of, at);
    }
}

/* Renderers show both as one document (rp_run_shown()), where a pointer has one value; and a figure is no fact. */
TEST(no_value_is_in_both_documents)
{
    only_once(&rp_type_facts, &rp_type_figures, "");
}

/* ---- limits ---- */

static void repeat(json_t *list, int n)
{
    while (json_array_size(list) > 1)
        json_array_remove(list, 1);
    for (int i = 1; i < n; i++)
        json_array_append_new(list, json_deep_copy(json_array_get(list, 0)));
}

/* A run of as many ranks and nodes as there may be, each with all that can be said of it, is within the limits of
 * verify. */
TEST(the_largest_run_can_be_read)
{
    struct rp_err err;
    for (int i = 0; i < DOCUMENTS; i++) {
        RP_JSON *j = make(documents[i].type, 0);
        json_t *node = json_array_get(json_object_get(j, "node"), 0);
        RP_BUF text = {0};
        json_object_set_new(j, "schema", json_string(documents[i].id));
        repeat(json_object_get(node, "change"), 4096 / RP_BUNDLE_NODES_MAX);
        repeat(json_object_get(j, "rank"), RP_BUNDLE_RANKS_MAX);
        repeat(json_object_get(j, "process"), RP_BUNDLE_RANKS_MAX);
        repeat(json_object_get(j, "node"), RP_BUNDLE_NODES_MAX);
        repeat(json_object_get(j, "tensor_root"), 2400);
        rp_json_write(&text, j);
        CHECK(text.size < RP_BUNDLE_DOCUMENT_MAX, "%s: %zu bytes", documents[i].name, text.size);
        RP_JSON *read = rp_json_parse_most(text.data, text.size, RP_BUNDLE_VALUES_MAX, documents[i].name, &err);
        CHECK(read, "%s", err.msg);
    }
}
