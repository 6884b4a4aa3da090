/* Archives inside this program.
 *
 * What:    finds an archive in the embedded table by its file name, whatever folder it was embedded from.
 * Flow:    "bert_sample.tar.xz" -> the bytes.
 * Owner:   the bytes belong to the program.
 * Extend:  the build puts every archive of recipes/ into base/embed.h's table; its two digests are a row of digests[].
 */
#ifndef RP_DATA_EMBEDDED_H
#define RP_DATA_EMBEDDED_H

#include "data/archive.h"

#define RP_EMBEDDED_MAX (256u << 20) /* unpacked bytes of one embedded archive */

int rp_embedded_archive(const char *name, struct rp_archive_source *s); /* 0, or -1: no such archive */
/* The digest of the samples in the archive that has that SHA-256, as rp_files_digest() counts it and a run records it; NULL: no archive of
 * this program. */
const char *rp_embedded_digest(const char *archive_sha256);
/* The i-th archive of the table, for listings: its name, or NULL at the end. */
const char *rp_embedded_archive_name(int i);

#endif
