/* Files embedded in the program: recipes, the pinned sample archive, licence notices.
 *
 * What:    one table made by the build from recipes/ (build/gen/embed.S, embed.c).
 * Flow:    name ("recipes/bert_fp32.yaml") -> bytes.
 * Owner:   static, read-only.
 * Extend:  every file in recipes/ is embedded, and each case of recipes/gpt/case.in as recipes/gpt/NAME.yaml.
 */
#pragma once

#include <stddef.h>

struct rp_embed {
    const char *name; /* path from the top of the repository; the row with NULL ends the table */
    const unsigned char *data;
    size_t size;
};
extern const struct rp_embed rp_embed_table[];

/* The file of exactly that name, or NULL if this build does not contain it. */
const struct rp_embed *rp_embed_find(const char *name);
