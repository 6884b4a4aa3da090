/* tf.Example as protobuf defines it: order, packing, merging, unknown fields; and everything that is none. */
#include "tests/unit/tap.h"

#include "tests/unit/data_fixture.h"

static int64_t a[4], b[4];
static float w[4];
static struct rp_example_field field[3];
static struct rp_err err;

static int parse(const void *data, size_t size)
{
    const struct rp_example_field fresh[3] = {{.name = "a", .want = RP_EXAMPLE_INT64, .out.i64 = a, .cap = 4},
                                              {.name = "b", .want = RP_EXAMPLE_INT64, .out.i64 = b, .cap = 4},
                                              {.name = "w", .want = RP_EXAMPLE_FLOAT, .out.f32 = w, .cap = 4}};
    memcpy(field, fresh, sizeof field);
    return rp_example_parse(data, size, field, 3, &err);
}
#define PARSE(text) parse(text, sizeof(text) - 1)

TEST(what_is_written_is_read)
{
    int64_t x[] = {0, -1, INT64_MAX, INT64_MIN};
    float y[] = {1.0f, -0.0f, 3.5f};
    struct rp_example_field out[] = {{.name = "w", .want = RP_EXAMPLE_FLOAT, .out.f32 = y, .count = 3},
                                     {.name = "other", .want = RP_EXAMPLE_INT64, .out.i64 = x, .count = 2},
                                     {.name = "a", .want = RP_EXAMPLE_INT64, .out.i64 = x, .count = 4},
                                     {.name = "b", .want = RP_EXAMPLE_INT64, .out.i64 = x, .count = 0}};
    RP_BUF m = {0};
    rp_example_write(&m, out, 4);
    CHECK(parse(m.data, m.size) == 0, "%s", err.msg);
    CHECK(field[0].count == 4 && memcmp(a, x, sizeof x) == 0);
    CHECK(field[1].count == 0 && field[1].found == RP_EXAMPLE_INT64);
    CHECK(field[2].count == 3 && memcmp(w, y, sizeof y) == 0);
    int bad = 0; /* no prefix of a message is the message: its outermost length says more */
    for (size_t n = 1; n < m.size; n++)
        bad += parse(m.data, n) == 0;
    CHECK(bad == 0, "%d prefixes accepted", bad);
}

/* Features{ entry{ "a": int64 } } written by hand: 0a L 0a L 0a 01 'a' 12 L 1a L ... */
TEST(packed_unpacked_and_mixed)
{
    CHECK(PARSE("\x0a\x0d\x0a\x0b\x0a\x01"
                "a\x12\x06\x1a\x04\x08\x05\x08\x06") == 0);
    CHECK(field[0].count == 2 && a[0] == 5 && a[1] == 6);
    CHECK(PARSE("\x0a\x0f\x0a\x0d\x0a\x01"
                "a\x12\x08\x1a\x06\x0a\x02\x07\x08\x08\x09") == 0);
    CHECK(field[0].count == 3 && a[0] == 7 && a[1] == 8 && a[2] == 9);
    CHECK(PARSE("\x0a\x0e\x0a\x0c\x0a\x01w\x12\x07\x12\x05\x0d\0\0\x80\x3f") == 0); /* unpacked float */
    CHECK(field[2].count == 1 && w[0] == 1.0f);
    CHECK(PARSE("\x0a\x11\x0a\x0f\x0a\x01"
                "a\x12\x0a\x1a\x08\x0a\x06\1\2\3\4\5\6") == 0);
    CHECK(field[0].count == 6 && a[3] == 4, "values beyond the room are counted, not stored");
}

TEST(repeated_messages_merge_as_protobuf_says)
{
    /* key after value */
    CHECK(PARSE("\x0a\x0b\x0a\x09\x12\x04\x1a\x02\x08\x05\x0a\x01"
                "a") == 0);
    CHECK(field[0].count == 1 && a[0] == 5);
    /* Features given twice: maps merge */
    CHECK(PARSE("\x0a\x0b\x0a\x09\x0a\x01"
                "a\x12\x04\x1a\x02\x08\x05"
                "\x0a\x0b\x0a\x09\x0a\x01"
                "b\x12\x04\x1a\x02\x08\x06") == 0);
    CHECK(field[0].count == 1 && field[1].count == 1 && b[0] == 6);
    /* the same map key twice: the later entry replaces */
    CHECK(PARSE("\x0a\x16\x0a\x09\x0a\x01"
                "a\x12\x04\x1a\x02\x08\x05\x0a\x09\x0a\x01"
                "a\x12\x04\x1a\x02\x08\x06") == 0);
    CHECK(field[0].count == 1 && a[0] == 6);
    /* Int64List twice within one Feature: values concatenate */
    CHECK(PARSE("\x0a\x0f\x0a\x0d\x0a\x01"
                "a\x12\x08\x1a\x02\x08\x05\x1a\x02\x08\x06") == 0);
    CHECK(field[0].count == 2 && a[1] == 6);
    /* oneof: the later kind clears the earlier */
    CHECK(PARSE("\x0a\x11\x0a\x0f\x0a\x01"
                "a\x12\x0a\x1a\x02\x08\x05\x0a\x00\x1a\x02\x08\x07") == 0);
    CHECK(field[0].count == 1 && a[0] == 7 && field[0].found == RP_EXAMPLE_INT64);
    CHECK(PARSE("\x0a\x0d\x0a\x0b\x0a\x01"
                "a\x12\x06\x1a\x02\x08\x05\x0a\x00") == 0);
    CHECK(field[0].count == 0 && field[0].found == RP_EXAMPLE_BYTES);
    /* an entry whose Feature is empty, and one without a value */
    CHECK(PARSE("\x0a\x07\x0a\x05\x0a\x01"
                "a\x12\x00") == 0 && field[0].found == RP_EXAMPLE_ABSENT);
    CHECK(PARSE("\x0a\x05\x0a\x03\x0a\x01"
                "a") == 0 && field[0].found == RP_EXAMPLE_ABSENT);
    CHECK(PARSE("") == 0 && field[0].found == RP_EXAMPLE_ABSENT);
}

TEST(unknown_fields_are_skipped)
{
    /* 2: varint, 3: 64 bit, 4: bytes, 5: group with a group in it, 6: 32 bit; then a Features */
    CHECK(PARSE("\x10\x96\x01\x19\1\2\3\4\5\6\7\x08\x22\x02xy\x2b\x08\x01\x33\x34\x2c\x35\1\2\3\4"
                "\x0a\x0b\x0a\x09\x0a\x01"
                "a\x12\x04\x1a\x02\x08\x05") == 0,
          "%s", err.msg);
    CHECK(field[0].count == 1 && a[0] == 5);
}

TEST(malformed_messages)
{
#define CASE(bytes) {bytes, sizeof(bytes) - 1}
    static const struct {
        const char *bytes;
        size_t size;
    } c[] = {
        CASE("\x80"),
        CASE("\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
        CASE("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
        CASE("\x00\x01"),
        CASE("\x0e"),
        CASE("\x80\x80\x80\x80\x10"),
        CASE("\x0a\x05xx"),
        CASE("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        CASE("\x11\1\2\3"),
        CASE("\x15\1\2"),
        CASE("\x2c"),
        CASE("\x2b\x34"),
        CASE("\x2b"),
        CASE("\x0a\x0c\x0a\x0a\x0a\x01w\x12\x05\x12\x03\x0a\x01x"),
        CASE("\x0a\x0c\x0a\x0a\x0a\x01"
             "a\x12\x05\x1a\x03\x0a\x01\x80"),
    };
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        REFUSED(parse(c[i].bytes, c[i].size) < 0 && err.code == RP_MALFORMED, err.msg);
    }
    char deep[4096];
    memset(deep, 0x2b, sizeof deep);
    REFUSED(parse(deep, sizeof deep) < 0, err.msg);
}
