/* Documents of a made-up run, for tests of the comparison. */
#pragma once

#include "base/json.h"
#include "run/run.h"
#include "tests/unit/tap.h"

#include <stdlib.h>

/* A run of that many ranks of a kind on one node. */
static struct rp_run_documents *documents(const char *kind, int ranks)
{
    struct rp_run_documents *d = rp_alloc(sizeof *d);
    d->references = 1;
    rp_object_init(&d->facts, &rp_type_facts);
    rp_object_init(&d->figures, &rp_type_figures);
    d->facts.status = rp_strdup("complete");
    d->facts.recipe_name = rp_strdup("r.yaml");
    d->facts.backend = rp_strdup(kind);
    d->facts.started_at = rp_strdup("2026-09-21T14:13:20Z");
    d->facts.tool.version = rp_strdup("1");
    d->facts.data.digest = rp_strdup("");
    d->facts.layout = (struct rp_layout_facts){ranks, 1, 1};
    d->figures.model.name = rp_strdup("bert");
    d->figures.world = (struct rp_world){ranks, 1, 0};
    for (int i = 0; i < ranks; i++) {
        rp_object_add(&d->facts.rank, &d->facts.rank_n, &rp_type_rank_facts);
        rp_object_add(&d->figures.rank, &d->figures.rank_n, &rp_type_rank_figures);
    }
    rp_object_add(&d->figures.node, &d->figures.node_n, &rp_type_node_figures);
    return d;
}
