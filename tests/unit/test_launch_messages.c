/* Messages by which the processes of a job join: what has no such form is refused by its name. */
#include "base/buf.h"
#include "base/json.h"
#include "launch/join.h"
#include "launch/join_link.h"
#include "launch/rendezvous.h"
#include "tests/unit/tap.h"

/* One value of a good message, at a pointer; NULL: it is not there. */
struct changed {
    const char *key, *value;
    enum rp_code code;
};

static json_t *with_change(const char *good, const struct changed *c)
{
    json_t *j = json_loads(good, 0, NULL), *in = j;
    const char *slash = strrchr(c->key, '/'), *key = slash ? slash + 1 : c->key;
    if (slash) {
        RP_FREE char *path = rp_asprintf("%.*s", (int)(slash - c->key), c->key);
        in = (json_t *)rp_json_at(j, path);
    }
    CHECK(in, "no %s", c->key);
    if (json_is_array(in))
        json_array_remove(in, (size_t)atoi(key));
    else if (c->value)
        json_object_set_new(in, key, json_loads(c->value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(in, key);
    return j;
}

TEST(forms_of_join)
{
    static const struct changed rows[] = {
        {"protocol", "2", RP_MISMATCH}, {"protocol", "\"1\"", RP_MALFORMED}, {"protocol", NULL, RP_MALFORMED},
        {"ranks", "0", RP_USAGE},       {"ranks", "-1", RP_MALFORMED},       {"ranks", "1000000", RP_USAGE},
        {"size", "3", RP_USAGE},        {"index", "-1", RP_MALFORMED},       {"index", "2", RP_USAGE},
        {"index", "0.5", RP_MALFORMED}, {"host", "7", RP_MALFORMED},         {"place", NULL, RP_MALFORMED},
        {"name", "[]", RP_MALFORMED},   {"facts", "[]", RP_MALFORMED},       {"addresses", "{}", RP_MALFORMED}};
    RP_FREE char *good = rp_asprintf("{\"protocol\": %d, \"index\": 1, \"size\": 2, \"ranks\": 4, \"host\": \"h\", "
                                     "\"place\": \"p\", \"name\": \"n\", \"facts\": {}, \"addresses\": []}",
                                     RP_JOIN_PROTOCOL);
    struct rp_err err = {0};
    RP_JSON *same = json_loads(good, 0, NULL);
    struct rp_join_request said;
    CHECK(rp_join_check(&said, same, 2, &err) == 0, "%s", err.msg);
    rp_object_fini(&said, &rp_type_join_request);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        RP_JSON *j = with_change(good, &rows[i]);
        CHECK(rp_join_check(&said, j, 2, &err) < 0 && err.code == rows[i].code, "%s %s: %s", rows[i].key,
              rows[i].value ? rows[i].value : "gone", err.msg);
        rp_object_fini(&said, &rp_type_join_request);
    }
}

TEST(forms_of_world)
{
#define MEMBER(index, first, ranks)                                                                                    \
    "{\"index\": " #index ", \"first_rank\": " #first ", \"ranks\": " #ranks ", \"host\": " #index                     \
    ", \"network_namespace\": " #index ", "                                                                            \
    "\"local_rank\": 0, \"clock\": {\"wall_ns\": 0, \"monotonic_ns\": 5, \"error_ns\": 9}, \"name\": \"n\", "          \
    "\"address\": \"\", \"addresses\": []}"
    static const char good[] = "{\"members\": [" MEMBER(0, 0, 2) ", " MEMBER(1, 2, 1) "]}";
    static const struct changed rows[] = {{"members", "{}", 0},
                                          {"members", NULL, 0},
                                          {"members/1", NULL, 0},
                                          {"members/1/index", "0", 0},
                                          {"members/1/first_rank", "1", 0},
                                          {"members/1/ranks", "0", 0},
                                          {"members/1/host", "-1", 0},
                                          {"members/0/local_rank", "4294967296", 0},
                                          {"members/0/host", "\"0\"", 0},
                                          {"members/0/network_namespace", NULL, 0},
                                          {"members/0/ranks", "2000000", 0},
                                          {"members/1/clock", NULL, 0},
                                          {"members/1/addresses", "{}", 0}};
    for (size_t i = 0; i <= sizeof rows / sizeof *rows; i++) {
        struct rp_err err = {0};
        struct rp_job_member member[2] = {{0}};
        struct rp_join join = {.member = member, .members = 2};
        const int honest = i == sizeof rows / sizeof *rows;
        RP_JSON *j = honest ? json_loads(good, 0, NULL) : with_change(good, &rows[i]);
        const int failed = rp_join_parse_world(&join, j, &err) < 0;
        CHECK(failed == !honest && (honest ? join.world == 3 : err.code == RP_MALFORMED), "%s: %s",
              honest ? "good" : rows[i].key, err.msg);
        for (int k = 0; k < 2; k++) {
            json_decref(member[k].addresses);
            json_decref(member[k].about);
        }
    }
}

/* What process 0 says of where it listens, to those that it started. */
static int learn(void *arg, struct rp_meet_frame *where, uint64_t deadline, struct rp_err *err)
{
    RP_JSON *body = json_loads(arg, 0, NULL);
    (void)deadline, (void)err;
    rp_object_read(where, &rp_type_meet_frame, body);
    return 0;
}

TEST(places_that_process_0_cannot_be_at)
{
    static const struct {
        const char *where;
        int good;
    } rows[] = {{"{\"port\": 61440, \"addresses\": [\"127.0.0.1\"]}", 1},
                {"{\"port\": 0, \"addresses\": [\"127.0.0.1\"]}", 0},
                {"{\"port\": 65536, \"addresses\": [\"127.0.0.1\"]}", 0},
                {"{\"port\": -1, \"addresses\": [\"127.0.0.1\"]}", 0},
                {"{\"port\": 61440, \"addresses\": []}", 0},
                {"{\"port\": 61440}", 0},
                {"{}", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct rp_rendezvous_talk talk = {.arg = (void *)(uintptr_t)rows[i].where, .learn = learn};
        struct rp_rendezvous r = {.pmi = {.fd = -1}, .talk = &talk};
        struct rp_err err = {0};
        const int failed = rp_rendezvous_learn(&r, 0, &err) < 0;
        CHECK(failed == !rows[i].good && (!failed || err.code == RP_MALFORMED), "%s: %s", rows[i].where, err.msg);
        rp_rendezvous_fini(&r);
    }
}

TEST(sizes_that_no_job_has)
{
    static const int64_t sizes[] = {0, -1, RP_JOIN_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct rp_launch launch = {.rank = 0, .size = sizes[i]};
        const struct rp_join_opts o = {.launch = &launch};
        struct rp_join j;
        struct rp_err err = {0};
        CHECK(rp_join_open(&j, &o, &err) < 0 && err.code == RP_USAGE, "%lld: %s", (long long)sizes[i], err.msg);
    }
}
