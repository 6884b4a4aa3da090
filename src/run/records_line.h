/* One line of step records, before its values mean anything.
 *
 * What:    a line is a JSON object as rp_json_write_line() writes it: {"key":value,...} without blanks, keys ascending,
 *          values numbers, strings of printable ASCII without escapes, or a flat object of these.
 * Flow:    rp_line_scan() finds the fields; the others check types and forms, and name line and key where they are
 *          wrong: RP_MALFORMED, or RP_MISMATCH for numbers that are not finite.
 * Owner:   fields point into the line, which is the caller's.
 * Extend:  a form of values is a function here; a key is a row of worker/step.def.
 *
 * Read by hand, because jansson reads 20 MB a second: 280,000 records would take it 6 s, and this takes 0.2 s.
 */
#pragma once

#include "base/err.h"
#include "base/hash.h"
#include "bundle/bundle.h"
#include "worker/job.h"

#include <stdint.h>

struct rp_line_field {
    const char *value; /* points into the line: a string without its quotes, an object with its braces */
    int size;
    char type; /* 's' string, 'i' integer, 'r' real, 'o' object; 0: the line does not have this key */
};

struct rp_record_line {
    struct rp_line_field f[RP_STEP_KEYS]; /* rp_line_scan() sets what follows and the types of all of them */
    uint32_t has;                         /* a bit for each key of the line */
    int rank;
    int64_t number;
    char what[RP_MEMBER_NAME + 24];
};

/* "steps/rank0.jsonl:7", for a message. */
const char *rp_line_place(struct rp_record_line *l);
int rp_line_scan(struct rp_record_line *l, const char *text, size_t size, struct rp_err *err) rp_must_check;
/* The keys with one of the bits `when` of enum rp_step_when, a bit for each; a constant where `when` is one. */
_Static_assert(RP_STEP_KEYS <= 32, "a bit of uint32_t for each key");
static inline uint32_t rp_line_keys(unsigned when)
{
    uint32_t all = 0;
#define STEP_KEY(name, form, of, least) all |= when & RP_WHEN_##of ? 1u << RP_STEP_##name : 0;
#include "worker/step.def"
#undef STEP_KEY
    return all;
}
int rp_line_refuse_keys(struct rp_record_line *l, uint32_t missing, uint32_t unexpected, const char *phase,
                        struct rp_err *err) rp_must_check;
/* Has the line every key with one of the bits `required` of enum rp_step_when, and only keys with one of the bits
 * `allowed`? phase: of the record, for the message. */
static inline int rp_line_check_keys(struct rp_record_line *l, unsigned required, unsigned allowed, const char *phase,
                                     struct rp_err *err)
{
    const uint32_t missing = rp_line_keys(required) & ~l->has, unexpected = l->has & ~rp_line_keys(allowed);
    return missing | unexpected ? rp_line_refuse_keys(l, missing, unexpected, phase, err) : 0;
}
int rp_line_check_type(const struct rp_line_field *f, char type, struct rp_record_line *l, const char *name,
                       struct rp_err *err) rp_must_check;
int rp_line_is(const struct rp_line_field *f, const char *text);

/* A C hex float as this program writes it. may_be_inf: "inf" is a value of it. */
int rp_line_any_float(float *x, const struct rp_line_field *f, int may_be_inf, struct rp_record_line *l,
                      const char *name, struct rp_err *err) rp_must_check;
int rp_line_float(float *x, const struct rp_line_field *f, struct rp_record_line *l, const char *name,
                  struct rp_err *err) rp_must_check;
/* Up to `most` of them with a blank between two; *n: how many. */
int rp_line_floats(float *x, int *n, int most, struct rp_record_line *l, enum rp_step_key key,
                   struct rp_err *err) rp_must_check;
int rp_line_whole(int64_t *out, const struct rp_line_field *f, struct rp_record_line *l, const char *name,
                  int64_t least, int64_t most, struct rp_err *err) rp_must_check;
int rp_line_whole_key(int64_t *out, struct rp_record_line *l, enum rp_step_key key, int64_t most,
                      struct rp_err *err) rp_must_check;
int rp_line_digest(unsigned char out[RP_SHA256_SIZE], struct rp_record_line *l, enum rp_step_key key,
                   struct rp_err *err) rp_must_check;

/* In an object: the value after the name and colon at p, *size: of the name, which begins at p + 1; and the end of that
 * value, which is parsed into *f. NULL: it is not one. */
const char *rp_line_skip_name(const char *p, const char *end, size_t *size);
const char *rp_line_scan_value(struct rp_line_field *f, const char *p, const char *end);
