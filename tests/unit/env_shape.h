/* An environment document against its schema, the one that `verify` applies, and what a schema cannot say.
 *
 * What:    env_fault() for every document that a test captures; values counted by their state.
 * Flow:    document -> NULL or the message, counts.
 * Owner:   the message stays until the next call.
 * Extend:  a rule about one document goes into bundle/schemas/env.schema.json, not here.
 */
#pragma once

#include "base/json.h"
#include "bundle/schema.h"

#include <stdio.h>
#include <string.h>

struct env_counts {
    int ok, absent, denied, error;
};

static void env_count(struct env_counts *c, json_t *at)
{
    const char *name, *state = json_string_value(json_object_get(at, "state"));
    json_t *child;
    if (!state)
        json_object_foreach (at, name, child)
            env_count(c, child);
    else
        ++*(!strcmp(state, "ok")       ? &c->ok
            : !strcmp(state, "absent") ? &c->absent
            : !strcmp(state, "denied") ? &c->denied
                                       : &c->error);
}

/* NULL, or what is wrong; counts of values by state. */
static const char *env_fault(json_t *env, struct env_counts *c)
{
    static const char *const probes[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
    };
    static struct rp_err err;
    json_t *all = json_object_get(env, "probes");
    *c = (struct env_counts){0};
    const struct rp_schema *schema = rp_schema_load("env", &err);
    if (!schema || rp_schema_check(schema, env, "environment", &err) < 0)
        return err.msg;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        if (!json_object_get(all, probes[i]))
            return "a probe is missing";
    if (json_object_size(all) != sizeof probes / sizeof *probes)
        return "a group is no probe";
    env_count(c, all);
    return NULL;
}
