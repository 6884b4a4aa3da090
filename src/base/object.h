/* JSON objects that are structs in C: one list of fields makes the struct, its reader, its writer and its JSON Schema.
 *
 * What:    a list in a .def file has objects, smaller ones first, of rows:
 *            OBJECT(id, meaning)                          struct rp_<id>
 *            FIELD(id, name, TYPE, or_null, limit, unit, label, meaning)
 *                                                         one value; or_null 1: null where it is not known,
 *                                                         2: absent there
 *            PART(id, name, of, meaning)                  struct rp_<of> name
 *            PART_OR_NONE(id, name, of, meaning)          struct rp_<of> *name: absent where it is NULL
 *            LIST(id, name, of, limit, meaning)           struct rp_<of> *name; int64_t name_n
 *            LIST_OR_NONE(id, name, of, limit, meaning)   the same: absent where it is empty
 *            TEXTS(id, name, limit, meaning)              char **name; int64_t name_n: absent where it is NULL;
 *                                                         limit: of texts, and after a blank of characters of one
 *            INTEGERS(id, name, limit, meaning)           int64_t *name; int64_t name_n
 *            END(id)
 *          A label makes the value a row of reports and pages, and of comparisons where it differs.
 * Flow:    RP_OBJECT_LIST, object_structs.inc.h and object_tables.inc.h -> structs and rp_type_<id>, struct
 *          rp_object_type; JSON that follows its schema <-> the struct.
 * Owner:   what rp_object_read() fills belongs to the struct; rp_object_fini() frees it.
 * Extend:  a type is a row of RP_FIELD_TYPES with its case in object.c.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/hash.h"

#include <jansson.h>
#include <math.h>
#include <stdint.h>

#define RP_NO_INTEGER INT64_MIN /* null; of the other types: NaN, NULL, "", -1 of a BOOL */

/* TYPE, C type, suffix of the declarator, what `limit` is:
 *   COUNT     at least 0, at most limit        INTEGER  any                     NUMBER  a double of at least 0
 *   SIGNED    any double                       BOOL     0, 1                    TEXT    UTF-8, at most limit characters
 *   NAME      a-z, 0-9 and _, at most 31       TIME     RFC 3339 in UTC         SHA256  64 hex digits
 *   CHOICE    one of the words of limit        MATCH    follows the pattern limit
 *   FLOAT     {"value", "hex"}: a float to its last bit
 *   INTERVAL  [low, high]                      JSON     what follows the schema limit */
#define RP_FIELD_TYPES(X)                                                                                              \
    X(COUNT, int64_t, )                                                                                                \
    X(INTEGER, int64_t, )                                                                                              \
    X(NUMBER, double, )                                                                                                \
    X(SIGNED, double, )                                                                                                \
    X(BOOL, int, )                                                                                                     \
    X(TEXT, char *, )                                                                                                  \
    X(NAME, char *, )                                                                                                  \
    X(TIME, char *, )                                                                                                  \
    X(SHA256, char, [RP_SHA256_HEX])                                                                                   \
    X(CHOICE, char *, )                                                                                                \
    X(MATCH, char *, )                                                                                                 \
    X(FLOAT, float, )                                                                                                  \
    X(INTERVAL, double, [2])                                                                                           \
    X(JSON, json_t *, )

#define X(id, c, array) typedef c rp_field_##id array;
RP_FIELD_TYPES(X)
#undef X

enum rp_field_type {
#define X(id, c, array) RP_IS_##id,
    RP_FIELD_TYPES(X)
#undef X
    RP_IS_PART,
    RP_IS_PART_OR_NONE,
    RP_IS_LIST,
    RP_IS_TEXTS,
    RP_IS_INTEGERS
};

struct rp_object_type;
struct rp_object_field {
    const char *name;
    enum rp_field_type type;
    int or_null;
    size_t offset, count; /* in the struct; count: of the number of elements */
    const struct rp_object_type *of;
    const char *limit, *unit, *label, *meaning;
};
struct rp_object_type {
    const char *name, *meaning;
    size_t size;
    const struct rp_object_field *field;
    int n;
};

/* Every value that may be null is; lists are empty. */
void rp_object_init(void *object, const struct rp_object_type *type);
void rp_object_fini(void *object, const struct rp_object_type *type);
/* Fills *object with the values of a document that follows rp_object_schema(). Of any other JSON, or NULL, a value that
 * is missing or of another type stays as rp_object_init() left it, and other keys are ignored. */
void rp_object_read(void *object, const struct rp_object_type *type, const json_t *j);
/* RP_READ(id, name, json): struct rp_<id> name, read from it, and finished at the end of the scope. */
#define RP_READ(id, name, json)                                                                                        \
    __attribute__((cleanup(rp_object_end_##id))) struct rp_##id name;                                                  \
    rp_object_read(&(name), &rp_type_##id, json)
/* The same of a message from another process: RP_MALFORMED with `what` ("JOIN") where a value is missing, of another
 * type or out of range; other keys are ignored. The object can be finished in any case. */
int rp_object_take(void *object, const struct rp_object_type *type, const json_t *j, const char *what,
                   struct rp_err *err) rp_must_check;
json_t *rp_object_json(const void *object, const struct rp_object_type *type);
/* The value of a field as the document has it; NULL: absent. Owned by the caller. */
json_t *rp_object_value(const void *object, const struct rp_object_field *f);
/* The struct of a PART or PART_OR_NONE; NULL: none. */
const void *rp_object_part(const void *object, const struct rp_object_field *f);
/* JSON Schema. id: what its key "schema" must be, NULL: it has none; title: of the whole. */
json_t *rp_object_schema(const struct rp_object_type *type, const char *id, const char *title);
/* An element at the end of a list, initialised: rp_object_add(&x->rank, &x->rank_n, type). */
void *rp_object_add(void *list, int64_t *n, const struct rp_object_type *type);
/* rp_strdup() of it, or NULL. */
char *rp_text_copy(const char *text);
const char *rp_text_or_empty(const char *text); /* itself; "" for NULL */
/* A text at the end of TEXTS, which may still be NULL; the list takes it. */
void rp_texts_add(char ***list, int64_t *n, char *text);
