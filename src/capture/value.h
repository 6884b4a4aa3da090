/* Reading an environment document: known values, and numbers with their units.
 *
 * What:    for readers of a document: doctor, summary, verify, comparisons. Unknown values and values of another type
 *          are NULL or -1.
 * Flow:    group, "name.name" -> value.
 * Owner:   everything returned is borrowed from the document.
 * Extend:  another unit is a branch of rp_show_number().
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* A value or a group of a capture, of JSON that follows bundle/schemas/env.schema.json, or a side of a difference
 * (env_diff.h). */
enum rp_leaf_kind {
    RP_LEAF_MISSING, RP_LEAF_ABSENT, RP_LEAF_UNKNOWN /* denied or error */, RP_LEAF_KNOWN, RP_LEAF_GROUP
};
struct rp_leaf {
    enum rp_leaf_kind kind;
    const char *state, *unit, *source, *detail; /* "" where there is none */
    const json_t *value; /* of a known one; else NULL */
    int64_t values;      /* of a side that is a group: how many known ones it has */
};
struct rp_leaf rp_leaf(const json_t *value);

/* value with its state, or group; no name in path has a dot */
const json_t *rp_value_at(const json_t *group, const char *path);
const json_t *rp_group(const json_t *group, const char *path); /* only a group: to go through what is in it */
const json_t *rp_known(const json_t *group, const char *path); /* what is known */
const char *rp_known_text(const json_t *group, const char *path);
int rp_known_number(const json_t *group, const char *path, double *out); /* 0 or -1 */
int rp_known_is(const json_t *group, const char *path, const char *text); /* is it this text? */
int rp_known_over(const json_t *group, const char *path, double limit);  /* is it a number greater than limit? */
int rp_known_has(const json_t *group, const char *path, const char *word); /* is it a list with this word? */
/* The first of the words, which end with NULL, that a known list does not have; else NULL. */
const char *rp_known_lacks(const json_t *group, const char *path, const char *const *words);
const char *rp_state_at(const json_t *group, const char *path); /* "ok" ...; "absent" where there is nothing */

/* Why a value is not known; "" where it does not say. */
const char *rp_detail_at(const json_t *group, const char *path);

/* "31.0 GiB", "2.70 GHz", "400 Gbit/s", "12" by its unit, which may be NULL. */
void rp_show_number(char out[32], double number, const char *unit);
/* 1.2.10 after 1.2.9: numbers by numbers; less than, equal to, or greater than zero. */
int rp_compare_versions(const char *a, const char *b);
