/* What the values of a capture mean, and how likely each moves throughput.
 *
 * What:    the table fields.def, by the path of a value.
 * Flow:    path -> row, or NULL: this program does not know the field.
 * Owner:   everything is constant.
 * Extend:  a row in fields.def; tests/unit/test_fields.c names every value of the played machines that has none.
 */
#pragma once

enum rp_impact { RP_IMPACT_NONE, RP_IMPACT_LOW, RP_IMPACT_MEDIUM, RP_IMPACT_HIGH };
const char *rp_impact_name(enum rp_impact i); /* "none" ... */

struct rp_field {
    const char *pattern; /* "gpu.devices.*.clock_sm" */
    enum rp_impact impact;
    int moment; /* differs between any two moments */
    int approx; /* the kernel reserves a varying part of it: equal within 1 % */
    const char *meaning, *source, *why; /* why: "" where nothing is known */
};
extern const struct rp_field rp_fields[]; /* ended by a row without a pattern */

/* Names of things may hold dots ("libnccl.so.2"), so that paths within a program have this between their names. */
#define RP_FIELD_SEPARATOR '\x1f'

/* Does pattern describe path, whose names have `separator` between them? "*" is any text without RP_FIELD_SEPARATOR. */
int rp_field_matches(const char *pattern, const char *path, char separator);
/* The row for a path, of several the most specific one; separator '.' for what people write. */
const struct rp_field *rp_field_find(const char *path, char separator);
