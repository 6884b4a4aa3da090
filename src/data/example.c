#include "data/example.h"

#include <string.h>

enum { WIRE_VARINT, WIRE_64, WIRE_BYTES, WIRE_GROUP, WIRE_END, WIRE_32 };
#define GROUP_DEPTH 32

const char *rp_example_kind_name(enum rp_example_kind kind)
{
    static const char *const name[] = {"nothing", "a bytes list", "a float list", "an int64 list", "a double list"};
    return name[kind];
}

/* Feature kinds by field number, 0 ends the row; OFRecord is Features, without the message around it. */
struct message_form {
    const char *name;
    int wrapped;
    enum rp_example_kind kind[6];
};
static const struct message_form example = {
    "a tf.Example", 1, {0, RP_EXAMPLE_BYTES, RP_EXAMPLE_FLOAT, RP_EXAMPLE_INT64}};
static const struct message_form ofrecord = {
    "an OFRecord", 0, {0, RP_EXAMPLE_BYTES, RP_EXAMPLE_FLOAT, RP_EXAMPLE_DOUBLE, RP_EXAMPLE_INT64, RP_EXAMPLE_INT64}};

/* A part of the message. */
struct span {
    const unsigned char *p, *end;
};

struct parse {
    const unsigned char *start;
    const struct message_form *form;
    struct rp_example_field *field;
    int n;
    struct rp_err *err;
};

static int fail_example(struct parse *s, const unsigned char *at, const char *what)
{
    return rp_fail(s->err, RP_MALFORMED, "not %s: %s at byte %zu of the message", s->form->name, what,
                   (size_t)(at - s->start));
}

static int read_varint(struct parse *s, struct span *m, uint64_t *out)
{
    const unsigned char *at = m->p;
    uint64_t v = 0;
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (m->p == m->end)
            return fail_example(s, at, "truncated varint");
        unsigned char b = *m->p++;
        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            *out = v;
            return 0;
        }
    }
    return fail_example(s, at, "varint longer than 64 bits");
}

static int read_tag(struct parse *s, struct span *m, uint32_t *number, int *wire)
{
    const unsigned char *at = m->p;
    uint64_t t;
    *number = 0;
    *wire = 0;
    if (read_varint(s, m, &t) < 0)
        return -1;
    *number = (uint32_t)(t >> 3);
    *wire = (int)(t & 7);
    if (t > UINT32_MAX || *number == 0)
        return fail_example(s, at, "impossible field number");
    if (*wire > WIRE_32)
        return fail_example(s, at, "impossible wire type");
    return 0;
}

static int read_bytes(struct parse *s, struct span *m, struct span *out)
{
    const unsigned char *at = m->p;
    uint64_t n;
    *out = (struct span){at, at};
    if (read_varint(s, m, &n) < 0)
        return -1;
    if (n > (size_t)(m->end - m->p))
        return fail_example(s, at, "length beyond the end");
    *out = (struct span){m->p, m->p + n};
    m->p += n;
    return 0;
}

static int skip_bytes(struct parse *s, struct span *m, size_t n)
{
    if ((size_t)(m->end - m->p) < n)
        return fail_example(s, m->p, "truncated value");
    m->p += n;
    return 0;
}

static int skip_field(struct parse *s, struct span *m, uint32_t number, int wire);

/* Groups are deprecated, but an unknown field may be one. */
static int skip_group(struct parse *s, struct span *m, uint32_t number)
{
    uint32_t open[GROUP_DEPTH], inner;
    int depth = 0, wire;
    open[depth++] = number;
    while (depth) {
        const unsigned char *at = m->p;
        if (read_tag(s, m, &inner, &wire) < 0)
            return -1;
        if (wire == WIRE_END && inner != open[--depth])
            return fail_example(s, at, "end of another group");
        if (wire == WIRE_GROUP && depth == GROUP_DEPTH)
            return fail_example(s, at, "groups nested too deep");
        if (wire == WIRE_GROUP)
            open[depth++] = inner;
        else if (wire != WIRE_END && skip_field(s, m, inner, wire) < 0)
            return -1;
    }
    return 0;
}

static int skip_field(struct parse *s, struct span *m, uint32_t number, int wire)
{
    uint64_t v;
    struct span b;
    switch (wire) {
    case WIRE_VARINT: return read_varint(s, m, &v);
    case WIRE_64: return skip_bytes(s, m, 8);
    case WIRE_BYTES: return read_bytes(s, m, &b);
    case WIRE_GROUP: return skip_group(s, m, number);
    case WIRE_32: return skip_bytes(s, m, 4);
    default: return fail_example(s, m->p, "end of a group that was not opened");
    }
}

static void add_int(struct rp_example_field *f, uint64_t v)
{
    if (f && f->count < f->cap)
        f->out.i64[f->count] = (int64_t)v;
    if (f)
        f->count++;
}

static void add_float(struct rp_example_field *f, const unsigned char *p)
{
    uint32_t u = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    if (f && f->count < f->cap)
        memcpy(&f->out.f32[f->count], &u, sizeof u);
    if (f)
        f->count++;
}

/* All values of a list as the bytes of one field, which begins at `at`. */
static int read_packed(struct parse *s, const unsigned char *at, struct span b, int floats, struct rp_example_field *f)
{
    uint64_t v;
    if (floats && (b.end - b.p) % 4)
        return fail_example(s, at, "packed floats whose size is not a multiple of 4 bytes");
    while (b.p < b.end) {
        if (floats) {
            add_float(f, b.p);
            b.p += 4;
        } else {
            if (read_varint(s, &b, &v) < 0)
                return -1;
            add_int(f, v);
        }
    }
    return 0;
}

/* Int64List or FloatList; f is NULL to skip the values. A value of another wire type is an unknown field. */
static int read_list(struct parse *s, struct span m, int floats, struct rp_example_field *f)
{
    while (m.p < m.end) {
        const unsigned char *at = m.p;
        uint32_t number;
        int wire;
        uint64_t v;
        if (read_tag(s, &m, &number, &wire) < 0)
            return -1;
        if (number == 1 && wire == (floats ? WIRE_32 : WIRE_VARINT)) {
            if (floats ? skip_bytes(s, &m, 4) < 0 : read_varint(s, &m, &v) < 0)
                return -1;
            if (floats)
                add_float(f, m.p - 4);
            else
                add_int(f, v);
        } else if (number == 1 && wire == WIRE_BYTES) {
            struct span b;
            if (read_bytes(s, &m, &b) < 0 || read_packed(s, at, b, floats, f) < 0)
                return -1;
        } else if (skip_field(s, &m, number, wire) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The next field from..to that is a message or text: its number, its bytes in *out. 0: end; -1: malformed. Other fields
 * are skipped. */
static int next_field(struct parse *s, struct span *m, uint32_t from, uint32_t to, struct span *out)
{
    while (m->p < m->end) {
        uint32_t number;
        int wire;
        if (read_tag(s, m, &number, &wire) < 0)
            return -1;
        if (number >= from && number <= to && wire == WIRE_BYTES)
            return read_bytes(s, m, out) < 0 ? -1 : (int)number;
        if (skip_field(s, m, number, wire) < 0)
            return -1;
    }
    return 0;
}

static int read_bytes_list(struct parse *s, struct span m, struct rp_example_field *f)
{
    struct span b;
    int number;
    while ((number = next_field(s, &m, 1, 1, &b)) > 0) {
        if (f->count < f->cap)
            f->out.bytes[f->count] = (struct rp_example_bytes){b.p, (size_t)(b.end - b.p)};
        f->count++;
    }
    return number;
}

static int read_feature(struct parse *s, struct span m, struct rp_example_field *f)
{
    struct span b;
    int number, last = s->form == &ofrecord ? 5 : 3;
    while ((number = next_field(s, &m, 1, (uint32_t)last, &b)) > 0) {
        enum rp_example_kind kind = s->form->kind[number];
        if (f && f->found != kind) { /* another member of the oneof replaces the one before */
            f->found = kind;
            f->count = 0;
        }
        if (kind == RP_EXAMPLE_BYTES && f && f->want == kind && read_bytes_list(s, b, f) < 0)
            return -1;
        if ((kind == RP_EXAMPLE_FLOAT || kind == RP_EXAMPLE_INT64) &&
            read_list(s, b, kind == RP_EXAMPLE_FLOAT, f && kind == f->want ? f : NULL) < 0)
            return -1;
    }
    return number;
}

static struct rp_example_field *find_wanted(struct parse *s, struct span key)
{
    for (int i = 0; i < s->n; i++)
        if (strlen(s->field[i].name) == (size_t)(key.end - key.p) &&
            memcmp(s->field[i].name, key.p, (size_t)(key.end - key.p)) == 0)
            return &s->field[i];
    return NULL;
}

/* The key may come after the value: one pass finds it, a second reads the values. */
static int read_entry(struct parse *s, struct span m)
{
    struct span keys = m, key = {m.p, m.p}, b;
    int number;
    while ((number = next_field(s, &keys, 1, 1, &key)) > 0)
        ;
    if (number < 0)
        return -1;
    struct rp_example_field *f = find_wanted(s, key);
    if (f) {
        f->found = RP_EXAMPLE_ABSENT;
        f->count = 0;
    }
    while ((number = next_field(s, &m, 2, 2, &b)) > 0)
        if (read_feature(s, b, f) < 0)
            return -1;
    return number;
}

/* A message of which only field 1, itself a message, is used: both Example and Features have this form. */
static int read_wrapper(struct parse *s, struct span m, int (*inner)(struct parse *, struct span))
{
    struct span b;
    int number;
    while ((number = next_field(s, &m, 1, 1, &b)) > 0)
        if (inner(s, b) < 0)
            return -1;
    return number;
}

static int read_features(struct parse *s, struct span m)
{
    return read_wrapper(s, m, read_entry);
}

static int parse_form(const struct message_form *form, const void *data, size_t size, struct rp_example_field *field,
                      int n, struct rp_err *err)
{
    const unsigned char *p = data;
    struct parse s = {.start = p, .form = form, .field = field, .n = n, .err = err};
    for (int i = 0; i < n; i++) {
        field[i].count = 0;
        field[i].found = RP_EXAMPLE_ABSENT;
    }
    return read_wrapper(&s, (struct span){p, p + size}, form->wrapped ? read_features : read_entry);
}

int rp_example_parse(const void *data, size_t size, struct rp_example_field *field, int n, struct rp_err *err)
{
    return parse_form(&example, data, size, field, n, err);
}

int rp_ofrecord_parse(const void *data, size_t size, struct rp_example_field *field, int n, struct rp_err *err)
{
    return parse_form(&ofrecord, data, size, field, n, err);
}

static void put_varint(struct rp_buf *out, uint64_t v)
{
    unsigned char b[10];
    size_t n = 0;
    do {
        b[n++] = (unsigned char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    rp_buf_add(out, b, n);
}

static void put_bytes(struct rp_buf *out, unsigned number, const void *data, size_t size)
{
    put_varint(out, number << 3 | WIRE_BYTES);
    put_varint(out, size);
    rp_buf_add(out, data, size);
}

void rp_example_write(struct rp_buf *out, const struct rp_example_field *field, int n)
{
    RP_BUF all = {0};
    for (int i = 0; i < n; i++) {
        RP_BUF values = {0}, list_ = {0}, feature_ = {0}, entry_ = {0};
        const struct rp_example_field *f = &field[i];
        for (size_t k = 0; k < f->count; k++)
            if (f->want == RP_EXAMPLE_BYTES) {
                put_bytes(&list_, 1, f->out.bytes[k].p, f->out.bytes[k].n);
            } else if (f->want == RP_EXAMPLE_FLOAT) {
                uint32_t u;
                memcpy(&u, &f->out.f32[k], sizeof u);
                unsigned char b[4] = {(unsigned char)u, (unsigned char)(u >> 8), (unsigned char)(u >> 16),
                                      (unsigned char)(u >> 24)};
                rp_buf_add(&values, b, 4);
            } else {
                put_varint(&values, (uint64_t)f->out.i64[k]);
            }
        if (f->count && f->want != RP_EXAMPLE_BYTES)
            put_bytes(&list_, 1, values.data, values.size);
        put_bytes(&feature_, f->want, list_.data, list_.size);
        put_bytes(&entry_, 1, f->name, strlen(f->name));
        put_bytes(&entry_, 2, feature_.data, feature_.size);
        put_bytes(&all, 1, entry_.data, entry_.size);
    }
    put_bytes(out, 1, all.data, all.size);
}
