/* The language of schemas: what each keyword refuses and in which words, in which order faults are told, and what no
 * schema may hold. */
#include "base/json.h"
#include "bundle/schema.h"
#include "run/facts.h"
#include "ops/numerics.h"
#include "worker/job.h"
#include "tests/unit/tap.h"

#include <pthread.h>
#include <string.h>

static json_t *json(const char *text)
{
    struct rp_err err;
    json_t *j = rp_json_parse(text, strlen(text), "text", &err);
    CHECK(j, "%s: %s", text, err.msg);
    return j;
}

/* What is said of a value; "" where it fits. */
static const char *said(const char *schema, const char *value, struct rp_err *err)
{
    RP_JSON *doc = json(schema), *v = json(value);
    struct rp_schema *s = rp_schema_new(doc, err);
    CHECK(s, "%s: %s", schema, err->msg);
    int refused = rp_schema_check(s, v, "doc", err) < 0;
    CHECK(!refused || err->code == RP_MALFORMED, "%s", err->msg);
    rp_schema_free(s);
    return refused ? err->msg : "";
}

/* The digest's pattern is not compiled: what is said is what the library says of the same pattern in other words. */
TEST(a_digest_is_what_its_pattern_says)
{
    char text[80] = "[\"", digits[] = "0123456789abcdefgAF`/: -@";
    struct rp_err err;
    uint64_t state = 1;
    for (int i = 0, n = 0; i < 2000; i++) {
        int length = i % 4 ? 64 : 62 + i % 5, bad = i % 3 == 0;
        for (n = 1; n <= length; n++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[n + 1] = digits[(state >> 33) % (bad && n == i % 64 ? 24 : 16)];
        }
        memcpy(text + n + 1, "\"]", 3);
        int is = *said("{\"items\": {\"pattern\": \"^[0-9a-f]{64}$\"}}", text, &err) == 0;
        int should = *said("{\"items\": {\"pattern\": \"^([0-9a-f]{64})$\"}}", text, &err) == 0;
        CHECK(is == should, "%s: %d, as a regular expression %d", text, is, should);
    }
}

TEST(each_keyword_refuses_in_its_words)
{
    static const struct {
        const char *schema, *value;
    } cases[] = {
        {"{\"type\": \"object\"}", "{}"},
        {"{\"type\": \"object\"}", "[]"},
        {"{\"type\": \"array\"}", "{}"},
        {"{\"type\": \"integer\"}", "[1]"},
        {"{\"items\": {\"type\": \"number\"}}", "[1, 1.5]"},
        {"{\"items\": {\"type\": \"integer\"}}", "[1, 1.5]"},
        {"{\"items\": {\"type\": [\"boolean\", \"null\"]}}", "[true, false, null]"},
        {"{\"items\": {\"type\": [\"boolean\", \"null\"]}}", "[true, \"true\"]"},
        {"{\"items\": {\"const\": \"x\"}}", "[\"x\", \"y\"]"},
        {"{\"items\": {\"const\": 1}}", "[1.0]"},
        {"{\"items\": {\"enum\": [1, \"x\"]}}", "[1, \"x\", \"y\"]"},
        {"{\"minItems\": 1}", "[]"},
        {"{\"maxItems\": 1}", "[1, 2]"},
        {"{\"items\": {\"minimum\": 1, \"maximum\": 2}}", "[1, 2, 1.5, \"9\"]"},
        {"{\"items\": {\"minimum\": 1.5}}", "[1]"},
        {"{\"items\": {\"maximum\": 2}}", "[2.5]"},
        {"{\"items\": {\"minLength\": 1, \"maxLength\": 2}}", "[\"a\", \"ab\", 7]"},
        {"{\"items\": {\"minLength\": 1}}", "[\"\"]"},
        {"{\"items\": {\"maxLength\": 2}}", "[\"abc\"]"},
        {"{\"items\": {\"pattern\": \"^[a-f]+$\"}}", "[\"abc\", 1]"},
        {"{\"items\": {\"pattern\": \"^[a-f]+$\"}}", "[\"abcg\"]"},
        {"{\"required\": [\"a\"]}", "[]"},
        {"{\"required\": [\"a\"]}", "{\"b\": 1}"},
        {"{\"properties\": {\"a\": {\"type\": \"null\"}}}", "{\"b\": 1}"},
        {"{\"properties\": {\"a\": {\"properties\": {\"b\": {\"type\": \"null\"}}}}}", "{\"a\": {\"b\": 1}}"},
        {"{\"properties\": {\"a\": {}, \"ab\": {}}, \"additionalProperties\": false}", "{\"a\": 1, \"ab\": 1}"},
        {"{\"properties\": {\"a\": {}, \"ab\": {}}, \"additionalProperties\": false}", "{\"a\": 1, \"ac\": 1}"},
        {"{\"properties\": {\"a\": {}}, \"additionalProperties\": {\"type\": \"null\"}}", "{\"a\": 1, \"b\": null}"},
        {"{\"properties\": {\"a\": {}}, \"additionalProperties\": {\"type\": \"null\"}}", "{\"b\": 1}"},
        {"{\"anyOf\": [{\"type\": \"array\"}, {\"required\": [\"a\"]}]}", "[]"},
        {"{\"anyOf\": [{\"type\": \"array\"}, {\"required\": [\"a\"]}]}", "{\"a\": 1}"},
        {"{\"anyOf\": [{\"type\": \"array\"}, {\"required\": [\"a\"]}]}", "{}"},
        {"{\"additionalProperties\": {\"$ref\": \"#\"}, \"type\": \"object\"}", "{\"a\": {\"b\": {}}}"},
        {"{\"additionalProperties\": {\"$ref\": \"#\"}, \"type\": \"object\"}", "{\"a\": {\"b\": 1}}"},
        {"{\"$ref\": \"#/$defs/x\", \"$defs\": {\"x\": {\"items\": {\"$ref\": \"#/$defs/y\"}}, \"y\": {\"type\": "
         "\"null\"}}}",
         "[null, 1]"},
    };
    struct rp_err err;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        SAID(said(cases[i].schema, cases[i].value, &err));
}

/* A document with several faults names the same one as ever. */
TEST(faults_have_an_order)
{
    static const char schema[] =
        "{\"properties\": {\"b\": {\"type\": \"null\"}, \"a\": {\"type\": \"null\"}}, \"additionalProperties\": "
        "{\"type\": \"null\"}, \"required\": [\"c\", \"a\"], \"type\": \"object\"}";
    struct rp_err err;
    SAID(said(schema, "{\"x\": 1, \"b\": 1}", &err));
    SAID(said(schema, "{\"c\": null, \"x\": 1}", &err));
    SAID(said(schema, "{\"a\": 1, \"b\": 1, \"x\": 1, \"c\": 1}", &err));
    SAID(said(schema, "{\"a\": 1, \"b\": 1, \"c\": null}", &err));
    SAID(said(schema, "{\"a\": 1, \"b\": null, \"c\": null}", &err));
}

TEST(what_has_no_meaning_is_never_half_applied)
{
    static const char *const bad[] = {"{\"format\": \"date\"}",
                                      "{\"items\": {\"anyOf\": [{\"format\": \"date\"}]}}",
                                      "{\"type\": \"float\"}",
                                      "{\"type\": [\"null\", 1]}",
                                      "{\"$ref\": \"#/$defs/x\"}",
                                      "{\"$ref\": \"other\"}",
                                      "{\"$defs\": {\"x\": {\"colour\": 1}}}",
                                      "{\"pattern\": \"[\"}",
                                      "{\"properties\": {\"a\": {\"properties\": {\"b\": {\"x\": 1}}}}}",
                                      "{\"additionalProperties\": {\"x\": 1}}"};
    struct rp_err err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        RP_JSON *doc = json(bad[i]);
        CHECK(!rp_schema_new(doc, &err) && err.code == RP_BUG && strncmp(err.msg, "schema: ", 8) == 0, "%s is a schema",
              bad[i]);
    }
    RP_BUF many = {0};
    rp_buf_puts(&many, "{\"properties\": {\"p\": {}");
    for (int i = 0; i < 64; i++)
        rp_buf_printf(&many, ", \"p%d\": {}", i);
    rp_buf_puts(&many, "}}");
    RP_JSON *doc = json(many.data);
    CHECK(!rp_schema_new(doc, &err) && err.code == RP_BUG, "65 properties");
    CHECK(!rp_schema_load("nothing", &err) && err.code == RP_BUG, "%s", err.msg);
}

static void *load_all(void *arg)
{
    static const char *const names[] = {"env", "step", "statement"};
    const struct rp_schema **got = arg;
    struct rp_err err;
    for (int i = 0; i < 3; i++)
        got[i] = rp_schema_load(names[i], &err);
    got[3] = rp_facts_schema("telemetry", &err);
    return NULL;
}

TEST(an_embedded_schema_is_compiled_once_for_all_threads)
{
    const struct rp_schema *got[4][4] = {{0}};
    pthread_t thread[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&thread[i], NULL, load_all, got[i]) == 0, "a thread");
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < 4; i++)
        CHECK(got[0][i] && got[0][i] == got[1][i] && got[0][i] == got[2][i] && got[0][i] == got[3][i], "schema %d", i);
}

/* ---- lists that schemas repeat ---- */

static json_t *embedded(const char *name)
{
    size_t size;
    const char *text = rp_schema_text(name, &size);
    struct rp_err err;
    json_t *j = text ? rp_json_parse(text, size, name, &err) : NULL;
    CHECK(j, "no schema %s", name);
    return j;
}

static int in_list(const json_t *list, const char *word)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(json_string_value(json_array_get(list, i)), word) == 0)
            return 1;
    return 0;
}

/* The type that the schema gives a form of step.def. */
static const char *type_of(const char *form)
{
    static const char *const types[][2] = {
        {"PHASE", ""},         {"FLOAT", "#/$defs/float"}, {"NORM", "#/$defs/float"}, {"DIGEST", "#/$defs/sha256"},
        {"REAL", "number"},    {"RANK", "#/$defs/rank"},   {"PARTS", "object"},       {"FLOATS", "string"},
        {"COUNTERS", "object"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i][0], form) == 0)
            return types[i][1];
    return "integer";
}

static void check_step_key(const json_t *schema, const char *which, const char *key, const char *form, int needed,
                           int allowed, int least)
{
    const json_t *of = json_object_get(json_object_get(schema, "$defs"), which),
                 *p = json_object_get(json_object_get(of, "properties"), key);
    const char *type = json_string_value(json_object_get(p, "type")),
               *ref = json_string_value(json_object_get(p, "$ref"));
    CHECK(!p == !allowed, "%s: %s is %s the schema", which, key, p ? "in" : "not in");
    CHECK(in_list(json_object_get(of, "required"), key) == needed, "%s: %s is %srequired in the list", which, key,
          needed ? "" : "not ");
    if (!p || json_object_get(p, "const")) /* of the init record */
        return;
    CHECK_STR(type ? type : ref ? ref : "", type_of(form));
    if (type && strcmp(type, "integer") == 0)
        CHECK(json_integer_value(json_object_get(p, "minimum")) == (strcmp(key, "step") == 0 ? 0 : least),
              "%s: %s has another minimum", which, key);
}

#define IN_INIT (RP_WHEN_ALWAYS | RP_WHEN_ROOTS | RP_WHEN_KEYED)

TEST(the_schema_of_steps_is_the_list_of_their_keys)
{
    RP_JSON *schema = embedded("step");
    const json_t *defs = json_object_get(schema, "$defs");
    size_t of_step = 0, of_init = 0;
#define STEP_KEY(key, form, when, least)                                                                               \
    check_step_key(schema, "step", #key, #form, (RP_WHEN_##when & (RP_WHEN_ALWAYS | RP_WHEN_STEPS)) != 0, 1, least);   \
    check_step_key(schema, "init", #key, #form, (RP_WHEN_##when & (RP_WHEN_ALWAYS | RP_WHEN_ROOTS)) != 0,              \
                   (RP_WHEN_##when & IN_INIT) != 0, least);                                                            \
    of_step++;                                                                                                         \
    of_init += (RP_WHEN_##when & IN_INIT) != 0;
#include "worker/step.def"
#undef STEP_KEY
    CHECK(json_object_size(json_object_get(json_object_get(defs, "step"), "properties")) == of_step,
          "the schema has another key");
    CHECK(json_object_size(json_object_get(json_object_get(defs, "init"), "properties")) == of_init,
          "the schema has another key of init");
}

TEST(the_schema_of_statements_names_the_arithmetic_of_the_list)
{
    RP_JSON *statement = embedded("statement");
    const json_t *list = rp_json_at(statement, "properties/predicate/properties/numerics/enum");
    CHECK(json_array_size(list) == RP_NUMERICS_COUNT, "%zu names", json_array_size(list));
    for (int n = 0; n < RP_NUMERICS_COUNT; n++)
        CHECK(in_list(list, rp_numerics_name((enum rp_numerics)n)), "the schema lacks %s",
              rp_numerics_name((enum rp_numerics)n));
}
