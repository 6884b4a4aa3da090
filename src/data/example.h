/* tf.Example: the protobuf message in TFRecord files of machine-learning data; and OneFlow's OFRecord, which is made
 * like it.
 *
 * What:    a wire-format reader for int64, float and bytes lists, selected by name, and a writer.
 * Flow:    message bytes + table of wanted fields -> values in the caller's arrays and their counts.
 * Owner:   the caller owns names and arrays; nothing is allocated. Values of bytes lists point into the message.
 * Extend:  a message of the same form is a struct message_form in example.c.
 *
 *     message Example   { Features features = 1; }
 *     message Features  { map<string, Feature> feature = 1; }        an entry is { string key = 1; Feature value = 2; }
 *     message Feature   { oneof kind { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
 *                       }
 *     message FloatList { repeated float value = 1 [packed = true]; }  message Int64List { repeated int64 value = 1
 *                                                                      [packed = true]; }
 *     message BytesList { repeated bytes value = 1; }
 *
 *     message OFRecord  { map<string, Feature> feature = 1; }          with kinds bytes 1, float 2, double 3, int32 4,
 *                                                                      int64 5;
 *                                                                        int32 lists are read as int64 lists, double
 *                                                                        lists are not read
 *
 * As protobuf defines: fields come in any order, packed and unpacked values may be mixed, unknown fields are skipped, a
 * repeated message is merged, and the last entry of a repeated map key, or the last kind of a oneof, wins. Stricter
 * than protobuf: a varint that does not fit 64 bits is refused instead of truncated.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum rp_example_kind { RP_EXAMPLE_ABSENT, RP_EXAMPLE_BYTES, RP_EXAMPLE_FLOAT, RP_EXAMPLE_INT64, RP_EXAMPLE_DOUBLE };
const char *rp_example_kind_name(enum rp_example_kind kind); /* "a float list" */

struct rp_example_bytes {
    const unsigned char *p;
    size_t n;
};

struct rp_example_field {
    const char *name;
    enum rp_example_kind want; /* RP_EXAMPLE_FLOAT, RP_EXAMPLE_INT64 or RP_EXAMPLE_BYTES */
    union {
        int64_t *i64;
        float *f32;
        struct rp_example_bytes *bytes;
    } out;                       /* [cap] */
    size_t cap;
    size_t count;                /* result: values in the message; those beyond cap are counted, not stored */
    enum rp_example_kind found;  /* result: ABSENT when the message has no such field or an empty Feature */
};

/* Fills count and found of every field. RP_MALFORMED, with the byte offset, for a message that is not well-formed; the
 * caller checks for fields that are absent or have the wrong kind or length. */
int rp_example_parse(const void *data, size_t size, struct rp_example_field *field, int n,
                     struct rp_err *err) rp_must_check;
int rp_ofrecord_parse(const void *data, size_t size, struct rp_example_field *field, int n,
                      struct rp_err *err) rp_must_check;

/* Appends a serialised Example with n fields, packed, in the order given; each has `count` values, in `out`. */
void rp_example_write(struct rp_buf *out, const struct rp_example_field *field, int n);
