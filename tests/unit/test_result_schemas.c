/* Documents and the schemas that ship with them: everything sealed fits, and what a reader takes fits too. */
#include "tests/unit/bundle_fixture.h"

#include "bundle/schema.h"
#include "run/records.h"

/* The reader of records is as strict as the schema that documents them: nothing is read that the schema refuses. */
static void bend_every_key(const struct rp_schema *schema, const char *before, const json_t *line)
{
    static const char *const values[] = {
        "null", "-1", "-2", "\"x\"", "1.5", "[]", "{}", "true", "\"\"", "99999999999999999999", "0"};
    const char *key;
    json_t *ignored;
    json_object_foreach((json_t *)line, key, ignored)
        for (size_t i = 0; i <= sizeof values / sizeof *values + 1; i++) {
            RP_JSON *other = json_copy((json_t *)line), *value = NULL;
            struct rp_err err = {0}, why = {0};
            struct rp_records records;
            RP_BUF text = {0};
            if (i > 0 && i <= sizeof values / sizeof *values &&
                !(value = json_loads(values[i - 1], JSON_DECODE_ANY, NULL)))
                continue; /* no JSON number at all */
            if (i == 0)
                json_object_del(other, key);
            else if (value)
                json_object_set(other, key, value);
            else
                json_object_set_new(other, "surprise", json_true());
            rp_buf_puts(&text, before);
            rp_json_write_line(&text, other);
            int refused = rp_records_parse(&records, text.data, text.size, &err) < 0;
            rp_records_fini(&records);
            CHECK(refused || rp_schema_check(schema, other, "line", &why) == 0, "read and against the schema (%s): %s",
                  why.msg, text.data);
        }
}

TEST(no_record_is_read_that_its_schema_refuses)
{
    struct rp_err err;
    RP_BUF t = {0};
    const struct rp_schema *schema = rp_schema_load("step", &err);
    fx_records(&t, 0, 1, 1);
    char *second = strchr(t.data, '\n') + 1;
    RP_JSON *step = json_loads(second, 0, NULL), *init = json_loadb(t.data, (size_t)(second - t.data), 0, NULL);
    CHECK(schema && step && init && rp_schema_check(schema, step, "step", &err) == 0 &&
              rp_schema_check(schema, init, "init", &err) == 0,
          "%s", err.msg);
    *second = 0;
    bend_every_key(schema, t.data, step);
    bend_every_key(schema, "", init);
}

static int may_lack(const struct rp_object_type *type, const char *key)
{
    for (int i = 0; i < type->n; i++)
        if (strcmp(type->field[i].name, key) == 0)
            return type->field[i].type == RP_IS_PART_OR_NONE;
    return 0;
}

/* Without any one of its keys no document fits its schema, but for parts that not every run has; nor with another
 * type of value. */
static void bite(const struct rp_schema *schema, const json_t *doc, const struct rp_object_type *type)
{
    const char *key;
    json_t *v;
    struct rp_err err = {0};
    CHECK(schema && rp_schema_check(schema, doc, "doc", &err) == 0, "%s", err.msg);
    json_object_foreach((json_t *)doc, key, v) {
        RP_JSON *less = json_copy((json_t *)doc), *other = json_copy((json_t *)doc);
        json_object_del(less, key);
        const int optional = type && may_lack(type, key);
        CHECK((rp_schema_check(schema, less, "doc", &err) == 0) == optional && (optional || strstr(err.msg, key)),
              "without %s: %s", key, err.msg);
        json_object_set_new(other, key, json_pack("[b]", 1));
        CHECK(rp_schema_check(schema, other, "doc", &err) < 0 && err.code == RP_MALFORMED, "a list as %s fits", key);
    }
}

TEST(every_document_fits_its_schema_and_schemas_bite)
{
    struct rp_err err = {0};
    FX(x);
    bite(rp_facts_schema("facts", &err), x.facts, &rp_type_facts);
    bite(rp_facts_schema("run", &err), x.run, &rp_type_figures);
    bite(rp_schema_load("env", &err), x.before, NULL);
}

/* One value of an environment, as probe cpu's `x`. */
static int fits_as_value(const char *text, struct rp_err *err)
{
    FX(f);
    const struct rp_schema *schema = rp_schema_load("env", err);
    RP_JSON *value = rp_json_parse(text, strlen(text), "value", err);
    CHECK(schema && value, "%s", err->msg);
    json_object_set(json_object_get(json_object_get(f.before, "probes"), "cpu"), "x", value);
    int fits = rp_schema_check(schema, f.before, "env", err) == 0;
    CHECK(fits || (err->code == RP_MALFORMED && strstr(err->msg, "/probes/cpu/x")), "%s: %s", text, err->msg);
    return fits;
}

TEST(a_value_of_an_environment_is_known_or_says_why_not)
{
    struct rp_err err = {0};
    static const char *const good[] = {
        "{\"state\":\"ok\",\"value\":0,\"source\":\"/proc/x\",\"unit\":\"B\"}",
        "{\"state\":\"ok\",\"value\":[\"a\",\"b\"],\"source\":\"/proc/x\"}",
        "{\"state\":\"absent\",\"value\":null,\"source\":\"/proc/x\"}",
        "{\"state\":\"denied\",\"value\":null,\"source\":\"/proc/x\",\"detail\":\"EACCES\"}",
        "{\"state\":\"error\",\"value\":null,\"source\":\"/proc/x\",\"detail\":\"no number\"}",
        "{\"a\":{\"b\":{\"state\":\"ok\",\"value\":\"c\",\"source\":\"/proc/x\"}}}",
    };
    static const char *const bad[] = {
        "[]", "{\"a\":0}", "{\"a\":{\"b\":null}}", "{\"a\":\"text\"}",
        "{\"state\":\"absent\",\"value\":0,\"source\":\"/proc/x\"}", /* unknown is never zero */
        "{\"state\":\"ok\",\"value\":null,\"source\":\"/proc/x\"}",
        "{\"state\":\"ok\",\"value\":true,\"source\":\"/proc/x\"}",
        "{\"state\":\"ok\",\"value\":[1],\"source\":\"/proc/x\"}",
        "{\"state\":\"ok\",\"value\":1,\"source\":\"/proc/x\",\"detail\":\"none\"}",
        "{\"state\":\"ok\",\"value\":1,\"source\":\"\"}",
        "{\"state\":\"ok\",\"value\":1,\"source\":\"/proc/x\",\"unit\":\"\"}",
        "{\"state\":\"ok\",\"value\":1,\"source\":\"/proc/x\",\"note\":\"hello\"}",
        "{\"state\":\"ok\",\"value\":1}", "{\"state\":\"ok\",\"source\":\"/proc/x\"}",
        "{\"state\":\"error\",\"value\":null,\"source\":\"/proc/x\"}",
        "{\"state\":\"perhaps\",\"value\":null,\"source\":\"/proc/x\"}",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        CHECK(fits_as_value(good[i], &err), "%s: %s", good[i], err.msg);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!fits_as_value(bad[i], &err), "%s fits", bad[i]);
}
