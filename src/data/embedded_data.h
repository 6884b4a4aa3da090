/* Archives embedded in this program.
 *
 * What:    finds an archive in the embedded table by its file name without directories.
 * Flow:    "bert_sample.tar.xz" -> its bytes, which are constants.
 * Extend:  the build adds every archive of recipes/ to the table of base/embed.h; add its two digests to digests[].
 */
#pragma once

#include "data/archive.h"
#include "recipe/recipe.h"

#define RP_EMBEDDED_MAX (256u << 20) /* unpacked bytes of one embedded archive */

int rp_embedded_archive(const char *name, struct rp_archive_source *s); /* 0, or -1: no such archive */
/* rp_files_digest() of the samples in the embedded archive with this SHA-256, as a run records it; NULL: no such
 * archive. */
const char *rp_embedded_digest(const char *archive_sha256);
/* Whether the recipe names the embedded sample of BERT, but other lengths than those of its records: then the generator
 * that made the sample makes it for these lengths (data/synthetic/make.h), the same bytes everywhere. */
int rp_embedded_is_remade(const struct rp_recipe *r);
/* The name of the i-th archive, NULL at the end. */
const char *rp_embedded_archive_name(int i);
