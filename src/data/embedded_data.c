#include "data/embedded_data.h"

#include "base/embed.h"
#include "base/text.h"

#include <string.h>

/* SHA-256 of each archive, and the digest of its samples: computing them would take most of the time of verifying a
 * small bundle. tests/unit/test_verify.c computes and compares them. */
static const struct {
    const char *archive, *samples;
    int seq_length, predictions; /* that its records have; 0: any length can be read from it */
} digests[] = {
    {"d9b5800599a0088feef16500bba741d3e4ba74f05622458c27dcbc86a5ce045a",
     "ee395fe4f74f35b188402cf4819d69461824ae7553594bf3df3775f7c48a1cc9", 128, 20},
    {"959b15a72976f4084aa2d8bc9a2dd4b62d44f8ff76bab973dcd2da1efdab8ff8",
     "b55943c1afd45cb7dee7f2e8bb6ab284724310dd9682f094b313ae1ec431a7ca", 0, 0},
    {"9155636105a2b18a83238487fa6e397084cd2e89a7e22e7b3dd77271ec9510cb",
     "8aa65fbbacc4711ccd7063856f47eee058ede4917eaab765bc04b6c30f0ee3db", 0, 0},
};

const char *rp_embedded_digest(const char *archive_sha256)
{
    for (size_t i = 0; i < sizeof digests / sizeof *digests; i++)
        if (strcmp(digests[i].archive, archive_sha256) == 0)
            return digests[i].samples;
    return NULL;
}

int rp_embedded_is_remade(const struct rp_recipe *r)
{
    for (size_t i = 0; r->data_sha256 && r->task_seq_length > 0 && i < sizeof digests / sizeof *digests; i++)
        if (digests[i].seq_length && strcmp(digests[i].archive, r->data_sha256) == 0)
            return r->task_seq_length != digests[i].seq_length || r->task_max_predictions != digests[i].predictions;
    return 0;
}

static int is_archive(const char *name)
{
    return strstr(name, ".tar") || strstr(name, ".zip");
}

int rp_embedded_archive(const char *name, struct rp_archive_source *s)
{
    for (const struct rp_embed *e = rp_embed_table; e->name; e++)
        if (is_archive(e->name) && strcmp(rp_base_name(e->name), name) == 0) {
            *s = (struct rp_archive_source){.name = rp_base_name(e->name), .fd = -1, .data = e->data, .size = e->size};
            return 0;
        }
    return -1;
}

const char *rp_embedded_archive_name(int i)
{
    for (const struct rp_embed *e = rp_embed_table; e->name; e++)
        if (is_archive(e->name) && i-- == 0)
            return rp_base_name(e->name);
    return NULL;
}
