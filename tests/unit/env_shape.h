/* The shape of an environment document, as repro-env-1.schema.json has it, checked without a schema library. */
#ifndef RP_TESTS_ENV_SHAPE_H
#define RP_TESTS_ENV_SHAPE_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct env_counts {
    int ok, absent, denied, error;
};

/* NULL, or what is wrong with the value */
static const char *value_fault(json_t *v, struct env_counts *c)
{
    const char *name, *state = json_string_value(json_object_get(v, "state")), *source = json_string_value(json_object_get(v, "source"));
    json_t *value = json_object_get(v, "value"), *member, *word;
    size_t i;
    json_object_foreach (v, name, member)
        if (strcmp(name, "state") && strcmp(name, "source") && strcmp(name, "value") && strcmp(name, "unit") && strcmp(name, "detail"))
            return "an unknown member";
        else if (strcmp(name, "value") && (!json_is_string(member) || !json_string_length(member)))
            return "an empty or wrong member";
    if (!state || !source || !value)
        return "a missing member";
    if (strcmp(state, "ok") == 0) {
        c->ok++;
        json_array_foreach (value, i, word)
            if (!json_is_string(word))
                return "a list of something else than words";
        return json_object_get(v, "detail")                                                      ? "a detail though it is ok"
               : json_is_string(value) || json_is_number(value) || json_is_array(value) ? NULL
                                                                                         : "no value though it is ok";
    }
    c->absent += strcmp(state, "absent") == 0;
    c->denied += strcmp(state, "denied") == 0;
    if (strcmp(state, "error") == 0) {
        c->error++;
        if (!json_object_get(v, "detail"))
            return "an error without detail";
    } else if (strcmp(state, "absent") != 0 && strcmp(state, "denied") != 0)
        return "an unknown state";
    return json_is_null(value) ? NULL : "a value though it is not ok";
}

static const char *group_fault(json_t *g, struct env_counts *c, char *where, size_t size, int depth)
{
    const char *name, *fault = NULL;
    json_t *child;
    json_object_foreach (g, name, child) {
        snprintf(where, size, "%s", name);
        if (!json_is_object(child) || depth > 3)
            return "neither a value nor a group";
        fault = json_object_get(child, "state") ? value_fault(child, c) : group_fault(child, c, where, size, depth + 1);
        if (fault)
            return fault;
    }
    return NULL;
}

/* NULL, or what is wrong; where: the name of the culprit; counts of values by state. */
static const char *env_fault(json_t *env, struct env_counts *c, char *where, size_t size)
{
    static const char *const probes[] = {
#define PROBE(name) #name,
#include "capture/probes.def"
#undef PROBE
    };
    const char *when = json_string_value(json_object_get(env, "captured_at")), *salt = json_string_value(json_object_get(env, "salt"));
    json_t *all = json_object_get(env, "probes");
    *c = (struct env_counts){0};
    snprintf(where, size, "document");
    if (json_object_size(env) != 5 || !when || strlen(when) != 20 || !salt || strlen(salt) != 32 || strspn(salt, "0123456789abcdef") != 32 ||
        !json_is_boolean(json_object_get(env, "identified")) ||
        strcmp(json_string_value(json_object_get(env, "schema")), "repro-env/1") != 0)
        return "not the five members of repro-env/1";
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        snprintf(where, size, "%s", probes[i]);
        if (!json_is_object(json_object_get(all, probes[i])) || json_object_get(json_object_get(all, probes[i]), "state"))
            return "a probe that is no group";
    }
    if (json_object_size(all) != sizeof probes / sizeof *probes)
        return "a group that is no probe";
    return group_fault(all, c, where, size, 0);
}

#endif
